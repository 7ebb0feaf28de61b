"""The OpenCL C front end: a Source says what its kernel takes and how it is launched.

The invoker that is made from it behaves as loopy's does: numpy and device arrays in, outputs allocated where they
are not given, sizes found from shapes, the same kinds of errors.
"""

from __future__ import annotations

import ast
import hashlib
import keyword
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcl.errors import RecipeError
from kcl.generate.code import Argument, Code, Invoker, ProgramText
from kcl.generate.frontends import Open
from kcl.namedtuple import NamedTuple
from kcl.record.dtypes import dtype_from, layout_of

if TYPE_CHECKING:
    import numpy as np

_DIRECTIONS = ("in", "out", "inout")
# Names that a call or the invoker uses for something else.
_TAKEN = frozenset(
    (
        *("self", "queue", "allocator", "wait_for", "out_host"),
        *("min", "max", "int", "isinstance", "len", "list", "tuple"),
        *("_np", "_cl", "_cl_array", "_DeferredAllocator"),
    )
)
_ALLOWED = (
    ast.Expression,
    ast.Tuple,
    ast.BinOp,
    ast.UnaryOp,
    ast.Constant,
    ast.Name,
    ast.Load,
    ast.Attribute,
    ast.Subscript,
    ast.Call,
    ast.operator,
    ast.unaryop,
)


class Array(NamedTuple):
    """A global array argument.

    `shape` is an expression over scalars and other arrays' shapes: "(n, m)", "(2*n,)", "(x.shape[0],)"; C order.
    `direction` is "in", "out" (allocated where it is not given) or "inout". A call gives a numpy array, a
    `pyopencl.array.Array`, or a buffer where scalars and other arrays say the shape.
    """

    name: str
    dtype: Any
    shape: str
    direction: str = "in"


class Scalar(NamedTuple):
    """A scalar argument; one that stands alone as an axis of an array's shape may be left out of a call."""

    name: str
    dtype: Any


class Local(NamedTuple):
    """Local memory: `size` is an expression for the number of elements of `dtype`."""

    name: str
    dtype: Any
    size: str


class Source:
    """OpenCL C with what is needed to launch it.

    `arguments` lists Array, Scalar and Local in the order of the kernel's parameters. `global_size` and `local_size`
    are expressions over scalars and shapes that give a tuple of work-items ("(n,)", "((n + 63)//64*64,)"); a
    `local_size` of None leaves the choice to the driver. `include_dirs` are searched for `#include` in their order.
    `build_options` and `include_dirs` are lists: one text for all is refused.
    Raises RecipeError for a declaration that cannot be meant.
    """

    __slots__ = ("arguments", "build_options", "code", "entry", "global_size", "include_dirs", "local_size", "path")

    def __init__(
        self,
        code: str,
        *,
        entry: str,
        arguments: Sequence[Array | Scalar | Local],
        global_size: str,
        local_size: str | None = None,
        build_options: Sequence[str] = (),
        include_dirs: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        self.code = code
        self.entry = entry
        self.arguments = _listed(entry, "arguments", arguments, (Array, Scalar, Local))
        self.global_size = global_size
        self.local_size = local_size
        self.build_options = _listed(entry, "build_options", build_options, (str,))
        directories = _listed(entry, "include_dirs", include_dirs, (str, os.PathLike))
        self.include_dirs = tuple(os.fspath(directory) for directory in directories)
        self.path: str | None = None
        _check(self)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], **keywords: Any) -> Source:
        """Read the OpenCL C from a file; the keywords are those of the class. A changed file is a miss."""
        with open(path, encoding="utf-8") as stream:
            source = cls(stream.read(), **keywords)
        source.path = os.fspath(path)
        return source

    def kernel(self, entry: str, **changed: Any) -> Source:
        """Return another kernel of the same text; the keywords are those of the class, for what is not the same.

        The text is built once for all of its kernels. Raises RecipeError as the class does.
        """
        same = {name: getattr(self, name) for name in self.__slots__ if name not in ("code", "entry", "path")}
        source = Source(self.code, entry=entry, **(same | changed))
        source.path = self.path
        return source


