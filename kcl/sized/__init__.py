"""Sizes: a recipe asks what is true of the sizes of a call, and the handle chooses the variant for which it holds.

    sizes = {name: text}     expressions over the arguments of the call, in the grammar of a Source's shapes

A size that the call names, as `n=64`, is that number, and its text is not asked. A variant is a Kernel whose recipe saw
one set of sizes. It holds for a call if all answers that its recipe was given are those for the sizes of the call. An
answer reaches loopy, or changes nothing: so it is in the record and in the key. It depends on the call only, but for
`fixed="auto"`: see `Values`.
"""

from __future__ import annotations

import ast
import inspect
import operator
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyopencl as cl

from kcl.errors import RecipeError, meant
from kcl.frontends.source import expressions, round_up
from kcl.sized.size import Size, answers, said, values_of

if TYPE_CHECKING:
    from kcl.cache.key import Key
    from kcl.generate.declarations import RecipeCall

FIXED = 16  # the largest value that is fixed, if the declaration says nothing
UNKNOWN = (NameError, AttributeError, LookupError, ZeroDivisionError, TypeError, ValueError)
_CHOICES = 64  # tuples of sizes whose variants are found at once
# A text has these functions, and none of Python's own.
FUNCTIONS = {"__builtins__": {}, "min": min, "max": max, "round_up": round_up}
_WHOLE = {"_kcl_index": operator.index, "_kcl_whole": operator.index}


class Sizes(NamedTuple):
    """The sizes of a recipe: an expression by the name of each parameter.

    Values up to `fixed` are fixed, or with "auto" the `most` values that are seen first. `arguments` are the names in
    the expressions.
    """

    texts: Mapping[str, str]
    fixed: Any = FIXED
    most: int = 1
    arguments: tuple[str, ...] = ()

    def taken(
        self, function: Any, known: list[str], arguments: dict[str, Any], is_new: bool
    ) -> dict[str, Any]:
        """Return the arguments of a call without the sizes that are not `known`: their variant has them as constants.

        If the code is new, raises RecipeError for an expression with a name that is neither known nor a size.
        """
        unknown = [name for name in self.arguments if name not in (*known, *self.texts)]
        if is_new and unknown:
            from kcl.launch.refusals import place

            raise RecipeError(
                f"sizes={dict(self.texts)} names {unknown[0]!r}, which is no argument of kernel "
                f"{function.__name__!r}{place(function)}{meant(unknown[0], known)}: it takes {', '.join(known)}"
            )
        return {
            name: value
            for name, value in arguments.items()
            if name in known or name not in self.texts
        }


def sizes(*, fixed: int | str = FIXED, most: int = 1, **texts: str) -> Sizes:
    """Declare the sizes of a recipe, as `@kcl.kernel(sizes=kcl.sizes(k="a.shape[2]", fixed=64))`.

    Each text is an expression over the arguments of a call. `fixed` of a size is its value, if that is at most `fixed`;
    with 0 it never is. With `fixed="auto"` it is the value as long as the recipe has seen at most `most` values of it,
    in this run and in earlier ones. Raises TypeError for a text that is no such expression.

    >>> @kcl.kernel(sizes=kcl.sizes(n="x.shape[0]", fixed=64))
    ... def negated(n):
    ...     import loopy as lp
    ...     return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = -x[i]", lang_version=(2018, 2))
    >>> event, (y,) = negated()(queue, x=np.ones(2))
    >>> y.tolist()
    [-1.0, -1.0]
    """
    for number in most, 0 if fixed == "auto" else fixed:
        if not isinstance(number, int) or number < 0:
            raise TypeError(
                f'kcl.sizes(fixed=...) takes a whole number or "auto", most= a whole number, not {number!r}'
            )
    if most != 1 and fixed != "auto":
        raise TypeError(
            f'kcl.sizes(most={most}) belongs to fixed="auto": write fixed=64 for a largest value'
        )
    return _checked(Sizes(texts, fixed, most))


