"""Launch COUNT kernels as drive_kcl.py does, and take down when code is generated and what is built from source.

python drive_storm.py COUNT LOG

A line of LOG is "PROCESS SECONDS WHAT": a call begins or ends, code is "generated", or a program is built from
"source". All processes of a storm append to one LOG; a line is written in one piece.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import drive_kcl


class Log:
    """A file that several processes append to."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def __call__(self, what: str) -> None:
        os.write(self._descriptor, f"{os.getpid()} {time.monotonic():.6f} {what}\n".encode())


def take_down(log: Log) -> None:
    """Log each time that code is generated, and each program that is built from source.

    The functions are kcl's: with something of pyopencl replaced kcl would keep no code.
    """
    from kcl.frontends.loopy.translation import LoopyUnit
    from kcl.programs import compilation

    for holder, name, what in (
        (LoopyUnit, "code", "generated"),
        (compilation, "from_source", "source"),
    ):
        setattr(holder, name, _logged(getattr(holder, name), log, what))


def _logged(function: Callable[..., Any], log: Log, what: str) -> Callable[..., Any]:
    def logged(*arguments: Any, **keywords: Any) -> Any:
        log(what)
        return function(*arguments, **keywords)

    return logged


def main() -> None:
    count, log = int(sys.argv[1]), Log(sys.argv[2])
    take_down(log)
    print(drive_kcl.launch(count, log).checksum())


if __name__ == "__main__":
    main()