def accept(result: object, _recipe: str) -> SourceResult | None:
    """Return a Source in the hands of its front end, None for anything else."""
    return SourceResult(result) if isinstance(result, Source) else None


class SourceResult:
    """A Source in the hands of its front end: every dtype is declared, so nothing is open."""

    front_end = "opencl"
    volatile = ""
    packed: dict[str, list[tuple[Any, str]]] = {}  # noqa: RUF012

    def __init__(self, source: Source) -> None:
        self._source = source
        self.reads = (source.path,) if source.path else ()

    @property
    def options(self) -> tuple[str, ...]:
        """The build options, the include directories among them."""
        source = self._source
        return (*source.build_options, *(f"-I{directory}" for directory in source.include_dirs))

    def open(self, _dtypes: Mapping[str, np.dtype[Any]]) -> Open:
        """Return that nothing is open."""
        # Nor is an array needed to find the code: one that is missing is reported when the kernel is launched.
        return Open((), (), (), {})

    def follows(self, _dtypes: Mapping[str, np.dtype[Any]], _needed: tuple[str, ...]) -> bool:
        """Return True: no dtype makes a difference."""
        return True

    def identity(self) -> str:
        """Return the SHA-256 over everything that was declared, and the source."""
        return self._digest(self._source.include_dirs)

    @property
    def digest(self) -> str:
        """The SHA-256 over the same but the include directories: the program key has what lies there."""
        return self._digest(())

    def _digest(self, include_dirs: tuple[str, ...]) -> str:
        source = self._source
        arguments = [
            (type(argument).__name__, *argument._replace(dtype=None), layout_of(_dtype(argument)))
            for argument in source.arguments
        ]
        beside = (source.entry, source.global_size, source.local_size, source.build_options, include_dirs)
        return hashlib.sha256(repr((source.code, arguments, beside)).encode("utf-8", "surrogatepass")).hexdigest()

    def generate(self, kernel: str, _dtypes: Mapping[str, np.dtype[Any]]) -> Code:
        """Write the invoker."""
        source = self._source
        invoker = Invoker(
            front_end="opencl",
            source=_write_invoker(source),
            function="invoke",
            arguments=tuple(
                Argument(a.name, type(a).__name__, str(_dtype(a).str), isinstance(a, Array) and a.direction != "out")
                for a in source.arguments
                if not isinstance(a, Local)
            ),
            inferred={},
            packed={},
            dtypes=[],
        )
        return Code(ProgramText(kernel, source.code, self.options, (source.entry,)), invoker)


def _dtype(argument: Array | Scalar | Local) -> np.dtype[Any]:
    import numpy as np

    dtype: np.dtype[Any] = np.dtype(argument.dtype)
    return dtype


def _listed(entry: str, parameter: str, given: Any, kinds: tuple[type, ...]) -> tuple[Any, ...]:
    """Return the items of a parameter that is a list; refuse a single item in its place, and items of other types."""
    says, names = f"kcl.Source {entry!r}: {parameter}", " or ".join(kind.__name__ for kind in kinds)
    if isinstance(given, kinds):
        raise RecipeError(f"{says} is a list; write {parameter}=[{given!r}]")
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise RecipeError(f"{says} is a list of {names}, not {given!r}; write {parameter}=[...]")
    items = tuple(given)
    for item in items:
        if not isinstance(item, kinds):
            raise RecipeError(f"{says} lists {names}, not {item!r}; mend that item")
    return items


