"""Every variable and setting of kcl, typed, in one place; the reference page is generated from `SETTINGS`.

This module and `kcl.adapters` are the only readers of the environment.
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

LAYERS = ("generator", "binary")

_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"", "0", "false", "no", "off"})


class Setting(NamedTuple):
    """One variable: its name, the values it takes, its default, and what it does."""

    variable: str
    values: str
    default: str
    effect: str


SETTINGS = (
    Setting(
        "KCL_CACHE_DIR",
        "an absolute path",
        "unset",
        "Root of kcl's folders `pytools/`, `pyopencl/` and `kcl/`, instead of the platform's cache directory.",
    ),
    Setting(
        "KCL_NO_CACHE",
        "`1`, or a comma-separated list of `generator`, `binary`",
        "unset",
        "Switches the named layers of kcl off, `1` all of them; a layer that is off opens, creates and writes no file.",
    ),
    Setting(
        "KCL_PROMOTE",
        "`background` or `off`",
        "background",
        "Where a driver is slow to give out a binary (PoCL), a helper process completes the entries; `off` leaves "
        "them to the driver's own cache.",
    ),
    Setting(
        "KCL_REPORT",
        "`1`, `explain`, or both: `1,explain`",
        "unset",
        "Prints on stderr at exit: `1` the report (layer, hits, misses, bypassed, seconds, bytes, place), `explain` "
        "what missed in this process and why.",
    ),
    Setting(
        "KCL_STRICT",
        "`hit`, `fault` or `hit,fault`",
        "unset",
        "`hit`: any outcome but a hit in a layer that is on raises `kcl.CacheMiss`; `fault`: a fault of the cache "
        "raises `kcl.CacheFault` instead of being a miss.",
    ),
    Setting(
        "KCL_VERIFY",
        "`1`, a fraction such as `0.01`, `results`, or a fraction and `results`: `0.01,results`",
        "unset",
        "Runs the recipe although the generator layer hits, for every kernel or for a fraction of them, and compares "
        "what is generated with what is stored; `results` also compares, at the first launch, what the stored binary "
        "computes with what a program built from source computes.",
    ),
)


class Settings(NamedTuple):
    """The settings as they were read at one moment; `rejected` names the values that were not understood."""

    cache_dir: str | None
    no_cache: frozenset[str]
    no_cache_value: str
    promote: str
    report: frozenset[str]
    strict: frozenset[str]
    verify: float
    verify_results: bool
    rejected: tuple[str, ...]


def read() -> Settings:
    """Read every setting from the environment, as of now.

    A value that is not understood counts as "off" for a cache and is named in `Settings.rejected`.
    """
    rejected: list[str] = []
    verify, verify_results = _verification("KCL_VERIFY", rejected)
    return Settings(
        cache_dir=_cache_dir(rejected),
        no_cache=_layers("KCL_NO_CACHE", rejected),
        no_cache_value=os.environ.get("KCL_NO_CACHE", ""),
        promote=_choice("KCL_PROMOTE", ("background", "off"), "off", "background", rejected),
        report=_report("KCL_REPORT", rejected),
        strict=_words("KCL_STRICT", ("hit", "fault"), rejected),
        verify=verify,
        verify_results=verify_results,
        rejected=tuple(rejected),
    )


def environment() -> dict[str, str]:
    """Return a copy of the environment for a child process."""
    return dict(os.environ)


def variable(name: str) -> str | None:
    """Return one variable of the environment as it is now."""
    return os.environ.get(name)


def home() -> str:
    """Return the user's home directory, which need not exist."""
    return os.path.expanduser("~")


def user_cache_dir(application: str) -> str:
    """Return the directory that `platformdirs`, hence pytools and pyopencl, uses for `application`.

    Linux is answered here since importing platformdirs costs a tenth of a warm start; a relative
    `XDG_CACHE_HOME` is ignored as platformdirs ignores it.
    """
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if sys.platform == "darwin" and xdg:
        return os.path.join(xdg, application)
    if sys.platform in ("darwin", "win32"):
        import platformdirs

        return platformdirs.user_cache_dir(application, application)
    if xdg.strip() and os.path.isabs(xdg):
        return os.path.join(xdg, application)
    return os.path.join(home(), ".cache", application)


def _cache_dir(rejected: list[str]) -> str | None:
    value = os.environ.get("KCL_CACHE_DIR", "")
    if not value:
        return None
    if not os.path.isabs(value):
        rejected.append(f"KCL_CACHE_DIR={value!r} is not an absolute path and is ignored")
        return None
    return value


def _report(variable: str, rejected: list[str]) -> frozenset[str]:
    """Read what is printed at exit: "table", "explain", or both."""
    asked = {word.strip() for word in os.environ.get(variable, "").lower().split(",")} - _NO
    unknown = asked - _YES - {"explain"}
    if unknown:
        rejected.append(f"{variable}: {', '.join(sorted(unknown))} is not understood; use 1, explain, or 1,explain")
    return frozenset({"table"} if asked & _YES else ()) | (asked & {"explain"})


def _choice(variable: str, choices: tuple[str, ...], fallback: str, default: str, rejected: list[str]) -> str:
    value = os.environ.get(variable, "").lower()
    if not value:
        return default
    if value in choices:
        return value
    rejected.append(f"{variable}={value!r} is not one of {', '.join(choices)}; {fallback!r} is used")
    return fallback


def _words(variable: str, known: tuple[str, ...], rejected: list[str]) -> frozenset[str]:
    words = frozenset(word.strip().lower() for word in os.environ.get(variable, "").split(",")) - {""}
    for word in sorted(words - frozenset(known)):
        rejected.append(f"{variable}: {word!r} is not one of {', '.join(known)} and is ignored")
    return words & frozenset(known)


def _verification(variable: str, rejected: list[str]) -> tuple[float, bool]:
    """Read the fraction of look-ups that are verified, and whether results are too; what is not understood is all."""
    words = [word.strip().lower() for word in os.environ.get(variable, "").split(",")]
    results = "results" in words
    words = [word for word in words if word not in ("results", *_NO)]
    if not words:
        return float(results), results
    try:
        fraction = 1.0 if words[0] in _YES else float(words[0])
    except ValueError:
        fraction = -1.0
    if len(words) == 1 and 0.0 <= fraction <= 1.0:
        return fraction, results
    rejected.append(f"{variable}={','.join(words)!r} is not 1, a fraction or results; every look-up is verified")
    return 1.0, results


def _layers(variable: str, rejected: list[str]) -> frozenset[str]:
    value = os.environ.get(variable, "").strip().lower()
    if value in _NO:
        return frozenset()
    if value in _YES:
        return frozenset(LAYERS)
    words = frozenset(word.strip() for word in value.split(",")) - {""}
    unknown = words - frozenset(LAYERS)
    if unknown:
        rejected.append(
            f"{variable}={value!r}: {', '.join(sorted(unknown))} is no layer (generator, binary); all layers are off"
        )
        return frozenset(LAYERS)
    return words
