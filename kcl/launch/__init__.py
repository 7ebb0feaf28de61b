"""The hot path: from a bound kernel to the enqueue. Of kcl this module imports only the errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcl.errors import KclError, RecipeError

# Calls that the invoker takes itself before its steps are written out: writing costs as much as it saves in 40 calls.
HOT = 40
# The number of forms of calls that are played: calls of further forms are the invoker's.
_FORMS = 8
# The front ends' classes of arguments that are arrays.
ARRAYS = {"Array", "ArrayArg", "ConstantArg"}

# The arguments of a call by name.
Arguments = dict[str, Any]
# What launches: an invoker, and a function that is bound for one.
Function = Callable[..., Any]
Play = Callable[[Any, Any, Arguments], Any]


class Kernels:
    """The device kernels of one program for one thread, as attributes: the invoker gets each by its name.

    `_kcl_error` is the error of an invoker for a wrong recipe; a stored invoker does not import kcl.
    """

    _kcl_error = RecipeError


class Launcher:
    """A kernel bound to one program for one thread: setting arguments and enqueueing are two calls in OpenCL."""

    def __init__(
        self,
        invoke: Function,
        kernels: Kernels,
        program: Any,
        required: frozenset[str],
        own_events: dict[Any, None] | None,
        learn: Callable[[Launcher, Any, Arguments], Play | None] | None,
        open: frozenset[str],
    ) -> None:
        self.invoke = invoke
        self.kernels = kernels
        self.program = program
        self.required = required
        # Events that are known to be of the queue.
        self.own_events = {} if own_events is None else own_events
        # It makes the function that plays calls of a form, or raises.
        self.learn = learn
        # The arguments whose dtypes decided the code.
        self.open = open
        self.calls = 0
        # The number of failed attempts to learn.
        self.failures = 0
        # The function that played the last playable call. It returns None for a call that it cannot play.
        self.hot: Play | None = None
        # By the form of a call: the function that plays it, None if the invoker takes it.
        self.plays: dict[tuple[Any, ...], Play | None] = {}

    def __call__(
        self,
        queue: Any,
        allocator: Any,
        wait_for: Any,
        out_host: bool | None,
        arguments: Arguments,
    ) -> tuple[Any, Any]:
        """Enqueue; returns (event, outputs) as loopy's executor does."""
        if self.calls < HOT:
            self.calls += 1
        # A call with events to wait for, or with a wish for its outputs, is the invoker's.
        elif wait_for is None and out_host is None:
            play = self._play(queue, arguments)
            result = play(queue, allocator, arguments) if play is not None else None
            if result is not None:
                self.hot = play
                return result  # type: ignore[no-any-return]
        if not self.required <= arguments.keys():
            raise MissingArguments(sorted(self.required - arguments.keys()))
        return self.invoke(self.kernels, queue, allocator, wait_for, out_host, **arguments)  # type: ignore[no-any-return]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the kernels."""
        return tuple(vars(self.kernels))

    def _play(self, queue: Any, arguments: Arguments) -> Play | None:
        try:
            return self.plays[form_of(arguments)]
        except KeyError:
            if self.learn is None or len(self.plays) >= _FORMS:
                return None
            return self.learn(self, queue, arguments)


def form_of(arguments: Arguments) -> tuple[Any, ...]:
    """Return the names of the arguments of a call, and their types: calls that differ in these are played apart."""
    return (*arguments, *map(type, arguments.values()))


class MissingArguments(KclError):
    """Input arrays were not given; the caller raises the front end's own error."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(", ".join(names))
        self.names = names


def unpack(packed: dict[str, list[tuple[Any, str]]], arguments: Arguments) -> Arguments:
    """Take object arrays apart into the kernel's arguments for their elements."""
    arguments = arguments.copy()
    for name, parts in packed.items():
        if name in arguments:
            value = arguments.pop(name)
            for index, part in parts:
                arguments[part] = value[index]
    return arguments