def _check(source: Source) -> None:
    for argument in source.arguments:
        _check_dtype(source, argument)
    names = [argument.name for argument in source.arguments]
    for name in (source.entry, *names):
        if not name.isidentifier() or keyword.iskeyword(name) or name in _TAKEN or name.startswith("_kcl"):
            raise RecipeError(f"kcl.Source {source.entry!r}: {name!r} is no usable name; rename it in the OpenCL C")
    if len(set(names)) != len(names):
        raise RecipeError(f"kcl.Source {source.entry!r}: an argument is declared twice: {names}")
    known = [argument.name for argument in source.arguments if not isinstance(argument, Local)]
    for argument in source.arguments:
        if isinstance(argument, Array) and argument.direction not in _DIRECTIONS:
            raise RecipeError(f"argument {argument.name!r}: direction is one of {', '.join(_DIRECTIONS)}")
        if isinstance(argument, Array):
            _check_expression(source, argument.shape, known, f"shape of {argument.name!r}")
        if isinstance(argument, Local):
            _check_expression(source, argument.size, known, f"size of {argument.name!r}")
    _check_expression(source, source.global_size, known, "global_size")
    if source.local_size is not None:
        _check_expression(source, source.local_size, known, "local_size")


def _check_dtype(source: Source, argument: Array | Scalar | Local) -> None:
    try:
        _dtype(argument)
    except Exception:
        import numpy as np

        from kcl.launch.refusals import meant

        near = meant(argument.dtype, np.sctypeDict) if isinstance(argument.dtype, str) else ""
        raise RecipeError(
            f"kcl.Source {source.entry!r}: the dtype of argument {argument.name!r} is {argument.dtype!r}, which numpy "
            f"does not know{near}; write np.float32, np.int32, or another dtype of numpy"
        ) from None


def _check_expression(source: Source, text: str, names: list[str], what: str) -> None:
    """Let arithmetic over declared names pass, and nothing that could be more."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise RecipeError(f"kcl.Source {source.entry!r}: {what} is no expression: {text!r} ({error.msg})") from error
    for node in ast.walk(tree):
        bad = (
            not isinstance(node, _ALLOWED)
            or isinstance(node, (ast.Div, ast.MatMult))
            or (isinstance(node, ast.Constant) and type(node.value) is not int)
            or (isinstance(node, ast.Name) and node.id not in (*names, "min", "max"))
            or (isinstance(node, ast.Attribute) and node.attr not in ("shape", "size"))
            or (isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in ("min", "max")))
        )
        if bad:
            raise RecipeError(
                f"kcl.Source {source.entry!r}: {what} is {text!r}; "
                f"use integer arithmetic (// for /), min, max and shapes over {', '.join(names)}"
            )


class _Writer:
    """Lines of Python with an indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str, depth: int = 1) -> None:
        self.lines.append("    " * depth + line)


def _write_invoker(source: Source) -> str:
    write = _Writer()
    for line in (
        "import numpy as _np",
        "import pyopencl as _cl",
        "import pyopencl.array as _cl_array",
    ):
        write(line, 0)
    write("from pyopencl.tools import DeferredAllocator as _DeferredAllocator", 0)
    write("_kcl_no_numbers = (str, bytes, list, tuple)", 0)
    write("_kcl_buffers = _cl.MemoryObjectHolder", 0)
    for argument in source.arguments:
        write(f"_kcl_dtype_{argument.name} = {_dtype_expression(argument)}", 0)
    arrays = [argument for argument in source.arguments if isinstance(argument, Array)]
    scalars = [argument for argument in source.arguments if isinstance(argument, Scalar)]
    given = ", ".join(f"{a.name}=None" for a in source.arguments if not isinstance(a, Local))
    write(f"def invoke(_kcl_kernels, queue, allocator=None, wait_for=None, out_host=None, {given}):", 0)
    write("if allocator is None:")
    write("allocator = _DeferredAllocator(queue.context)", 2)
    write("_kcl_host = _kcl_device = False")
    for array in arrays:
        _write_upload(write, array)
    for scalar in scalars:
        _write_scalar(write, scalar, arrays)
    for array in arrays:
        _write_array(write, array, arrays)
    _write_launch(write, source, arrays)
    _write_outputs(write, [array for array in arrays if array.direction != "in"])
    return "\n".join(write.lines) + "\n"


