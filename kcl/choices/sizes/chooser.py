"""`BySizes`, the chooser by sizes: a call gets the variant whose recipe got answers that are right for its sizes."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kcl.base import process
from kcl.choices.sizes import FUNCTIONS
from kcl.choices.sizes.size import Size, answers, describe, find_values
from kcl.line import UNKNOWN, Line, of_call

if TYPE_CHECKING:
    import pyopencl as cl

    from kcl.choices.sizes import Sizes
    from kcl.generate.declarations import RecipeCall
    from kcl.line import Launch

T = TypeVar("T")
_CHOICES = 64  # tuples of sizes whose variants are remembered


class CallSizes:
    """Computes the sizes of calls. `exact(arguments)` raises one of UNKNOWN if a size cannot be computed."""

    def __init__(self, kernel: str, texts: Mapping[str, str]) -> None:
        self.names = tuple(texts)
        self._kernel = kernel
        self._code = write_code(texts)
        self.exact = self._function(operator.index)

    def _function(self, convert: Callable[[Any], Any]) -> Callable[[Mapping[str, Any]], Any]:
        # Safe, since the texts were checked when the recipe was decorated.
        names = {**FUNCTIONS, "_kcl_index": operator.index, "_kcl_convert": convert}
        return eval(self._code, names)  # type: ignore[no-any-return]

    def compute(self, arguments: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the sizes of a call; all 0 if one cannot be computed, so that launching the general variant fails.

        Raises TypeError if the value of an expression is no integer.
        """
        try:
            return self.exact(arguments)  # type: ignore[no-any-return]
        except UNKNOWN:
            # Computed again without conversion, so that `check_whole` can name a size that is no integer.
            values = (0,) * len(self.names)
            with suppress(*UNKNOWN):
                values = self._function(lambda value: value)(arguments)
            return tuple(self.check_whole(values).values())

    def check_whole(self, values: Iterable[Any]) -> dict[str, int]:
        """Return name -> size for values, with 0 for None and negative ones; raises TypeError if one is no integer."""
        by_name = dict(zip(self.names, values, strict=True))
        for name, value in by_name.items():
            try:
                by_name[name] = 0 if value is None else max(0, operator.index(value))
            except TypeError:
                words = f"the size {name} is {value!r}, which is no whole number"
                raise TypeError(f"kernel {self._kernel!r}: {words}") from None
        return by_name

    def read_named(self, values: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the sizes that are given by name, 0 for the others. A dtype under such a name belongs to an argument."""
        sizes = map(values.get, self.names)
        return tuple([size if hasattr(type(size), "__index__") else 0 for size in sizes])  # type: ignore[misc]


def write_code(texts: Mapping[str, str]) -> str:
    """Return the source of a function that computes the sizes from the arguments of a call.

    A size is the integer that the call gives by name, else the value of its expression. If the expression uses an attribute
    of its own name, as in `n.shape[0]`, the name means an array. For `n` with the expression `x.shape[0]` the source is

        _kcl_index(_kcl_size) if (_kcl_size := _kcl_call.get('n')) is not None else _kcl_convert(_kcl_call['x'].shape[0])
    """
    code, in_call = "", _InCall(texts)
    for name, text in texts.items():
        is_array = text.strip() == name or re.search(rf"\b{name}\s*\.", text)
        is_named = f"(_kcl_size := _kcl_call.get({name!r})) is not None"
        named = "" if is_array else f"_kcl_index(_kcl_size) if {is_named} else "
        code += f"({named}_kcl_convert({ast.unparse(in_call.visit(ast.parse(text)))})),"
    return f"lambda _kcl_call: ({code})"


class _InCall(ast.NodeTransformer):
    """Replaces each name in an expression by the argument of the call; a size that is not given is None."""

    def __init__(self, sizes: Collection[str]) -> None:
        self._sizes = sizes

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in FUNCTIONS:
            return node
        name = node.id
        argument = f"_kcl_call.get({name!r})" if name in self._sizes else f"_kcl_call[{name!r}]"
        return ast.parse(argument, mode="eval").body


class BySizes(process.LockedState):
    """The chooser of a recipe with sizes. It has a Line for each variant, with the Size objects that the recipe got.

    A recipe that takes no sizes has one variant.
    """

    space = None
    has_variants = True

    def __init__(self, call: RecipeCall, sizes: Sizes) -> None:
        super().__init__()
        self.name = call.name
        self.function = call.function
        self.parameters = call.arguments
        self._call = call
        self._sizes = sizes
        # Without sizes that are for a space only, since the recipe does not take them.
        self._call_sizes = CallSizes(call.name, sizes.of_recipe(call.function).texts)
        self._variants: dict[Line, list[Size]] = {}
        self._chosen: dict[tuple[int, ...], Line] = {}

    @property
    def state(self) -> str:
        """The number of variants, and the names of the sizes."""
        return f"{len(self._variants)} variant(s) for {', '.join(self._call_sizes.names)}"

    def last(self, _device: cl.Device, arguments: Mapping[str, Any]) -> str:
        """Return the digest of the code that was last used for these sizes."""
        return self._chosen[self._call_sizes.exact(arguments)].sole

    def general(self) -> Line:
        """Return the general variant, which is for any sizes."""
        return self.line_for((0,) * len(self._call_sizes.names))

    def use(self, _queue: Any, arguments: Mapping[str, Any], launch: Callable[[Line], T]) -> T:
        """Launch the variant for the sizes of a call."""
        return launch(self.line_for(self._call_sizes.compute(arguments)))

    def bind(
        self, _queue: cl.CommandQueue, arguments: dict[str, Any], bind: Callable[[Line], Launch]
    ) -> Launch:
        """Bind the variant for these arguments; the function raises ValueError for sizes of another variant."""
        bound = self._call_sizes.compute(arguments)
        line = self.line_for(bound)
        launch = bind(line)
        if not bound:
            return launch

        def launch_sized(**arguments: Any) -> cl.Event:
            values = self._call_sizes.compute(arguments)
            if values != bound and not self._holds(line, values):
                raise ValueError(
                    f"kernel {self.name!r} is bound for {self._describe(line, bound)}, and not for "
                    f"{', '.join(map('{} = {}'.format, self._call_sizes.names, values))}: bind again"
                )
            return launch(**arguments)

        return launch_sized

    def asked(
        self, _holder: Any, values: Mapping[str, Any]
    ) -> tuple[Line, Callable[[], list[str]]]:
        """Return the variant for sizes that are given by name."""
        named = self._call_sizes.read_named(values)
        line = self.line_for(named)
        return line, lambda: [f"  sizes: {self._describe(line, named)}"]

    def line_for(self, values: tuple[int, ...]) -> Line:
        """Return the line of the variant for these sizes; raises TypeError if one is no integer."""
        return self._chosen.get(values) or self._choose(values)

    def _choose(self, values: tuple[int, ...]) -> Line:
        whole = tuple(self._call_sizes.check_whole(values).values())
        # Under the lock, so that threads with the same sizes share a variant.
        with self.lock:
            # Copied, since a signal handler may add a variant meanwhile.
            line = next((line for line in [*self._variants] if self._holds(line, whole)), None)
            if line is None:
                rule, names = self._sizes.fixed, self._call_sizes.names
                if rule == "auto":
                    rule = find_values(self._call.function, names, self._sizes.most)
                sizes = [*map(partial(Size, rule=rule), names, whole)]
                by_name = dict(zip(names, sizes, strict=True))
                line = of_call(self._call._replace(sizes=by_name), self._sizes)
                self._variants[line] = sizes
            if len(self._chosen) >= _CHOICES:
                self._chosen.clear()
            self._chosen[values] = line
        return line

    def _holds(self, line: Line, values: tuple[int, ...]) -> bool:
        """Return True if all answers that the recipe of a line got are right for these sizes."""
        reply = partial(answers, has_run=line.open is not None)
        return all(map(reply, self._variants[line], values))

    def _describe(self, line: Line, values: tuple[int, ...]) -> str:
        """Describe the answers that the recipe of a line got."""
        return "; ".join(map(describe, self._variants[line], values))
