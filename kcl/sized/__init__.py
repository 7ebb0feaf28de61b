"""Sizes: a recipe asks what is true of the sizes of a call, and the handle chooses the variant for which it holds.

    sizes = {name: text}     expressions over the arguments of the call, in the grammar of a Source's shapes

A variant is a Kernel whose recipe saw one set of sizes. It holds for a call if all answers that its recipe was given
are those for the sizes of the call. An answer reaches loopy, or changes nothing: so it is in the record and in the key.
The values of which a recipe has seen few are remembered for later runs: see `Values`.
"""

from __future__ import annotations

import ast
import inspect
import operator
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pyopencl as cl

from kcl.errors import RecipeError
from kcl.generate.frontends import expressions
from kcl.generate.frontends.source import round_up
from kcl.sized.size import Size, answers, said, values_of

if TYPE_CHECKING:
    from kcl.cache.key import Key
    from kcl.record.declarations import RecipeCall

_CHOICES = 64  # tuples of sizes whose variants are found at once
FUNCTIONS = {"__builtins__": {}, "min": min, "max": max, "round_up": round_up}


class Sizes(NamedTuple):
    """The sizes of a recipe: an expression by the name of each parameter, and how many values of each are fixed."""

    texts: Mapping[str, str]
    most: int = 1


def sizes(*, most: int = 1, **texts: str) -> Sizes:
    """Declare the sizes of a recipe, as `@kcl.kernel(sizes=kcl.sizes(k="a.shape[2]", most=3))`.

    Each text is an expression over the arguments of a call. `fixed` of a size is a value as long as the recipe has seen
    at most `most` values of it; with 0 it never is. Raises TypeError for a text that is no such expression.

    >>> @kcl.kernel(sizes=kcl.sizes(n="x.shape[0]", most=3))
    ... def negated(n):
    ...     import loopy as lp
    ...     return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = -x[i]", lang_version=(2018, 2))
    >>> event, (y,) = negated()(queue, x=np.ones(2))
    >>> y.tolist()
    [-1.0, -1.0]
    """
    if not isinstance(most, int) or most < 0:
        raise TypeError(f"kcl.sizes(most=...) takes a whole number, not {most!r}")
    return _checked(Sizes(texts, most))


def declared(given: Any, parameters: tuple[str, ...], others: bool = False) -> Sizes:
    """Return the sizes that a decorator declares; raises TypeError where they cannot be meant.

    With `others` a size need not be a parameter: a space asks it.
    """
    found = (
        given
        if isinstance(given, Sizes)
        else Sizes(dict(given))
        if isinstance(given, Mapping)
        else None
    )
    if found is None or not found.texts:
        raise TypeError(
            f'@kcl.kernel(sizes=...) takes a dictionary such as {{"n": "x.shape[0]"}}, not {given!r}'
        )
    for name in found.texts:
        if name not in parameters and not others:
            raise TypeError(
                f"@kcl.kernel(sizes=...) names {name!r}, which is no parameter of the recipe"
            )
    return _checked(found)