def declared(given: Any, parameters: tuple[str, ...], others: bool = False) -> Sizes:
    """Return the sizes that a decorator declares; raises TypeError where they cannot be meant.

    With `others` a size need not be a parameter: a space asks it.
    """
    declaration = Sizes(dict(given)) if isinstance(given, Mapping) else given
    if not isinstance(declaration, Sizes) or not declaration.texts:
        raise TypeError(
            f'@kcl.kernel(sizes=...) takes a dictionary such as {{"n": "x.shape[0]"}}, not {given!r}'
        )
    for name in declaration.texts:
        if name not in parameters and not others:
            raise TypeError(
                f"@kcl.kernel(sizes=...) names {name!r}, which is no parameter of the recipe"
            )
    return _checked(declaration)


def bind(
    function: Any, declaration: Sizes, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Give every parameter but the sizes its value; raises TypeError for a size that is given by hand."""
    signature = inspect.signature(function)
    others = [
        parameter
        for name, parameter in signature.parameters.items()
        if name not in declaration.texts
    ]
    for name in declaration.texts:
        if name in kwargs:
            raise TypeError(
                f"recipe {function.__name__!r}: {name!r} is a size, which the arguments of a call give"
            )
    try:
        bound = signature.replace(parameters=others).bind(*args, **kwargs)
    except TypeError as error:
        takes = ", ".join(parameter.name for parameter in others) or "none"
        raise TypeError(
            f"recipe {function.__name__!r}: {error}; its parameters beside the sizes are: {takes}"
        ) from None
    bound.apply_defaults()
    return dict(bound.arguments)


def _checked(declaration: Sizes) -> Sizes:
    arguments: set[str] = set()
    for name, text in declaration.texts.items():
        if not isinstance(text, str):
            raise TypeError(
                f"the size {name!r} is {text!r}; write an expression such as 'x.shape[0]'"
            )
        try:
            tree = expressions.parsed(name, "the size", text)
            used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            used -= FUNCTIONS.keys()
            kinds = dict.fromkeys(sorted(used), expressions.VALUE)
            expressions.check(name, "the size", text, kinds)
        except RecipeError as error:
            # The check is that of a Source's shapes, and so are its words.
            raise TypeError(str(error).replace("kcl.Source", "size")) from None
        if not used:
            raise TypeError(
                f"the size {name!r} is {text!r}, which names no argument; write the number into the recipe"
            )
        arguments |= used
    return declaration._replace(arguments=tuple(sorted(arguments)))


def code_of(texts: Mapping[str, str]) -> str:
    """Write the sizes of a call as a tuple in Python: a whole number that the call names, else what the text says.

    A text that asks for an attribute of the name, as `n.shape[0]`, means an array of that name.
    """
    code = ""
    for name, text in texts.items():
        is_array = text.strip() == name or re.search(rf"\b{name}\s*\.", text)
        named = "" if is_array else f"_kcl_index({name}) if {name} is not None else "
        code += f"({named}_kcl_whole({text})),"
    return f"({code})"


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
        return self.line.open is not None and all(map(answers, self.asked.values(), values))


class SizedKernel:
    """The kernels of one recipe with sizes: a call takes the variant for its sizes. Called as a Kernel is. Thread-safe.

    `prepare`, `source`, `key` and `explain` take sizes by name, as `n=64`; without them they mean the general variant.
    """

    # Its kernels have no name of their own.
    has_variants = True

    def __init__(
        self, call: RecipeCall, declaration: Sizes, handle: Any, accepted: Sizes | None = None
    ) -> None:
        # The module of Kernel lies above this room, so it is handed in.
        self._handle = handle
        self.name = call.name
        self._call = call
        self._declared = declaration
        # A call may name sizes that serve a space only, too.
        self._accepted = accepted or declaration
        self._names = tuple(declaration.texts)
        self._code = compile(code_of(declaration.texts), "<sizes>", "eval")
        # What the code has beside the arguments of a call: a size that is not named is None.
        self._beside = {**dict.fromkeys(declaration.texts), **_WHOLE, **FUNCTIONS}
        self._lock = threading.Lock()
        self._variants: list[_Variant] = []
        self._chosen: dict[tuple[int, ...], _Variant] = {}

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
        variant = self._variant_for(bound)
        launch: Callable[..., cl.Event] = variant.kernel.bind(queue, **arguments)

        def launch_sized(**arguments: Any) -> cl.Event:
            values = self._sizes(arguments)
            if values != bound and not variant.holds(values):
                raise ValueError(
                    f"kernel {self.name!r} is bound for {self._said(variant, bound)}, and not for "
                    f"{', '.join(map('{} = {}'.format, self._names, values))}: bind again"
                )
            return launch(**arguments)

        return launch_sized

    def prepare(self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any) -> None:
        """Make everything that a launch of one variant needs, as `Kernel.prepare` does."""
        self._told("prepare", context_or_queue, arguments)

    def source(self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any) -> str:
        """Return the OpenCL C of one variant."""
        return str(self._told("source", context_or_queue, arguments))

    def key(
        self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any
    ) -> dict[str, Key | None]:
        """Return the key of one variant in each layer."""
        return dict(self._told("key", context_or_queue, arguments))

    def explain(self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any) -> str:
        """Say what the recipe asked of its sizes, and what each layer holds for one variant."""
        words = self._told("explain", context_or_queue, arguments)
        values = self._given(arguments)
        return f"{words}\n  sizes: {self._said(self._variant_for(values), values)}"

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
        """Return the sizes of a call; 0 for all if one cannot be known, so that the general variant gives the error.

        Raises TypeError for a text whose value is no whole number.
        """
        try:
            # The text was checked as the recipe was decorated.
            return eval(self._code, self._beside, arguments)  # type: ignore[no-any-return]
        except UNKNOWN:
            # This time values count as they are, so that `_whole` names the size that is no whole
            # number.
            values, as_it_is = (0,) * len(self._names), {"_kcl_whole": lambda value: value}
            with suppress(*UNKNOWN):
                values = eval(self._code, {**self._beside, **as_it_is}, arguments)
            return tuple(self._whole(values).values())

    def _whole(self, values: Iterable[Any]) -> dict[str, int]:
        """Return sizes by name, of 0 or more, 0 for None; raises TypeError for what is no whole number."""
        by_name = dict(zip(self._names, values, strict=True))
        for name, value in by_name.items():
            try:
                by_name[name] = 0 if value is None else max(0, operator.index(value))
            except TypeError:
                words = f"the size {name} is {value!r}, which is no whole number"
                raise TypeError(f"kernel {self.name!r}: {words}") from None
        return by_name

    def kernel_for(self, values: tuple[int, ...]) -> Any:
        """Return the kernel for these sizes; raises TypeError for a size that is no integer."""
        return self._variant_for(values).kernel

    def _variant_for(self, values: tuple[int, ...]) -> _Variant:
        return self._chosen.get(values) or self._choose(values)

    def _choose(self, values: tuple[int, ...]) -> _Variant:
        whole = tuple(self._whole(values).values())
        # Threads that come with the same sizes share one variant.
        with self._lock:
            variant = next((variant for variant in self._variants if variant.holds(whole)), None)
            if variant is None:
                rule = self._declared.fixed
                if rule == "auto":
                    rule = values_of(self._call.function, self._names, self._declared.most)
                sizes = map(partial(Size, rule=rule), self._names, whole)
                by_name = dict(zip(self._names, sizes, strict=True))
                kernel = self._handle.of_call(self._call._replace(sizes=by_name), self._accepted)
                variant = _Variant(kernel, self._handle.line_of(kernel), by_name, whole)
                self._variants.append(variant)
            if len(self._chosen) >= _CHOICES:
                self._chosen.clear()
            self._chosen[values] = variant
        return variant

    def asked(self, _holder: Any, arguments: Mapping[str, Any]) -> Any:
        """Return the kernel for the sizes that are given by name."""
        return self.kernel_for(self._given(arguments))

    def _told(self, verb: str, holder: Any, arguments: dict[str, Any]) -> Any:
        return getattr(self.asked(holder, arguments), verb)(holder, **arguments)

    def _given(self, arguments: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the sizes that are given by name, 0 for the others; a dtype of this name is that of an argument."""
        values = map(arguments.get, self._names)
        return tuple([value if hasattr(type(value), "__index__") else 0 for value in values])  # type: ignore[misc]

    def _said(self, variant: _Variant, values: tuple[int, ...]) -> str:
        return "; ".join(map(said, variant.asked.values(), values))