def _dtype_expression(argument: Array | Scalar | Local) -> str:
    dtype = _dtype(argument)
    layout = layout_of(dtype)
    if dtype_from(layout) != dtype:
        raise RecipeError(f"argument {argument.name!r}: the dtype {dtype} cannot be passed to a kernel")
    return _written(layout)


def _written(layout: Any) -> str:
    """Write the numpy constructor of the dtype that `layout_of` described."""
    if isinstance(layout, str):
        return f"_np.dtype({layout!r})"
    if "base" in layout:
        return f"_np.dtype(({_written(layout['base'])}, {tuple(layout['shape'])!r}))"
    fields = [f"{name!r}: {layout[name]!r}" for name in ("names", "titles", "offsets", "itemsize") if name in layout]
    formats = ", ".join(_written(part) for part in layout["formats"])
    return f"_np.dtype({{{', '.join(fields)}, 'formats': [{formats}]}}, align={layout['aligned']!r})"


def _write_upload(write: _Writer, array: Array) -> None:
    name = array.name
    write(f"_kcl_host_{name} = None")
    write(f"if isinstance({name}, _np.ndarray):")
    write(f"_kcl_host_{name} = {name}", 2)
    write(f"{name} = _cl_array.to_device(queue, {name}, allocator=allocator)", 2)
    write("_kcl_host = True", 2)
    write(f"elif {name} is not None:")
    write("_kcl_device = True", 2)
    if array.direction != "out":
        write("else:")
        write(f"raise RuntimeError(\"input argument '{name}' must be supplied\")", 2)


def _write_scalar(write: _Writer, scalar: Scalar, arrays: list[Array]) -> None:
    name = scalar.name
    for array in arrays:
        shape = ast.parse(array.shape, mode="eval").body
        axes = shape.elts if isinstance(shape, ast.Tuple) else [shape]
        for axis, expression in enumerate(axes):
            if isinstance(expression, ast.Name) and expression.id == name:
                write(f"if {name} is None and {array.name} is not None and not isinstance({array.name}, _kcl_buffers):")
                write(f"if len({array.name}.shape) == {len(axes)}:", 2)
                write(f"{name} = {array.name}.shape[{axis}]", 3)
    write(f"if {name} is None:")
    write(
        f"raise TypeError(\"value argument '{name}' was not given and could not be automatically determined\")",
        2,
    )
    if not _dtype(scalar).names:
        write(f"if isinstance({name}, _kcl_no_numbers):")
        says = f"argument '{name}' is a number of dtype {_dtype(scalar)}, not %r"
        write(f'raise TypeError("{says}" % ({name},))', 2)
    if _dtype(scalar).kind in "iu":
        # Sizes are computed from it, and numpy's small integers wrap around.
        write(f"{name} = int({name})")


