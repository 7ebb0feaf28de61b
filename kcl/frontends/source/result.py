"""The front end of OpenCL C: `kcl.Source`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kcl.code import Argument, Code, Invoker, ProgramText, layout_of
from kcl.frontends.source import Array, Image, Local, Sampler, Scalar, Source, dtype_of
from kcl.generate.protocol import FrontEnd, Unit

if TYPE_CHECKING:
    import numpy as np

    from kcl.frontends.source import Declaration

_DESCRIBED = ("code", "entry", "arguments", "global_size", "local_size", "build_options")


class SourceUnit(Unit):
    """The Unit for a Source. All dtypes are declared, so none is open.

    The invoker reports a missing array when the kernel is launched.
    """

    front_end = "opencl"
    label = "kcl.Source"

    def __init__(self, source: Source) -> None:
        self._source = source
        self.options: tuple[str, ...] = (
            *source.build_options,
            *(f"-I{directory}" for directory in source.include_dirs),
        )

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The declared arguments."""
        return tuple([_argument(argument) for argument in self._source.arguments])

    def identity(self) -> str:
        """Return a digest of the source and all declarations. The content of headers is in the program key."""
        source = self._source
        arguments = [(type(argument).__name__, *_fields(argument)) for argument in source.arguments]
        others = (source.entry, source.global_size, source.local_size, source.build_options)
        return hashlib.sha256(
            repr((source.code, arguments, others)).encode("utf-8", "surrogatepass")
        ).hexdigest()

    def described(self) -> list[list[str]]:
        """Return the source and the declarations, to explain a later miss."""
        return [[name, _text(getattr(self._source, name))] for name in _DESCRIBED]

    def generate(self, kernel: str, _dtypes: Mapping[str, np.dtype[Any]]) -> Code:
        """Generate the invoker; raises RecipeError if the arguments contradict the kernel's parameters."""
        # Imported late, since a hit needs neither module.
        from kcl.frontends.source import invoker as invokers
        from kcl.frontends.source import parameters

        source = self._source
        parameters.refuse_unlike(source)
        invoker = Invoker(
            front_end="opencl",
            source=invokers.write(source),
            function="invoke",
            arguments=self.arguments,
            inferred={},
            packed={},
            dtypes=[],
        )
        return Code(ProgramText(kernel, source.code, self.options, (source.entry,)), invoker)


class SourceFrontEnd(FrontEnd):
    """The front end of OpenCL C. Beside the Source, numpy and pyopencl decide the code, as the invoker uses them."""

    generators = ("numpy", "pyopencl")

    def hold(self, value: object, _recipe: str) -> SourceUnit | None:
        """Return a Source as a SourceUnit; None for any other object."""
        return SourceUnit(value) if isinstance(value, Source) else None


FRONT_END = SourceFrontEnd()


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return repr(tuple(item if isinstance(item, str) else str(item) for item in value))
    return repr(value)


def _fields(argument: Declaration) -> list[Any]:
    """Return the fields of a declaration, with the layout in place of the dtype."""
    if isinstance(argument, (Image, Sampler)):
        return list(argument)
    return [*argument._replace(dtype=None), layout_of(dtype_of(argument))]


def _argument(argument: Declaration) -> Argument:
    """Return a declaration as an Argument. Local memory is not required, since a call does not give it."""
    if isinstance(argument, (Array, Scalar, Local)):
        required = isinstance(argument, Array) and argument.direction != "out"
        return Argument(
            argument.name, type(argument).__name__, str(dtype_of(argument).str), required
        )
    return Argument(
        argument.name,
        type(argument).__name__,
        argument.type if isinstance(argument, Image) else "",
        True,
    )
