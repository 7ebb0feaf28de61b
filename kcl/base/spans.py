"""Spans: the duration of each piece of work, for `KCL_TRACE`. Without a trace no span is kept, and a span costs a call.

The file holds Chrome trace events, as Perfetto and speedscope read them: one JSON array, to which each process adds its
spans as it ends, children and helpers too.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from kcl.base import process, settings

_MOST = 200_000  # spans of a process
_END = b"\n]\n"


class Trace:
    """The spans that this process adds to the file at exit, if there is one; a forked child begins its own."""

    def __init__(self) -> None:
        self.path = settings.read().trace
        self.spans: list[tuple[str, str, str, int, int, int]] = []
        self.began = time.time_ns() - time.perf_counter_ns()

    def at_exit(self) -> None:
        write()


_trace = process.own(Trace)


@contextmanager
def _kept(what: str, kernel: str, layer: str) -> Iterator[None]:
    """Keep a stretch of time in a thread; work that fails took its time, too."""
    begin = time.perf_counter_ns()
    try:
        yield
    finally:
        trace = _trace()
        if len(trace.spans) < _MOST:
            trace.spans.append(
                (what, kernel, layer, threading.get_ident(), begin, time.perf_counter_ns())
            )


_NOTHING = nullcontext()


def span(what: str, kernel: str = "", layer: str = "") -> AbstractContextManager[None]:
    """Return a context manager for a span: `what` names the work, for a kernel, in a layer. Thread-safe."""
    return _kept(what, kernel, layer) if _trace().path else _NOTHING


def write() -> None:
    """Add the spans of this process to the file; warn once where it cannot be written, and raise nothing."""
    trace = _trace()
    spans, trace.spans = trace.spans, []
    if not spans:
        return
    try:
        _append(str(trace.path), [_event(trace.began, span) for span in spans])
    except OSError as error:
        print(f"kcl: no trace is written to {trace.path}: {error.strerror}", file=sys.stderr)


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


def _append(path: str, events: list[dict[str, Any]]) -> None:
    """Add events before the end of the array; one process at a time, so that the file is always whole."""
    import json

    text = ",\n".join([json.dumps(event) for event in events]).encode()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
    with os.fdopen(descriptor, "r+b") as stream:
        with suppress(OSError):  # without locks processes that end at once may lose spans
            process.lock(descriptor, waits=True)
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - len(_END), 0))
        is_ours = stream.read() == _END
        stream.seek(size - len(_END) if is_ours else 0)
        stream.write((b",\n" if is_ours else b"[\n") + text + _END)
        stream.truncate()