def _write_array(write: _Writer, array: Array, arrays: list[Array]) -> None:
    name, dtype = array.name, f"_kcl_dtype_{array.name}"
    mentioned = {node.id for node in ast.walk(ast.parse(array.shape, mode="eval")) if isinstance(node, ast.Name)}
    unknown = [one.name for one in arrays[arrays.index(array) :] if one.direction == "out" and one.name in mentioned]
    for other in unknown:
        write(f"if {other} is None:")
        write(f"raise RuntimeError(\"the shape of '{name}' follows from output '{other}', which must be supplied\")", 2)
    write(f"_kcl_shape = {array.shape}")
    write("_kcl_shape = _kcl_shape if isinstance(_kcl_shape, tuple) else (_kcl_shape,)")
    if array.direction == "out":
        write(f"if {name} is None:")
        write(f"{name} = _cl_array.Array(queue, _kcl_shape, {dtype}, allocator=allocator)", 2)
    write(f"if isinstance({name}, _kcl_buffers):")
    write(f"_kcl_bytes = int(_np.prod(_kcl_shape)) * {dtype}.itemsize", 2)
    write(f"if {name}.size < _kcl_bytes:", 2)
    says = f"argument '{name}' is a buffer of %d bytes, but its shape %s takes %d"
    write(f'raise ValueError("{says}" % ({name}.size, _kcl_shape, _kcl_bytes))', 3)
    write(f"{name} = _cl_array.Array(queue, _kcl_shape, {dtype}, data={name})", 2)
    write(f"if {name}.dtype != {dtype}:")
    write(
        f"raise TypeError(\"dtype mismatch on argument '{name}' (got: %s, expected: %s)\" % ({name}.dtype, {dtype}))", 2
    )
    write(f"if {name}.shape != _kcl_shape:")
    write(
        f"raise ValueError(\"shape mismatch on argument '{name}' (got: %s, expected: %s)\" "
        f"% ({name}.shape, _kcl_shape))",
        2,
    )
    write(f"if not {name}.flags.c_contiguous:")
    write(
        f"raise ValueError(\"strides mismatch on argument '{name}' (got: %s, expected: C order)\" % ({name}.strides,))",
        2,
    )
    write(f"if {name}.offset:")
    write(f"raise ValueError(\"Argument '{name}' does not allow arrays with offsets; pass a copy\")", 2)


def _write_launch(write: _Writer, source: Source, arrays: list[Array]) -> None:
    write("wait_for = [] if wait_for is None else list(wait_for)")
    for array in arrays:
        write(f"wait_for.extend({array.name}.events)")
    write(f"_kcl_knl = _kcl_kernels.{source.entry}")
    passed = []
    for argument in source.arguments:
        dtype = f"_kcl_dtype_{argument.name}"
        if isinstance(argument, Array):
            passed.append(f"{argument.name}.base_data")
        elif isinstance(argument, Local):
            passed.append(f"_cl.LocalMemory(int({argument.size}) * {dtype}.itemsize)")
        elif _dtype(argument).names:
            passed.append(f"_np.array({argument.name}, dtype={dtype})[()]")
        else:
            passed.append(f"{dtype}.type({argument.name})")
    write("try:")
    write(f"_kcl_knl.set_args({', '.join(passed)})", 2)
    write("except TypeError:")
    write(f"if _kcl_knl.num_args == {len(passed)}:", 2)
    write("raise", 3)
    says = f"kcl.Source {source.entry!r} declares {len(passed)} argument(s), but the kernel has %d"
    cure = "list an Array, Scalar or Local for each of its parameters, in their order"
    # A stored invoker imports nothing of kcl: the kernels that kcl hands over bring kcl's error with them.
    write("_kcl_error = getattr(_kcl_kernels, '_kcl_error', TypeError)", 2)
    write(f'raise _kcl_error("{says}; {cure}" % _kcl_knl.num_args) from None', 2)
    write(f"_kcl_global = {source.global_size}")
    write("_kcl_global = _kcl_global if isinstance(_kcl_global, tuple) else (_kcl_global,)")
    write(f"_kcl_local = {source.local_size}")
    write("_kcl_local = _kcl_local if _kcl_local is None or isinstance(_kcl_local, tuple) else (_kcl_local,)")
    write(
        "_kcl_event = _cl.enqueue_nd_range_kernel("
        "queue, _kcl_knl, _kcl_global, _kcl_local, None, wait_for, False, True)"
    )


def _write_outputs(write: _Writer, outputs: list[Array]) -> None:
    for array in outputs:
        write(f"{array.name}.add_event(_kcl_event)")
    write("if out_host is None and _kcl_host and not _kcl_device:")
    write("out_host = True", 2)
    for array in outputs:
        write(f"if out_host or _kcl_host_{array.name} is not None:")
        write(f"{array.name} = {array.name}.get(queue=queue, ary=_kcl_host_{array.name})", 2)
    write(f"return _kcl_event, ({''.join(array.name + ', ' for array in outputs)})")
