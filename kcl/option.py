"""Settings that are made by a call: where kcl keeps its files."""

from __future__ import annotations

import os
from collections.abc import Callable

from kcl import process, settings


class State:
    """The directory that a call of `cache_dir` chose."""

    def __init__(self) -> None:
        self.chosen: str | None = None


_state = process.own(State)
_listeners: list[Callable[[], None]] = []  # of modules that have no state in `kcl.process`


def cache_dir(path: str | os.PathLike[str]) -> None:
    """Keep every file of kcl under `path` from the next look-up on; wins over every other setting of it.

    Nothing is created until something is stored. Raises ValueError for a relative path.
    """
    chosen = os.fspath(path)
    if not os.path.isabs(chosen):
        raise ValueError(f"the cache directory must be an absolute path, not {chosen!r}: pass os.path.abspath(...)")
    _state().chosen = chosen
    _tell()


def get_cache_dir() -> str:
    """Return the root of kcl's folders `pytools/`, `pyopencl/` and `kcl/`."""
    return os.path.dirname(folder("kcl"))


def folder(name: str) -> str:
    """Return the path of one of kcl's folders: `pytools`, `pyopencl` or `kcl`; it need not exist."""
    root = _state().chosen or settings.read().cache_dir
    return os.path.join(root, name) if root else settings.user_cache_dir(name)


def reason() -> str:
    """Say what decided where the files lie."""
    if _state().chosen:
        return "kcl.option.cache_dir()"
    return settings.read().cache_dir_reason or ("XDG_CACHE_HOME" if settings.variable("XDG_CACHE_HOME") else "default")


def on_change(listener: Callable[[], None]) -> None:
    """Call `listener` whenever the place of the files changes; a state in `kcl.process` has a method for that."""
    _listeners.append(listener)


def reset() -> None:
    """Forget the directory that `cache_dir` chose, the settings file and the checkout."""
    _state().chosen = None
    settings.forget()
    _tell()


def _tell() -> None:
    process.changed()
    for listener in _listeners:
        listener()
