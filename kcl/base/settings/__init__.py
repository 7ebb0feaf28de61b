"""Settings: every variable of kcl, and the user's settings file.

A setting comes from its variable, else from the user's settings file, else from its default. The page of variables is
generated from `SETTINGS`. This package and `kcl.caches` are the only readers of the environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from kcl.base import process

N = TypeVar("N", int, float)

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # the directory of kcl itself
CHECKOUT_FOLDER = ".kcl_cache"
RUN = "KCL_RUN"  # only `kcl run` sets this, for its children
# The names of the layers, in the order of the line: `kcl.cache.layers.TABLE` has a row for each.
LAYERS = GENERATOR, BINARY = "generator", "binary"

_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"", "0", "false", "no", "off"})
_UNITS = "KMGTP"
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
# Open MPI, MPICH and Intel MPI, MVAPICH, PMIx; Slurm, PBS, LSF, Flux, Cobalt, Grid Engine
_BATCH = (
    *("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_SIZE", "PMIX_RANK"),
    *("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "COBALT_JOBID", "PE_HOSTFILE"),
)
# The beginnings of the names of all their variables.
_LAUNCHERS = (
    *("OMPI_", "OPAL_", "PRTE_", "PMI_", "PMIX_", "MPI_", "MPIR_", "HYDRA_", "HYDI_", "MV2_", "I_MPI_"),
    *("SLURM_", "PBS_", "LSB_", "FLUX_", "COBALT_", "SGE_", "PE_"),
)


class Setting(NamedTuple):
    """One setting: its variable, the values it takes, its default, and its effect."""

    variable: str
    values: str
    default: str
    effect: str

    @property
    def key(self) -> str:
        """The name in the settings file."""
        return _key(self.variable)


SETTINGS = (
    Setting(
        "KCL_AHEAD",
        "`1` or `0`",
        "1 where the process may use more than one processor, else 0",
        "On PoCL, while its own cache is on, a second thread builds the programs that the last run of the same driver "
        "asked for next, as the first one binds and launches; `0`: none is made before it is asked for.",
    ),
    Setting(
        "KCL_CACHE_DIR",
        "an absolute path",
        "unset",
        "Root of kcl's folders `pytools/`, `pyopencl/` and `kcl/`, instead of the platform's cache directory.",
    ),
    Setting(
        "KCL_MAX_AGE",
        "a number and a unit: `90d`, `12w`; `0`: no bound",
        "365d",
        "Entries that were not used for so long are removed when the entries are measured, a tenth of all at most at "
        "a time.",
    ),
    Setting(
        "KCL_MAX_SIZE",
        "bytes, with a unit or without: `500M`, `2G`; `0`: no bound",
        "2G",
        "Bounds what the entries of both layers take on disk. Where they take more, kernels are removed until a tenth "
        "of the bound is free: first those that were used longest ago.",
    ),
    Setting(
        "KCL_NO_CACHE",
        "`1`, or a comma-separated list of `generator`, `binary`",
        "unset",
        "Switches the named layers of kcl off, `1` all of them; a layer that is off opens, creates and writes no file.",
    ),
    Setting(
        "KCL_PROGRESS",
        "`1` or `0`",
        "1 where stderr is a terminal, else 0",
        "After two seconds of work that was not in the cache, says on one line of stderr which kernel is being built; "
        "the line is erased as the work ends. `1`: also where stderr is no terminal, as lines that stay.",
    ),
    Setting(
        "KCL_PROMOTE",
        "`background`, `exit` or `off`",
        "background",
        "Where a driver is slow to give out a binary (PoCL), a helper process completes the entries: `background` "
        "after the first launches, `exit` as the process ends; `off` leaves the jobs to later runs and to `kcl flush`.",
    ),
    Setting(
        "KCL_REMOTE",
        "the address of a remote: `redis://host/0`, `s3://bucket/prefix`, `https://host/path`, `file:///dir`; `off`",
        "unset",
        "The remote whose pack warms the cache of a driver at its first miss, if a trusted key has signed it.",
    ),
    Setting(
        "KCL_REPORT",
        "`1`, `kernels`, `explain`, `json:PATH`, or several: `kernels,explain,json:/tmp/report.jsonl`",
        "unset",
        "Prints on stderr at exit: `1` the report (layer, hits, misses, bypassed, errors, seconds, saved, bytes, "
        "files), `kernels` the same with a row for each kernel with its parameters, `explain` what missed in this "
        "process and why. `json:PATH`, which comes last, adds a line of JSON to the file at this absolute path: one "
        "for each process that ends, with the members that `kcl report --json` prints.",
    ),
    Setting(
        "KCL_STRICT",
        "`hit`, `fault` or `hit,fault`",
        "unset",
        "`hit`: any outcome but a hit in a layer that is on raises `kcl.CacheMiss`; a hit does not raise where loopy "
        "had to be imported all the same; `fault`: a fault of the cache raises `kcl.CacheFault` and is no miss. With "
        "any other value each look-up raises `kcl.SettingError`.",
    ),
    Setting(
        "KCL_TRACE",
        "an absolute path",
        "unset",
        "Adds what took how long to this file as each process ends, as Chrome trace events, which Perfetto and "
        "speedscope show: import, record, make, generate, build, load, complete, first launch, by kernel and layer.",
    ),
    Setting(
        "KCL_VERIFY",
        "`1`, a fraction such as `0.01`, `results`, or a fraction and `results`: `0.01,results`",
        "unset",
        "Has loopy carry the record out and generate although the generator layer hits, for every kernel or for a "
        "fraction of them, and compares the code with what is stored; a pure recipe is run for that; `results` also "
        "compares, at the first launch, what the stored binary and a program built from source compute.",
    ),
)

# Settings of the settings files alone: no variable widens what is trusted or sent.
FILE_SETTINGS = (
    Setting("remote_fresh", "an age: `10min`, `1h`", "1h", "The remote is asked for a pack again after this time."),
    Setting("remote_name", "a text", "the driver's folder and file", "Names the pack of every driver of this user."),
    Setting("remote_timeout", "an age: `2s`", "2s", "A process waits for its pack no longer."),
    Setting("remote_unsigned", "a list of addresses", "none", "The remotes whose packs need no signature."),
    Setting("remote_write", "`true`, `false` or `exit`", "false", "Pushes what a driver made: `true` after it ended."),
    Setting("signing_key", "the name of a key", "the only key", "The key that signs what is pushed: `kcl key new`."),
    Setting("trusted_keys", "a list of keys `NAME:base64`", "none", "Packs that these signed are loaded."),
)


class Settings(NamedTuple):
    """The settings as read at one moment; `rejected` names the values that kcl did not understand."""

    ahead: bool
    cache_dir: str | None
    cache_dir_reason: str
    max_age: float
    max_size: int
    no_cache: frozenset[str]
    no_cache_value: str
    progress: bool
    promote: str
    remote: str
    report: frozenset[str]
    report_file: str | None
    strict: frozenset[str]
    strict_fault: str
    trace: str | None
    verify: float
    verify_results: bool
    rejected: tuple[str, ...]


def read() -> Settings:
    """Read every setting: the environment as it is now, and the settings file as it was at the first call.

    A value that kcl does not understand counts as "off" for a cache. `Settings.rejected` names it.
    """
    rejected = list(_file()[2])
    cache_dir, cache_dir_reason = _cache_dir(rejected)
    verify, verify_results = _verification("KCL_VERIFY", rejected)
    report, report_file = _report("KCL_REPORT", rejected)
    strict, strict_fault = _strict("KCL_STRICT", rejected)
    return Settings(
        ahead=_switch("KCL_AHEAD", processors() > 1, rejected),
        cache_dir=cache_dir,
        cache_dir_reason=cache_dir_reason,
        max_age=_bound("KCL_MAX_AGE", age, 365 * 86400.0, "an age such as 90d or 12w", rejected),
        max_size=_bound("KCL_MAX_SIZE", size, 2_000_000_000, "bytes such as 500M or 2G", rejected),
        no_cache=_layers("KCL_NO_CACHE", rejected),
        no_cache_value=_given("KCL_NO_CACHE"),
        progress=_switch("KCL_PROGRESS", is_terminal(), rejected),
        promote=_promotion("KCL_PROMOTE", rejected),
        remote=_remote("KCL_REMOTE", rejected),
        report=report,
        report_file=report_file,
        strict=strict,
        strict_fault=strict_fault,
        trace=_absolute("KCL_TRACE", rejected),
        verify=verify,
        verify_results=verify_results,
        rejected=tuple(rejected),
    )


def is_terminal() -> bool:
    """Tell whether stderr is a terminal."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # stderr is closed
        return False


