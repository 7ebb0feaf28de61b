"""The parsers of the settings: each makes a value of a text that is not empty.

For bad text they raise `ValueError(message)`, or `ValueError(message, fallback)` if another value than the default
counts then.
"""

from __future__ import annotations

import os
import re

_BYTES = {unit: 1e3**power for power, unit in enumerate(["", *"KMGTP"])}
_BYTES |= {f"{unit}I": 1024.0**power for power, unit in enumerate("KMGTP", 1)}
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"0", "false", "no", "off"})


def path(text: str) -> str:
    """Return the text if it is an absolute path."""
    if not os.path.isabs(text):
        raise ValueError(f"{text!r} is not an absolute path and is ignored")
    return text


def progress(text: str) -> bool:
    """Return True if progress is shown, even if stderr is no terminal."""
    if text.lower() not in _YES | _NO:
        raise ValueError(f"{text!r} is not 1 or 0; it is taken as 0", False)
    return text.lower() in _YES


def promotion(text: str) -> str:
    """Return when a helper is started: "background", "exit" or "off"."""
    if text.lower() not in ("background", "exit", "off"):
        raise ValueError(f"{text!r} is not one of background, exit, off; 'off' is used", "off")
    return text.lower()


def report(text: str) -> tuple[frozenset[str], str | None]:
    """Return the parts of the report at exit ("table", "kernels", "explain"), and the file that gets a report."""
    words, _, place = text.partition("json:")
    named = _words(words) - _NO
    parts = frozenset({"table"} if named & _YES else ()) | (named & {"explain", "kernels"})
    if named - _YES - parts:
        unknown = ", ".join(sorted(named - _YES - parts))
        raise ValueError(
            f"{unknown!r} is not understood; use 1, kernels, explain or json:PATH",
            (parts, place or None),
        )
    if place and not os.path.isabs(place):
        raise ValueError(f"{place!r} is not an absolute path and is ignored", (parts, None))
    return parts, place or None


def remote(text: str) -> str:
    """Return the address of a remote; empty for `off`."""
    # The message leaves a wrong address out: it may hold a password.
    if text.lower() not in _NO and "://" not in text:
        raise ValueError(
            "this is no address and is ignored: write one such as redis://host/0, or off"
        )
    return "" if text.lower() in _NO else text


def writing(text: str) -> str:
    """Return when a process pushes: "after" a miss, at its "exit", or never (empty)."""
    if text.lower() not in _YES | _NO | {"exit"}:
        raise ValueError(f"{text!r} is not true, false or exit; nothing is pushed")
    return "exit" if text.lower() == "exit" else "after" if text.lower() in _YES else ""


def listed(text: str, mark: str) -> tuple[str, ...]:
    """Split a list at its commas; each item must contain `mark`."""
    items = tuple(filter(None, map(str.strip, text.split(","))))
    if not all(mark in item for item in items):
        raise ValueError(f"each of them needs {mark!r}; none of them counts")
    return items


def strict(text: str) -> frozenset[str]:
    """Return what raises an error: "hit" (no hit), "fault" (a fault of the cache), both or none."""
    words, outcomes = _words(text), frozenset({"hit", "fault"})
    if words - outcomes:
        unknown = ", ".join(map(repr, sorted(words - outcomes)))
        raise ValueError(
            f"{unknown} is not one of hit, fault; write hit, fault or hit,fault", words & outcomes
        )
    return words


def layers(text: str, every: str, others: str) -> frozenset[str]:
    """Return the layers that are off: "1" stands for those in `every`; those in `others` are off only by name."""
    layers, names = every.split(","), f"{every},{others}".split(",")
    if text.lower() in _YES | _NO:
        return frozenset(layers if text.lower() in _YES else ())
    unknown = _words(text) - {*names}
    if unknown:
        fault = f"{', '.join(sorted(unknown))} is no layer ({', '.join(names)}); all layers are off"
        raise ValueError(fault, frozenset(layers))
    return _words(text)


def folders(text: str) -> tuple[str, ...]:
    """Return the directories of a list, with `:` between them, or with the commas of the settings file."""
    if text.lower() in _NO:
        return ()
    paths = tuple(filter(None, text.replace(os.pathsep, ",").split(",")))
    relative = [folder for folder in paths if not os.path.isabs(folder)]
    if relative:
        left = tuple(folder for folder in paths if folder not in relative)
        raise ValueError(f"{relative[0]!r} is not an absolute path and is ignored", left)
    return paths


def users(text: str) -> frozenset[int]:
    """Parse a comma-separated list of user ids."""
    try:
        return frozenset(map(int, _words(text)))
    except ValueError:
        raise ValueError(
            f"{text!r} is no list of numbers of users; nobody's files are read"
        ) from None


def size(text: str) -> int:
    """Return the bytes that a text like `500M` names; raises ValueError for another text.

    A unit is a power of 1000, as commands print it. A unit with an `i`, as in `500MiB`, is a power of 1024.
    """
    count = _measure(text.strip().upper().removesuffix("B"), _BYTES)
    if count is None or count >= 1 << 62:
        raise ValueError(f"{text!r} is no number of bytes: write 500M, 2G, or 0")
    return int(count)


def age(text: str) -> float:
    """Return the seconds that a text like `90min`, `12h`, `30d` or `4w` names; raises ValueError for another text."""
    if (duration := _measure(text, _SECONDS)) is None:
        raise ValueError(f"{text!r} is no age: write 90min, 12h, 30d or 4w")
    return duration


def seconds(text: str, example: str) -> float:
    """Return the seconds of an age; "0" is allowed too. `example` is shown in the message for bad text."""
    duration = 0.0 if text == "0" else _measure(text, _SECONDS)
    if duration is None:
        raise ValueError(f"{text!r} is not understood; write {example}, or 0")
    return duration


def _measure(text: str, units: dict[str, float]) -> float | None:
    """Return the number in a text times its unit; None if the text is no number with a known unit."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([A-Za-z]*)", text.strip())
    return float(match[1]) * units[match[2]] if match and match[2] in units else None


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip().lower() for word in text.split(",")) - {""}
