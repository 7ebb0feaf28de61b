"""Device kernels without what pyopencl generates for each of them, which the invokers that kcl runs do not use.

The constructor of `cl.Kernel` asks `pyopencl.invoker` for two functions, `enqueue` and `set_args`, and that looks in a
dictionary on disk: a third of a millisecond for each kernel. Invokers set arguments and enqueue by themselves. So in
the thread that makes a kernel for them, and while it does, that module answers with two functions that cost nothing.
A pyopencl that does not ask, or asks in another way, gets what it asks for.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
from collections.abc import Callable
from threading import get_ident
from typing import Any

import pyopencl as cl

_MODULE, _ASKED = "pyopencl.invoker", "generate_enqueue_and_set_args"
_FORM = {"devs", "warn_about_arg_count_bug", "work_around_arg_count_bug"}  # beside name, counts and types

# Held while pyopencl's module answers otherwise: one thread at a time, so that each puts back what was there. A signal
# handler, or what is finalised meanwhile, may make a kernel in the same thread.
_lock = threading.RLock()


def new_kernel(program: cl.Program, name: str) -> cl.Kernel:
    """Return a new kernel object of a program, to be launched by an invoker; raises what `cl.Kernel` raises."""
    import pyopencl.invoker as asked

    with _lock:
        original = _original(asked)
        if original is None:
            return cl.Kernel(program, name)
        try:
            setattr(asked, _ASKED, _Answer(original))
            return cl.Kernel(program, name)
        finally:
            _put_back(asked)


class _Answer:
    """What the module answers with: to this thread, asked in the form that we know, other functions than its own."""

    __slots__ = ("_thread", "original")

    def __init__(self, original: Callable[..., Any]) -> None:
        self.original = original
        self._thread = get_ident()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        is_known = len(arguments) == 4 and arguments[3] is None and keywords.keys() == _FORM
        if get_ident() != self._thread or not is_known:
            return self.original(*arguments, **keywords)
        return _functions(self.original, arguments, keywords)


def _original(asked: Any) -> Callable[..., Any] | None:
    """Return the module's own function, also where whoever was interrupted has left an answer of ours."""
    found = getattr(asked, _ASKED, None)
    return found.original if isinstance(found, _Answer) else found


def _put_back(asked: Any) -> None:
    original = _original(asked)
    if original is not getattr(asked, _ASKED, None):
        setattr(asked, _ASKED, original)


def _functions(
    generate: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Callable[..., Any], Callable[..., None]]:
    """Return functions that do what the generated ones do; those are generated where they are needed after all."""
    generated = functools.cache(functools.partial(generate, *arguments, **keywords))

    def enqueue(kernel: cl.Kernel, *values: Any, **options: Any) -> Any:
        return generated()[0](kernel, *values, **options)

    def set_args(kernel: cl.Kernel, *values: Any) -> None:
        if len(values) != kernel.num_args:
            generated()[1](kernel, *values)  # raises pyopencl's own error
        kernel._set_arg_multi(tuple(itertools.chain.from_iterable(enumerate(values))))

    return enqueue, set_args


def _after_fork() -> None:
    """A thread that is not here may hold the lock, and have left its answer."""
    global _lock
    _lock = threading.RLock()
    _put_back(sys.modules.get(_MODULE))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
