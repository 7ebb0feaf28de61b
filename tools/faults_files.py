"""Operations on files that fail: the k-th that kcl makes, in this process, with an error of one's choice.

kcl calls the functions of `os`, so they are replaced there. A call fails when it comes from a module of kcl, itself or
through `os`, `pathlib`, `shutil` and the like. What SQLite and OpenCL drivers do in C is out of reach.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import fcntl
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

_NAMES = (
    "ENOSPC",
    "EDQUOT",
    "EROFS",
    "EACCES",
    "EIO",
    "ESTALE",
    "ENOLCK",
    "EMFILE",
    "EBUSY",
    "EINTR",
    "ENAMETOOLONG",
)
ERRORS = tuple(getattr(errno, name) for name in _NAMES)
_OF_OS = (
    *(
        "open",
        "read",
        "pread",
        "write",
        "pwrite",
        "close",
        "fstat",
        "stat",
        "lstat",
        "access",
        "scandir",
        "listdir",
    ),
    *(
        "mkdir",
        "replace",
        "rename",
        "unlink",
        "remove",
        "rmdir",
        "utime",
        "chmod",
        "link",
        "readlink",
        "ftruncate",
    ),
    *("truncate", "statvfs", "fsync"),
)
_PLACES = [
    *((os, name) for name in _OF_OS if hasattr(os, name)),
    *((fcntl, name) for name in ("flock", "lockf")),
    *((builtins, "open"), (io, "open")),
]
_BETWEEN = frozenset(
    {"os", "posixpath", "genericpath", "pathlib", "shutil", "tempfile", "glob", "contextlib"}
)


class Operations:
    """The operations on files that kcl made while `failing` was in force, and the threads in which one failed."""

    def __init__(self) -> None:
        self.count = 0
        self.failed = 0
        self.threads = set[int]()


@contextlib.contextmanager
def failing(
    number: int | None, error: int = errno.EIO, for_ever: bool = False
) -> Iterator[Operations]:
    """Let the operation of this number (from 0) fail, or all from it on; None counts them and lets them be."""
    operations = Operations()
    real = [(module, name, getattr(module, name)) for module, name in _PLACES]
    for module, name, function in real:
        setattr(module, name, _failing(function, name, operations, number, error, for_ever))
    try:
        yield operations
    finally:
        for module, name, function in real:
            setattr(module, name, function)


def _failing(
    function: Callable[..., Any],
    name: str,
    operations: Operations,
    number: int | None,
    error: int,
    for_ever: bool,
) -> Callable[..., Any]:
    def operation(*arguments: Any, **named: Any) -> Any:
        if not _is_of_kcl():
            return function(*arguments, **named)
        place, operations.count = operations.count, operations.count + 1
        if number is None or (place < number if for_ever else place != number):
            return function(*arguments, **named)
        operations.failed += 1
        operations.threads.add(threading.get_ident())
        if name == "close":  # POSIX: the descriptor is gone although close failed
            function(*arguments, **named)
        path = arguments[0] if arguments and isinstance(arguments[0], (str, os.PathLike)) else None
        raise OSError(error, os.strerror(error), path)

    return operation


def _is_of_kcl() -> bool:
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "kcl"
