"""Do what drive_kcl.py does, and say at the end which share of the processor time went into statistics.

python drive_recorded.py COUNT
"""

from __future__ import annotations

import atexit
import json
import time
from collections.abc import Callable
from typing import Any

import drive_kcl

from kcl import inspect
from kcl.base import events

_spent = [0.0]


def timed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add up the processor time of this thread in a function."""

    def call(*arguments: Any) -> Any:
        begin = time.thread_time()
        try:
            return function(*arguments)
        finally:
            _spent[0] += time.thread_time() - begin

    return call


def say() -> None:
    """Print the share; called when all else has been done."""
    print(json.dumps({"share": _spent[0] / time.process_time(), "seconds": _spent[0]}))


if __name__ == "__main__":
    atexit.register(say)
    events.emit = timed(events.emit)
    inspect._write_journal = timed(inspect._write_journal)
    drive_kcl.main()
