"""Device kernels without what pyopencl generates for each of them, which the invokers that kcl runs do not use.

The constructor of `cl.Kernel` asks `pyopencl.invoker` for two functions, `enqueue` and `set_args`, and that looks in a
dictionary on disk: a third of a millisecond for each kernel. Invokers set arguments and enqueue by themselves. So in
the thread that makes a kernel for them, and while it does, that module answers with two functions that cost nothing.
Where it does not ask in this way, or does not take the answer, kernels are made as everywhere else.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable
from threading import get_ident
from typing import Any

import pyopencl as cl

_ASKED = "generate_enqueue_and_set_args"

# Held while pyopencl's module answers otherwise: one thread at a time, so that each puts back what was there.
_lock = threading.Lock()


def new_kernel(program: cl.Program, name: str) -> cl.Kernel:
    """Return a new kernel object of a program, to be launched by an invoker; raises what `cl.Kernel` raises."""
    import pyopencl.invoker as asked

    generate = getattr(asked, _ASKED, None)
    if generate is None:
        return cl.Kernel(program, name)
    thread = get_ident()

    def answer(*arguments: Any, **keywords: Any) -> Any:
        if get_ident() != thread:
            return generate(*arguments, **keywords)
        return _functions(generate, arguments, keywords)

    with _lock:
        before = getattr(asked, _ASKED)
        setattr(asked, _ASKED, answer)
        try:
            return cl.Kernel(program, name)
        except cl.Error:
            raise
        except Exception:
            pass  # the answer is not one that this pyopencl takes
        finally:
            setattr(asked, _ASKED, before)
    return cl.Kernel(program, name)


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