def bind(
    function: Any, found: Sizes, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Give every parameter but the sizes its value; raises TypeError for a size that is given by hand."""
    signature = inspect.signature(function)
    others = [one for name, one in signature.parameters.items() if name not in found.texts]
    for name in found.texts:
        if name in kwargs:
            raise TypeError(
                f"recipe {function.__name__!r}: {name!r} is a size, which the arguments of a call give"
            )
    try:
        bound = signature.replace(parameters=others).bind(*args, **kwargs)
    except TypeError as error:
        takes = ", ".join(one.name for one in others) or "none"
        raise TypeError(
            f"recipe {function.__name__!r}: {error}; its parameters beside the sizes are: {takes}"
        ) from None
    bound.apply_defaults()
    return dict(bound.arguments)


def _checked(found: Sizes) -> Sizes:
    for name, text in found.texts.items():
        if not isinstance(text, str):
            raise TypeError(
                f"the size {name!r} is {text!r}; write an expression such as 'x.shape[0]'"
            )
        try:
            tree = expressions.parsed(name, "the size", text)
            called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
            used = {
                node.id
                for node in ast.walk(tree)
                if isinstance(node, ast.Name) and node not in called
            }
            expressions.check(
                name, "the size", text, expressions.Names(tuple(sorted(used)), (), (), ())
            )
        except RecipeError as error:
            raise TypeError(str(error).replace("kcl.Source", "size")) from None
        if not used:
            raise TypeError(
                f"the size {name!r} is {text!r}, which names no argument; write the number into the recipe"
            )
    return found


def whole_number(kernel: str, name: str, value: Any) -> int:
    """Return the size of a call as a number of 0 or more; raises TypeError for what is no integer."""
    try:
        return max(0, operator.index(value))
    except TypeError:
        raise TypeError(
            f"kernel {kernel!r}: the size {name} is {value!r}, which is no whole number"
        ) from None


class _Variant(NamedTuple):
    """A Kernel with its line, and the sizes that its recipe asks."""

    kernel: Any
    line: Any
    asked: dict[str, Size]
    values: tuple[int, ...]

    def holds(self, values: tuple[int, ...]) -> bool:
        """Return True if each answer that the recipe was given is the answer for these sizes.

        A recipe that has not run yet may ask anything.
        """
        if values == self.values:
            return True
        if self.line.open is None:
            return False
        return all(
            answers(size, value) for size, value in zip(self.asked.values(), values, strict=True)
        )


class SizedKernel:
    """The kernels of one recipe with sizes: a call takes the variant for its sizes. Called as a Kernel is. Thread-safe.

    `prepare`, `source`, `key` and `explain` take sizes by name, as `n=64`; without them they mean the general variant.
    """

    has_variants = True  # its kernels have no name of their own

    def __init__(self, call: RecipeCall, found: Sizes, handle: Any) -> None:
        self._handle = handle  # the module of Kernel, which lies above this room
        self.name = call.name
        self._call = call
        self._declared = found
        self._names = tuple(found.texts)
        self._code = compile(
            f"({' '.join(f'({text}),' for text in found.texts.values())})", "<sizes>", "eval"
        )
        self._lock = threading.Lock()
        self._variants: list[_Variant] = []
        self._chosen: dict[tuple[int, ...], Any] = {}
        self._last: tuple[tuple[int, ...], Any] | None = None

    def __call__(
        self, queue: cl.CommandQueue = None, *unnamed: Any, **arguments: Any
    ) -> tuple[Any, Any]:
        """Launch the variant for the sizes of this call; arguments, outputs and errors are those of a Kernel."""
        result: tuple[Any, Any] = self.kernel_for(self._sizes(arguments))(
            queue, *unnamed, **arguments
        )
        return result

    def bind(self, queue: cl.CommandQueue, **arguments: Any) -> Callable[..., cl.Event]:
        """Return `launch(**arguments)` as `Kernel.bind` does; it raises ValueError for sizes of another variant."""
        bound = self._sizes(arguments)
        kernel = self.kernel_for(bound)
        launch = kernel.bind(queue, **arguments)
        variant = next(one for one in self._variants if one.kernel is kernel)

        def launch_sized(**arguments: Any) -> cl.Event:
            given = self._sizes(arguments)
            if given != bound and not variant.holds(given):
                raise ValueError(
                    f"kernel {self.name!r} is bound for {self._said(variant, bound)}, and not for "
                    f"{', '.join(f'{name} = {one}' for name, one in zip(self._names, given, strict=True))}: bind again"
                )
            return launch(**arguments)

        return launch_sized

    def prepare(self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any) -> None:
        """Make everything that a launch of one variant needs, as `Kernel.prepare` does."""
        kernel, left = self.asked(context_or_queue, arguments)
        kernel.prepare(context_or_queue, **left)

    def source(self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any) -> str:
        """Return the OpenCL C of one variant."""
        kernel, left = self.asked(context_or_queue, arguments)
        return str(kernel.source(context_or_queue, **left))

    def key(
        self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any
    ) -> dict[str, Key | None]:
        """Return the key of one variant in each layer."""
        kernel, left = self.asked(context_or_queue, arguments)
        return dict(kernel.key(context_or_queue, **left))

    def explain(self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any) -> str:
        """Say what the recipe asked of its sizes, and what each layer holds for one variant."""
        kernel, left = self.asked(context_or_queue, arguments)
        words = kernel.explain(context_or_queue, **left)
        variant = next(one for one in self._variants if one.kernel is kernel)
        return f"{words}\n  sizes: {self._said(variant, self._given(arguments))}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy as the recipe by its name, with the parameters."""
        function = self._call.function
        if "<locals>" in function.__qualname__:
            raise TypeError(
                f"kernel {self.name!r} cannot be pickled or copied: its recipe is no function of a module"
            )
        return self._handle.by_name, (
            function.__module__,
            function.__qualname__,
            self._call.arguments,
        )

    def __repr__(self) -> str:
        return f"<kcl.SizedKernel {self.name}: {len(self._variants)} variant(s) for {', '.join(self._names)}>"

    def _sizes(self, arguments: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the sizes of a call; 0 for all if one cannot be known, so that the general variant gives the error."""
        try:
            found: tuple[int, ...] = eval(
                self._code, FUNCTIONS, arguments
            )  # checked as the recipe was decorated
        except (NameError, AttributeError, IndexError, ZeroDivisionError):
            return (0,) * len(self._names)
        return found

    def kernel_for(self, values: tuple[int, ...]) -> Any:
        """Return the variant for these sizes; raises TypeError for a size that is no integer."""
        last = self._last
        if last is not None and last[0] == values:
            return last[1]
        kernel = self._chosen.get(values)
        if kernel is None:
            kernel = self._choose(values)
        self._last = (values, kernel)
        return kernel

    def _choose(self, values: tuple[int, ...]) -> Any:
        whole = tuple(
            [
                whole_number(self.name, name, value)
                for name, value in zip(self._names, values, strict=True)
            ]
        )
        with self._lock:
            found = next((one for one in self._variants if one.holds(whole)), None)
            if found is None:
                seen = values_of(self._call.function, self._names, self._declared.most)
                asked = {
                    name: Size(name, value, seen)
                    for name, value in zip(self._names, whole, strict=True)
                }
                kernel = self._handle.of_call(self._call._replace(sizes=asked))
                found = _Variant(kernel, self._handle.line_of(kernel), asked, whole)
                self._variants.append(found)
            if len(self._chosen) >= _CHOICES:
                self._chosen.clear()
            self._chosen[values] = found.kernel
        return found.kernel

    def asked(self, _holder: Any, arguments: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the variant for the sizes that are given by name, and the other arguments."""
        given = self._given(arguments)
        left = {
            name: one
            for name, one in arguments.items()
            if name not in self._names or not hasattr(one, "__index__")
        }
        return self.kernel_for(given), left

    def _given(self, arguments: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the sizes that are given by name, 0 for the others; a dtype of this name is that of an argument."""
        return tuple(
            arguments[name] if hasattr(arguments.get(name), "__index__") else 0
            for name in self._names
        )

    def _said(self, variant: _Variant, values: tuple[int, ...]) -> str:
        return "; ".join(
            said(size, value) for size, value in zip(variant.asked.values(), values, strict=True)
        )