def processors() -> int:
    """Return the number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # some systems do not report it
        return os.cpu_count() or 1


def batch() -> str:
    """Return the variable that shows an MPI launcher or a batch scheduler as the starter of this process, else ""."""
    return next((name for name in _BATCH if os.environ.get(name)), "")


def environment() -> dict[str, str]:
    """Return a copy of the environment for a child process."""
    return dict(os.environ)


def environment_alone() -> dict[str, str]:
    """Return a copy of the environment for a process that an MPI launcher or a batch scheduler must not know."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_LAUNCHERS)}


def export(variables: Mapping[str, str]) -> None:
    """Set variables of the environment, for this process and its children."""
    os.environ.update(variables)
    process.changed()


def variable(name: str) -> str | None:
    """Return one variable of the environment as it is now."""
    return os.environ.get(name)


def home() -> str:
    """Return the absolute path of the user's home directory, which need not exist.

    A user without HOME and without an entry in the list of users has a private home among the temporary directories.
    """
    found = os.path.expanduser("~")
    return found if os.path.isabs(found) else private_folder(temporary())


def names_cache_home() -> bool:
    """Tell whether the environment or the list of users names a place for caches, as `platformdirs` requires."""
    return os.path.isabs(os.environ.get("XDG_CACHE_HOME", "").strip()) or os.path.isabs(os.path.expanduser("~"))


