"""Units: bytes and ages as people write them."""

from __future__ import annotations

import re

_BYTES = {unit: 1e3**power for power, unit in enumerate(["", *"KMGTP"])}
_BYTES |= {f"{unit}I": 1024.0**power for power, unit in enumerate("KMGTP", 1)}
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def size(text: str) -> int:
    """Return the bytes that a text like `500M` names; raises ValueError for another text.

    A unit is a power of 1000, as commands print it. A unit with an `i`, as in `500MiB`, is a power of 1024.
    """
    found = _measure(text.strip().upper().removesuffix("B"), _BYTES)
    if found is None or found >= 1 << 62:
        raise ValueError(f"{text!r} is no number of bytes: write 500M or 2G")
    return int(found)


def age(text: str) -> float:
    """Return the seconds that a text like `90min`, `12h`, `30d` or `4w` names; raises ValueError for another text."""
    if (found := _measure(text, _SECONDS)) is None:
        raise ValueError(f"{text!r} is no age: write 90min, 12h, 30d or 4w")
    return found


def _measure(text: str, units: dict[str, float]) -> float | None:
    """Return the number in a text, times its unit; None for another text."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?)\s*([A-Za-z]*)", text.strip())
    return float(found[1]) * units[found[2]] if found and found[2] in units else None
