"""Watch a recipe while it runs on a miss: which files it reads, and whether it does what no key can hold.

The interpreter's audit events are the source (PEP 578). An audit hook cannot be taken away, so one is added at the
first miss of a process and sleeps between recipes.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

_UNKNOWABLE = {
    "socket.connect": "connected to a network address",
    "socket.bind": "opened a network address",
    "socket.getaddrinfo": "looked up a network address",
    "subprocess.Popen": "started a process",
    "os.system": "started a process",
    "os.posix_spawn": "started a process",
    "os.exec": "started a process",
    "os.fork": "started a process",
    "os.listdir": "listed a directory",
    "os.scandir": "listed a directory",
    "urllib.Request": "asked the network",
    "sqlite3.connect": "opened a database",
}


class Read(NamedTuple):
    """A file that a recipe read: where it lies, seen from `base`, and the SHA-256 of its content.

    `base` is "module" (path relative to the recipe's module, so that a copy of the project hits), "cwd" or
    "absolute".
    """

    base: str
    path: str
    digest: str


class Observed:
    """What one recipe did while it ran."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.unknowable = ""


_state = threading.local()
_installed = False


@contextmanager
def observing() -> Iterator[Observed]:
    """Collect what this thread does until the block ends."""
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_hook)
    before = getattr(_state, "observed", None)
    observed = _state.observed = Observed()
    try:
        yield observed
    finally:
        _state.observed = before


@contextmanager
def unobserved() -> Iterator[None]:
    """Leave out what kcl and the front end do themselves."""
    before = getattr(_state, "observed", None)
    _state.observed = None
    try:
        yield
    finally:
        _state.observed = before


@contextmanager
def nothing() -> Iterator[None]:
    """Do nothing: the block of a front end that needs no care."""
    yield


def reads(paths: Iterator[str] | list[str] | tuple[str, ...], directory: str) -> list[Read]:
    """Describe files by place and content; `directory` is that of the recipe's module. Raises OSError."""
    return [_described(path, directory) for path in paths]


def locate(read: Read, directory: str) -> str:
    """Return the path at which the file of `read` is expected now."""
    return os.path.join(directory, read.path) if read.base == "module" else read.path


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file's content, "absent" where it cannot be read."""
    try:
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except OSError:
        return "absent"


def _described(path: str, directory: str) -> Read:
    if not os.path.isabs(path):
        return Read("cwd", path, digest_of(path))
    inside = directory and os.path.commonpath([os.path.abspath(path), directory]) == directory
    if inside:
        return Read("module", os.path.relpath(path, directory), digest_of(path))
    return Read("absolute", path, digest_of(path))


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    observed = getattr(_state, "observed", None)
    if observed is None:
        return
    if event == "open":
        path = arguments[0]
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str) or _is_import():
            return
        if _writes(arguments):
            observed.unknowable = observed.unknowable or f"wrote {os.path.basename(path)}"
        else:
            observed.files[path] = None
    elif event in _UNKNOWABLE and not _is_import():
        observed.unknowable = observed.unknowable or _UNKNOWABLE[event]


def _writes(arguments: tuple[Any, ...]) -> bool:
    _path, mode, flags = arguments
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool(isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _is_import() -> bool:
    """Tell whether the import system does this, or a traceback: imported code counts by what is reached of it.

    The walk ends at the line itself, since a driver may launch its kernels while it is imported.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if name.startswith("importlib._bootstrap") or name == "linecache":
            return True
        if name == "kcl.pipeline":
            return False
        frame = frame.f_back
    return False
