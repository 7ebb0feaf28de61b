"""Spans: the duration of each piece of work, for `KCL_TRACE`. Without a trace a span costs one call and is not kept.

The file holds Chrome trace events, as Perfetto and speedscope read them: one JSON array, to which each process adds its
spans as it ends, children and helpers too.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from kcl.base import process, settings

_MOST = 200_000  # spans of a process


class Trace:
    """The spans that this process adds to the file at exit, if there is one; a forked child begins its own."""

    def __init__(self) -> None:
        self.path = settings.read().trace
        self.spans: list[tuple[str, str, str, int, int, int]] = []
        # The time of day at which `perf_counter_ns`, the clock of the spans, was 0.
        self.began = time.time_ns() - time.perf_counter_ns()

    def at_exit(self) -> None:
        write()


_trace = process.own(Trace)


@contextmanager
def _keep(what: str, kernel: str, layer: str) -> Iterator[None]:
    """Keep the duration of the block, even if it raises."""
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
    return _keep(what, kernel, layer) if _trace().path else _NOTHING


def write() -> None:
    """Add the spans of this process to the file; print a warning if it cannot be written. Raises nothing."""
    trace = _trace()
    # Taken out first, so that a second call does not add them again.
    spans, trace.spans = trace.spans, []
    if not spans:
        return
    try:
        from kcl.base import trace_file

        trace_file.append(str(trace.path), trace.began, spans)
    except OSError as error:
        print(f"kcl: no trace is written to {trace.path}: {error.strerror}", file=sys.stderr)
