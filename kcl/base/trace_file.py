"""Writes the file of `KCL_TRACE`. A process imports this module only when it adds its spans."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from kcl.base import process

_END = b"\n]\n"


def append(path: str, began: int, spans: Iterable[tuple[str, str, str, int, int, int]]) -> None:
    """Add spans at the end of the file's JSON array; a lock keeps processes apart, so that the file is always valid."""
    text = ",\n".join([json.dumps(_event(began, span)) for span in spans]).encode()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
    with os.fdopen(descriptor, "r+b") as stream:
        # Without locks processes that end at once may lose spans.
        with suppress(OSError):
            process.lock(descriptor, waits=True)
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - len(_END), 0))
        is_ours = stream.read() == _END
        stream.seek(size - len(_END) if is_ours else 0)
        stream.write((b",\n" if is_ours else b"[\n") + text + _END)
        stream.truncate()


def _event(began: int, span: tuple[str, str, str, int, int, int]) -> dict[str, Any]:
    what, kernel, layer, thread, begin, end = span
    arguments = {name: value for name, value in (("kernel", kernel), ("layer", layer)) if value}
    return {
        "ph": "X",
        "name": f"{what} {kernel}".rstrip(),
        "cat": layer or "kcl",
        "ts": (began + begin) / 1000,  # microseconds
        "dur": (end - begin) / 1000,
        "pid": os.getpid(),
        "tid": thread,
        "args": arguments,
    }
