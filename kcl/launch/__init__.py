"""The hot path: from a kernel that is bound to a program to the enqueue. It imports nothing of kcl but the errors.

The invoker is the Python code that checks a call and enqueues. Once a kernel is called often, its calls are *played*: a
function that was generated for calls of one form repeats the invoker's steps without its checks (`kcl.launch.replay`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcl.errors import KclError, RecipeError

# The invoker carries out this many calls itself; then a function is generated, which costs as much as it saves in 40 calls.
HOT = 40
# The most forms of calls that are played; the invoker carries out calls of further forms.
_FORMS = 8
# The kinds of arguments that are arrays, in the words of all front ends.
ARRAYS = frozenset({"Array", "ArrayArg", "ConstantArg"})

Play = Callable[[Any, Any, dict[str, Any]], Any]


class Kernels:
    """The device kernels of one program for one thread, as attributes by which the invoker gets them.

    `_kcl_error` is the class of error that an invoker raises for a wrong recipe: a stored invoker does not import kcl.
    """

    _kcl_error = RecipeError


class Launcher:
    """A kernel bound to one program for one thread: OpenCL sets arguments in one call and enqueues in another."""

    __slots__ = (
        "calls",
        "failures",
        "hot",
        "invoke",
        "kernels",
        "learn",
        "open",
        "own_events",
        "plays",
        "program",
        "required",
    )

    def __init__(
        self,
        invoke: Callable[..., Any],
        kernels: Kernels,
        program: Any,
        required: frozenset[str],
        own_events: dict[Any, None] | None = None,
        learn: Callable[[Launcher, Any, dict[str, Any]], Play | None] | None = None,
        open: frozenset[str] = frozenset(),
    ) -> None:
        self.invoke = invoke
        self.kernels = kernels
        self.program = program
        self.required = required
        # Events known to belong to the queue, which an in-order queue need not wait for.
        self.own_events = {} if own_events is None else own_events
        # Makes the function that plays calls like a given one (`kcl.launch.replay.learn`).
        self.learn = learn
        # The arguments whose dtypes decided the code.
        self.open = open
        self.calls = 0
        # The number of failed attempts to learn.
        self.failures = 0
        # The function that played the last call. It returns None for a call that it cannot play.
        self.hot: Play | None = None
        # The function that plays the calls of a form; None if the invoker carries them out.
        self.plays: dict[tuple[Any, ...], Play | None] = {}

    def __call__(
        self,
        queue: Any,
        allocator: Any,
        wait_for: Any,
        out_host: bool | None,
        arguments: dict[str, Any],
    ) -> tuple[Any, Any]:
        """Launch the kernel; returns (event, outputs) as loopy's executor does."""
        if self.calls < HOT:
            self.calls += 1
        # The invoker carries out a call with `wait_for` or `out_host`.
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

    def _play(self, queue: Any, arguments: dict[str, Any]) -> Play | None:
        try:
            return self.plays[form_of(arguments)]
        except KeyError:
            if self.learn is None or len(self.plays) >= _FORMS:
                return None
            return self.learn(self, queue, arguments)


def form_of(arguments: dict[str, Any]) -> tuple[Any, ...]:
    """Return the form of a call, the names and types of its arguments. A function of `replay` serves one form only."""
    return (*arguments, *map(type, arguments.values()))


class MissingArguments(KclError):
    """A call lacks input arrays. Its catcher raises the front end's own error instead."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(", ".join(names))
        self.names = names


def unpack(packed: dict[str, list[tuple[Any, str]]], arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace each object array by its elements, which are arguments of the kernel of their own."""
    arguments = arguments.copy()
    for name, parts in packed.items():
        if name in arguments:
            value = arguments.pop(name)
            for index, part in parts:
                arguments[part] = value[index]
    return arguments