def private_folder(root: str) -> str:
    """Return this user's directory below `root`, a directory for temporary files.

    The directory need not exist, and another user may own it.
    """
    user = "user" if sys.platform == "win32" else str(os.getuid())
    return os.path.join(root, f"kcl-{user}")


def temporary() -> str:
    """Return the directory for temporary files, as `tempfile` finds it without writing there."""
    named = [os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
    places = (*named, "/tmp", "/var/tmp", "/usr/tmp")
    return next((path for path in places if os.path.isabs(path) and os.path.isdir(path)), os.path.abspath(os.sep))


def settings_file() -> str:
    """Return the path of the user's settings file, which need not exist."""
    xdg = os.environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(xdg):
        return os.path.join(xdg, "kcl", "config.toml")
    if sys.platform in ("darwin", "win32"):
        import platformdirs

        return os.path.join(platformdirs.user_config_dir("kcl", False), "config.toml")
    return os.path.join(home(), ".config", "kcl", "config.toml")


def from_file() -> dict[str, str]:
    """Return the texts of the settings in the settings file, by their names there."""
    return dict(_file()[0])


def user_cache_dir(application: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the directory that `platformdirs`, hence pytools and pyopencl, uses for `application` in an environment.

    On Linux this function answers itself, since importing platformdirs costs a tenth of a warm start. It ignores a
    relative `XDG_CACHE_HOME`, as platformdirs does.
    """
    xdg = environment.get("XDG_CACHE_HOME", "")
    if sys.platform == "darwin" and xdg:
        return os.path.join(xdg, application)
    if sys.platform in ("darwin", "win32"):
        import platformdirs

        return platformdirs.user_cache_dir(application, application)
    if xdg.strip() and os.path.isabs(xdg):
        return os.path.join(xdg, application)
    return os.path.join(home(), ".cache", application)


# The content of a settings file: the text of each setting, the token of each checkout, and the faults of the file.
_Says = tuple[dict[str, str], dict[str, str], tuple[str, ...]]

SITE_FILE = "/etc/kcl/config.toml"  # root's settings for all users, read below the user's own
_DEPTH = 64


class State:
    """The settings file, and the cache directory of the checkout."""

    def __init__(self) -> None:
        self.loaded: _Says | None = None
        self.checkout: tuple[str | None, str] | None = None


_state = process.own(State)


def _key(variable: str) -> str:
    return variable.removeprefix("KCL_").lower()


def _file() -> _Says:
    """Return the content of root's and the user's files; a missing file costs one system call, once in a process."""
    state = _state()
    if state.loaded is None:
        values: dict[str, str] = {}
        checkouts: dict[str, str] = {}
        faults: tuple[str, ...] = ()
        for path in (SITE_FILE, settings_file()):
            if os.path.lexists(path):
                from kcl.base.settings.file import load

                known = [setting.key for setting in (*SETTINGS, *FILE_SETTINGS)]
                found = load(path, known, of_root=path == SITE_FILE)
                values |= found.values
                checkouts, faults = found.checkouts, faults + found.faults
        state.loaded = values, checkouts, faults
    return state.loaded


def _given(variable: str) -> str:
    """Return the text of a setting; a variable that is set, even to an empty text, wins over the file."""
    value = os.environ.get(variable)
    return _file()[0].get(_key(variable), "") if value is None else value


def _named(variable: str) -> str:
    """Return the source of a setting's value, in words."""
    return variable if variable in os.environ else f"{_key(variable)} of {settings_file()}"


def _cache_dir(rejected: list[str]) -> tuple[str | None, str]:
    """Return the root of kcl's files and its source: the variable, the checkout, or the settings file."""
    if os.environ.get("KCL_CACHE_DIR"):
        value = _absolute("KCL_CACHE_DIR", rejected)
        if value:
            return value, "KCL_CACHE_DIR"
    place, fault = _checkout_cache()
    if fault:
        rejected.append(fault)
    if place:
        return place, f"kcl init in {os.path.dirname(place)}"
    value = None if "KCL_CACHE_DIR" in os.environ else _absolute("KCL_CACHE_DIR", rejected)
    return value, _named("KCL_CACHE_DIR") if value else ""


def _absolute(variable: str, rejected: list[str]) -> str | None:
    value = _given(variable)
    if value and not os.path.isabs(value):
        rejected.append(f"{_named(variable)}={value!r} is not an absolute path and is ignored")
        return None
    return value or None


def _checkout_cache() -> tuple[str | None, str]:
    """Return the recorded cache directory of the working directory's checkout, and a remark on an unrecorded one.

    The search happens once in a process: from the working directory of that moment upward.
    """
    state = _state()
    if state.checkout is None:
        state.checkout = _find_checkout(_file()[1])
    return state.checkout


def _find_checkout(recorded: Mapping[str, str]) -> tuple[str | None, str]:
    try:
        place = os.getcwd()
    except OSError:  # the working directory was removed
        return None, ""
    fault = ""
    for _ in range(_DEPTH):
        folder = os.path.join(place, CHECKOUT_FOLDER)
        if os.path.lexists(folder):
            stranger = _stranger(folder, recorded.get(place))
            if not stranger:
                return folder, fault
            fault = fault or stranger
        above = os.path.dirname(place)
        if above == place:
            break
        place = above
    return None, fault


def _stranger(folder: str, token: str | None) -> str:
    """Return the reason why a cache directory in a checkout is not used; empty if the directory was recorded."""
    reason = "this user's settings do not record it"
    if token is not None:
        from kcl.base.settings.file import token_fault

        reason = token_fault(folder, token)
    if not reason:
        return ""
    return (
        f"{folder} is not used, it may have come with a clone: {reason}; remove it, then run kcl init for one of yours"
    )


def _report(variable: str, rejected: list[str]) -> tuple[frozenset[str], str | None]:
    """Return the parts of the report at exit ("table", "kernels", "explain"), and the file that gets a report."""
    words, _, path = _given(variable).partition("json:")
    asked = {word.strip() for word in words.lower().split(",")} - _NO
    unknown = asked - _YES - {"explain", "kernels"}
    if unknown:
        said = ", ".join(sorted(unknown))
        rejected.append(f"{_named(variable)}: {said!r} is not understood; use 1, kernels, explain or json:PATH")
    if path and not os.path.isabs(path):
        rejected.append(f"{_named(variable)}: {path!r} is not an absolute path and is ignored")
        path = ""
    last = path.rpartition(",")[2].strip().lower()
    if "," in path and last in _YES | {"explain", "kernels"}:
        rejected.append(f"{_named(variable)}: json:PATH comes last, and the file is {path!r}; write {last},json:PATH")
    return frozenset({"table"} if asked & _YES else ()) | (asked & {"explain", "kernels"}), path or None


def _promotion(variable: str, rejected: list[str]) -> str:
    value = _given(variable).lower()
    if value in ("background", "exit", "off"):
        return value
    if value:
        rejected.append(f"{_named(variable)}={value!r} is not one of background, exit, off; 'off' is used")
    return "off" if value else "background"


def _remote(variable: str, rejected: list[str]) -> str:
    value = _given(variable).strip()
    if value.lower() in _NO:
        return ""
    if "://" not in value:  # a wrong address may hold a password
        rejected.append(f"{_named(variable)} is no address and is ignored: write one such as redis://host/0, or off")
        return ""
    return value


def _switch(variable: str, default: bool, rejected: list[str]) -> bool:
    value = _given(variable).strip().lower()
    if not value:
        return default
    if value not in _YES | _NO:
        rejected.append(f"{_named(variable)}={value!r} is not 1 or 0; it is taken as 0")
    return value in _YES


def size(text: str) -> int:
    """Return the bytes that a text like `500M` names; raises ValueError for another text.

    A unit is a power of 1000, as commands print it. A unit with an `i`, as in `500MiB`, is a power of 1024.
    """
    import re

    told = re.fullmatch(rf"(\d+(?:\.\d*)?)\s*(?:([{_UNITS}])(I?))?B?", text.strip().upper())
    found = -1.0
    if told:
        found = float(told[1]) * (1024 if told[3] else 1000) ** (1 + _UNITS.index(told[2]) if told[2] else 0)
    if not 0 <= found < 1 << 62:
        raise ValueError(f"{text!r} is no number of bytes: write 500M or 2G")
    return int(found)


def age(text: str) -> float:
    """Return the seconds that a text like `90min`, `12h`, `30d` or `4w` names; raises ValueError for another text."""
    import re

    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min|h|d|w)", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no age: write 90min, 12h, 30d or 4w")
    return float(found[1]) * _SECONDS[found[2]]


