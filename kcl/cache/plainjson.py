"""JSON by the C code below `json.loads` and `json.dumps`, so that a warm start need not import `json`.

That compiles patterns for what of it is written in Python, which takes longer than a few entries do. Texts and values
are the same. Where the C code is missing, or is not what we know, `json` is imported.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

Scan = Callable[[str, int], tuple[Any, int]]
Encode = Callable[[Any, int], Iterable[str]]


def loads(text: str) -> Any:
    """Return the value of a text with nothing around it; raises ValueError for any other, NaN and infinities too."""
    try:
        value, end = _scan(text, 0)
    except (StopIteration, SystemError) as fault:  # without json imported Python 3.10 and 3.11 find no error to raise
        raise ValueError(f"this is no JSON value: {fault!r}") from None
    if end != len(text):
        raise ValueError(f"after the JSON value, at character {end}, something follows")
    return value


def dumps(value: Any) -> str:
    """Return the shortest text of a value, in ASCII; raises TypeError or ValueError for what JSON cannot hold."""
    return "".join(_encode(value, 0))


def _refuse(found: Any) -> Any:
    raise ValueError(f"JSON does not have {found!r}")


class _Rules:
    """How values are read."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, staticmethod(_refuse)


def _codec(name: str = "_json") -> tuple[Scan, Encode]:
    """Return what reads and what writes: the C code, or as json does it where that cannot be had."""
    try:
        code: Any = importlib.import_module(name)
        ascii_text = code.encode_basestring_ascii
        return code.make_scanner(_Rules), code.make_encoder(None, _refuse, ascii_text, None, ":", ",", *[False] * 3)
    except (ImportError, AttributeError, TypeError):
        from json import JSONDecoder, JSONEncoder

        encoder = JSONEncoder(check_circular=False, allow_nan=False, separators=(",", ":"), default=_refuse)
        return JSONDecoder(parse_constant=_refuse).raw_decode, lambda value, _depth: encoder.encode(value)


_scan, _encode = _codec()
