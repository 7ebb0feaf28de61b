"""`kcl.option`: the directory of kcl's files. `cache_dir` moves them, `get_cache_dir` returns the place.

A call of `cache_dir` wins over every setting. Most programs move nothing and do not import this module.

>>> place = kcl.option.cache_dir("/tmp/private")
>>> kcl.option.get_cache_dir()
'/tmp/private'
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType

from kcl.base import process, settings
from kcl.base.settings import chosen_roots

__all__ = ["cache_dir", "get_cache_dir"]


class CacheDirectory:
    """The directory that `cache_dir` chose; as a context manager it is in use until the block ends."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._is_entered = False

    def __enter__(self) -> str:
        """Return the path."""
        self._is_entered = True
        if self not in chosen_roots().chosen:
            _move(lambda chosen: [*chosen, self])
        return self.path

    def __exit__(self, *_error: object) -> None:
        self._is_entered = False
        _move(self._without)

    def _without(self, chosen: list[CacheDirectory]) -> list[CacheDirectory]:
        """Return the choices without this one and without those made by plain calls in its block."""
        # A later choice that is itself a block may belong to another thread, so it stays.
        first = chosen.index(self) if self in chosen else len(chosen)
        return chosen[:first] + [choice for choice in chosen[first:] if choice._is_entered]

    def __repr__(self) -> str:
        return f"<kcl.option.cache_dir({self.path!r})>"


def cache_dir(path: str | os.PathLike[str]) -> CacheDirectory:
    """Keep every file of kcl under `path` from the next look-up on. The call wins over every setting.

    Call it alone, for the rest of the process, or as a block, after which the former place is in use again:

    >>> with kcl.option.cache_dir("/tmp/private") as path:
    ...     kcl.option.get_cache_dir()
    '/tmp/private'

    Both layers move, on disk and in memory, and so do statistics, misses, damaged entries and the work of helpers. What
    belongs to the old place is written there first. Every kernel is looked up again, also one that was launched
    before; a function that `Kernel.bind` returned is not. The caches of loopy, pyopencl and the OpenCL drivers stay
    where they are, since they read their variables once in a process; `kcl env --dir` prints variables that move them.

    The directory is that of the whole process: a thread that looks something up meanwhile uses it too. Blocks may be
    nested, and may end in any order in several threads. Nothing is created until something is stored. On PoCL a helper
    process may write below `path` after the block: call `kcl.flush()` before you remove a directory. Raises ValueError
    for a relative path.
    """
    chosen = os.fspath(path)
    if not os.path.isabs(chosen):
        raise ValueError(
            f"the cache directory must be an absolute path, not {chosen!r}: pass os.path.abspath(...)"
        )
    choice = CacheDirectory(chosen)
    _move(lambda chosen: [*chosen, choice])
    return choice


def _move(choose: Callable[[list[CacheDirectory]], list[CacheDirectory]]) -> None:
    """Change the list of chosen directories by `choose`; the last one is in use, else the one of the settings."""
    state = chosen_roots()
    with state.lock:
        # The states write what belongs to the old place before it changes.
        process.before_change()
        state.chosen = choose(state.chosen)
        process.on_change()


def get_cache_dir() -> str:
    """Return the root of kcl's folders `pytools/`, `pyopencl/` and `kcl/`.

    >>> with kcl.option.cache_dir("/tmp/private"):
    ...     kcl.option.get_cache_dir()
    '/tmp/private'
    """
    return os.path.dirname(settings.folder("kcl"))


def reason() -> str:
    """Return what decided the place of kcl's files, in words."""
    if chosen_roots().chosen:
        return "kcl.option.cache_dir()"
    return settings.read().cache_dir_reason or (
        "XDG_CACHE_HOME" if settings.variable("XDG_CACHE_HOME") else "default"
    )


class Option(ModuleType):
    """The class of the module `kcl.option`: an assignment such as `kcl.option.cache_dir = path` is an error."""

    def __setattr__(self, name: str, value: object) -> None:
        if name[:1] != "_" and not callable(value) and not isinstance(value, ModuleType):
            raise AttributeError(
                f"kcl.option.{name} cannot be assigned: call kcl.option.cache_dir({value!r})"
            )
        super().__setattr__(name, value)


# Python's way to refuse an assignment to a module: the reference of the language, 3.3.2.1.
sys.modules[__name__].__class__ = Option