def _bound(variable: str, parse: Callable[[str], N], default: N, example: str, rejected: list[str]) -> N:
    value = _given(variable).strip()
    if value == "0":
        return 0
    try:
        return parse(value) if value else default
    except ValueError:
        rejected.append(f"{_named(variable)}={value!r} is not understood; write {example}, or 0")
        return default


def _strict(variable: str, rejected: list[str]) -> tuple[frozenset[str], str]:
    """Return the outcomes that raise, and the fault of the value: a typo must not switch a check off."""
    words = frozenset(word.strip().lower() for word in _given(variable).split(",")) - {""}
    known, fault = frozenset({"hit", "fault"}), ""
    if words - known:
        unknown = ", ".join(map(repr, sorted(words - known)))
        fault = f"{_named(variable)}: {unknown} is not one of hit, fault; write hit, fault or hit,fault"
        rejected.append(fault)
    return words & known, fault


def _verification(variable: str, rejected: list[str]) -> tuple[float, bool]:
    """Return the fraction of look-ups to verify, and whether to verify results; an unknown value means all."""
    words = [word.strip().lower() for word in _given(variable).split(",")]
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
    rejected.append(
        f"{_named(variable)}={','.join(words)!r} is not 1, a fraction or results; every look-up is verified"
    )
    return 1.0, results


def _layers(variable: str, rejected: list[str]) -> frozenset[str]:
    value = _given(variable).strip().lower()
    if value in _NO:
        return frozenset()
    if value in _YES:
        return frozenset(LAYERS)
    words = frozenset(word.strip() for word in value.split(",")) - {""}
    unknown = words - frozenset(LAYERS)
    if unknown:
        rejected.append(
            f"{_named(variable)}={value!r}: {', '.join(sorted(unknown))} is no layer ({', '.join(LAYERS)}); "
            "all layers are off"
        )
        return frozenset(LAYERS)
    return words
