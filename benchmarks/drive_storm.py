"""Launch COUNT kernels as drive_kcl.py does, and take down when code is generated and what is built from source.

python drive_storm.py COUNT LOG

A line of LOG is "PROCESS SECONDS WHAT": a call begins or ends, code is "generated", or pyopencl is asked
to build from "source".
All processes of a storm append to one LOG; a line is written in one piece.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import drive_kcl
import pyopencl as cl


class Log:
    """A file that several processes append to."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def __call__(self, what: str) -> None:
        os.write(self._descriptor, f"{os.getpid()} {time.monotonic():.6f} {what}\n".encode())


def take_down(log: Log) -> None:
    """Log each time that code is generated, and each program that pyopencl makes of source."""
    from kcl.generate import miss

    generate = miss.generate

    def logged(*arguments: Any, **keywords: Any) -> Any:
        log("generated")
        return generate(*arguments, **keywords)

    miss.generate = logged

    class Watched(cl._cl._Program):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            super().__init__(*arguments, **keywords)
            if len(arguments) + len(keywords) == 2:  # context and source; with binaries there are three
                log("source")

    cl._cl._Program = Watched


def main() -> None:
    count, log = int(sys.argv[1]), Log(sys.argv[2])
    take_down(log)
    print(drive_kcl.launch(count, log).checksum())


if __name__ == "__main__":
    main()
