"""The OpenCL C front end: a Source declares the arguments of its kernel and the sizes of its launch.

The invoker that is made from it behaves as loopy's does: numpy and device arrays in, outputs allocated where they
are not given, sizes found from shapes, the same kinds of errors.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kcl.base.dtypes import dtype_from, layout_of
from kcl.code import Argument, Code, Invoker, ProgramText
from kcl.errors import RecipeError
from kcl.generate.frontends import OpenArguments
from kcl.generate.frontends.source import IMAGES, LAUNCH, Array, Image, Local, Sampler, Scalar, Source, dtype_of

if TYPE_CHECKING:
    import numpy as np

    from kcl.generate.frontends.source import Declaration


def accept(result: object, _recipe: str) -> SourceResult | None:
    """Return a Source held by its front end, None for any other object."""
    return SourceResult(result) if isinstance(result, Source) else None


class SourceResult:
    """A Source held by its front end: every dtype is declared, so no argument is open."""

    front_end = "opencl"
    volatile = ""
    packed: dict[str, list[tuple[Any, str]]] = {}  # noqa: RUF012

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def options(self) -> tuple[str, ...]:
        """The build options, the include directories among them."""
        source = self._source
        return (*source.build_options, *(f"-I{directory}" for directory in source.include_dirs))

    def open(self, _dtypes: Mapping[str, np.dtype[Any]]) -> OpenArguments:
        """Return that no argument is open."""
        # No array is needed to find the code: a missing array is reported when the kernel is launched.
        return OpenArguments((), (), (), {})

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The declared arguments."""
        return tuple([_known(argument) for argument in self._source.arguments])

    def refuse(self, _given: Mapping[str, Any]) -> None:
        """Leave all arguments to the invoker."""

    def follows(self, _dtypes: Mapping[str, np.dtype[Any]], _needed: tuple[str, ...]) -> bool:
        """Return True: no dtype makes a difference."""
        return True

    def identity(self) -> str:
        """Return the SHA-256 over all declarations and the source."""
        return self._digest(self._source.include_dirs)

    @property
    def digest(self) -> str:
        """The SHA-256 over the same without the include directories: the program key has their content."""
        return self._digest(())

    def _digest(self, include_dirs: tuple[str, ...]) -> str:
        source = self._source
        arguments = [(type(argument).__name__, *_fields(argument)) for argument in source.arguments]
        beside = (source.entry, source.global_size, source.local_size, source.build_options, include_dirs)
        return hashlib.sha256(repr((source.code, arguments, beside)).encode("utf-8", "surrogatepass")).hexdigest()

    def state(self) -> str:
        """Return an empty text: nothing of the user's runs."""
        return ""

    def generate(self, kernel: str, _dtypes: Mapping[str, np.dtype[Any]]) -> Code:
        """Write the invoker; raises RecipeError for arguments that the list of parameters contradicts."""
        from kcl.generate.frontends import parameters

        source = self._source
        parameters.refuse_unlike(source)
        invoker = Invoker(
            front_end="opencl",
            source=_write_invoker(source),
            function="invoke",
            arguments=self.arguments,
            inferred={},
            packed={},
            dtypes=[],
        )
        return Code(ProgramText(kernel, source.code, self.options, (source.entry,)), invoker)


def _fields(argument: Declaration) -> list[Any]:
    """Return the fields of a declaration, with a dtype as its layout."""
    if isinstance(argument, (Image, Sampler)):
        return list(argument)
    return [*argument._replace(dtype=None), layout_of(dtype_of(argument))]


def _known(argument: Declaration) -> Argument:
    """Return the facts about an argument that a call needs; a call gives no local memory."""
    if isinstance(argument, (Array, Scalar, Local)):
        required = isinstance(argument, Array) and argument.direction != "out"
        return Argument(argument.name, type(argument).__name__, str(dtype_of(argument).str), required)
    return Argument(argument.name, type(argument).__name__, argument.type if isinstance(argument, Image) else "", True)


# numpy makes a structure of nearly every value: of one number, of other fields in order, of 2.7 for an integer.
_STRUCTURE = """
def _kcl_whole(value, dtype):
    if dtype.names:
        for part, name in zip(value, dtype.names):
            _kcl_whole(part, dtype[name])
    elif dtype.kind in "iu":
        _kcl_index(value)

def _kcl_structure(name, value, dtype):
    reason = ""
    if isinstance(value, tuple):
        try:
            _kcl_whole(value, dtype)
            return _np.array(value, dtype)[()]
        except (TypeError, ValueError, OverflowError) as error:
            reason = " (%s)" % error
    elif isinstance(value, (_np.void, _np.ndarray)) and value.dtype == dtype and value.size == 1:
        return value.reshape(())[()]
    says = "argument %r is one structure: a tuple of %d values (%s) or one element of dtype %s, not the %s %.80r%s"
    given = (type(value).__name__, value, reason)
    raise TypeError(says % (name, len(dtype.names), ", ".join(dtype.names), dtype, *given)) from None
"""

# Some drivers accept local memory of no bytes, and the kernel then writes beside it.
_LOCAL = """
def _kcl_local(name, text, size, itemsize):
    if isinstance(size, tuple) or size < 1:
        says = "argument %r is local memory of %s = %r elements; write a size that is a number, 1 or more"
        raise ValueError(says % (name, text, size))
    return _cl.LocalMemory(int(size) * itemsize)
"""


class _Writer:
    """Lines of Python with an indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str, depth: int = 1) -> None:
        self.lines.append("    " * depth + line)

    def refuse(self, error: str, depth: int, says: str, *values: str) -> None:
        """Raise an error; `%s` and `%r` in the words stand for the values of expressions."""
        filled = f" % ({', '.join(values)},)" if values else ""
        self(f"raise {error}({says!r}{filled})", depth)


def _write_invoker(source: Source) -> str:
    write = _Writer()
    arrays = [argument for argument in source.arguments if isinstance(argument, Array)]
    scalars = [argument for argument in source.arguments if isinstance(argument, Scalar)]
    images = [argument for argument in source.arguments if isinstance(argument, Image)]
    _write_head(write, source)
    given = ", ".join(f"{name}=None" for name in (*(a.name for a in source.arguments if type(a) is not Local), *LAUNCH))
    write(f"def invoke(_kcl_kernels, queue, allocator=None, wait_for=None, out_host=None, {given}):", 0)
    write("if allocator is None:")
    write("allocator = _DeferredAllocator(queue.context)", 2)
    write("_kcl_host = _kcl_device = False")
    for array in arrays:
        _write_upload(write, array)
    for image in images:
        _write_image(write, image)
    for sampler in [argument for argument in source.arguments if isinstance(argument, Sampler)]:
        write(f"if not isinstance({sampler.name}, _cl.Sampler):")
        says = f"argument {sampler.name!r} is a pyopencl.Sampler, not of class %s"
        write.refuse("TypeError", 2, says, f"type({sampler.name}).__name__")
    for scalar in scalars:
        _write_scalar(write, scalar, arrays)
    for array in arrays:
        _write_array(write, array, arrays)
    _write_sizes(write, source)
    _write_launch(write, source, arrays)
    _write_outputs(write, source)
    return "\n".join(write.lines) + "\n"


def _write_head(write: _Writer, source: Source) -> None:
    for line in ("import numpy as _np", "import pyopencl as _cl", "import pyopencl.array as _cl_array"):
        write(line, 0)
    write("from operator import index as _kcl_index", 0)
    write("from pyopencl.tools import DeferredAllocator as _DeferredAllocator", 0)
    write("_kcl_no_numbers = (str, bytes, list, tuple)", 0)
    write("_kcl_buffers = (_cl.MemoryObjectHolder, _cl.SVMPointer)", 0)
    for argument in source.arguments:
        if isinstance(argument, (Array, Scalar, Local)):
            write(f"_kcl_dtype_{argument.name} = {_dtype_expression(argument)}", 0)
    sizes = [
        argument.shape if isinstance(argument, Array) else argument.size
        for argument in source.arguments
        if isinstance(argument, (Array, Local))
    ]
    if any("round_up" in str(text) for text in (*sizes, source.global_size, source.local_size)):
        write("def round_up(n, multiple):", 0)
        write("return -(-n // multiple) * multiple")
    if any(isinstance(argument, Scalar) and dtype_of(argument).names for argument in source.arguments):
        write(_STRUCTURE, 0)
    if any(isinstance(argument, Local) for argument in source.arguments):
        write(_LOCAL, 0)


def _dtype_expression(argument: Array | Scalar | Local) -> str:
    dtype = dtype_of(argument)
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
    name, written = array.name, array.direction != "in"
    write(f"_kcl_host_{name} = None")
    write(f"if isinstance({name}, _np.ndarray):")
    write(f"if not {name}.flags.c_contiguous:", 2)
    cure = "; write the result to an array in C order" if written else f"; write {name}=np.ascontiguousarray(...)"
    write.refuse(
        "ValueError", 3, f"strides mismatch on argument {name!r} (got: %s, expected: C order){cure}", f"{name}.strides"
    )
    if written:
        write(f"if not {name}.flags.writeable:", 2)
        write.refuse("ValueError", 3, f"argument {name!r} is written, and the numpy array given is read-only")
    write(f"_kcl_host_{name} = {name}", 2)
    write(f"{name} = _cl_array.to_device(queue, {name}, allocator=allocator)", 2)
    write("_kcl_host = True", 2)
    write(f"elif {name} is not None:")
    write("_kcl_device = True", 2)
    if array.direction != "out":
        write("else:")
        write.refuse("RuntimeError", 2, f"input argument {name!r} must be supplied")


def _write_image(write: _Writer, image: Image) -> None:
    name, number = image.name, f"_cl.mem_object_type.{IMAGES[image.type]}"
    write(f"if not isinstance({name}, _cl.Image):")
    says = f"argument {name!r} is a pyopencl.Image of type {image.type}, not of class %s"
    write.refuse("TypeError", 2, says, f"type({name}).__name__")
    write(f"if {name}.type != {number}:")
    says = f"argument {name!r} is an image of type {image.type}, not of %s"
    write.refuse("TypeError", 2, says, f"_cl.mem_object_type.to_string({name}.type)")
    _write_memory(write, name, "an image", image.direction)


def _write_memory(write: _Writer, name: str, words: str, direction: str, depth: int = 1) -> None:
    """Refuse memory that OpenCL would accept, and would then not be able to use."""
    write(f"if {name}.context != queue.context:", depth)
    write.refuse("ValueError", depth + 1, f"argument {name!r} is {words} of another context than the queue's")
    if direction != "in":
        write(f"if {name}.flags & _cl.mem_flags.READ_ONLY:", depth)
        write.refuse("ValueError", depth + 1, f"argument {name!r} is written, and the memory given is READ_ONLY")


def _write_scalar(write: _Writer, scalar: Scalar, arrays: list[Array]) -> None:
    name = scalar.name
    for array in arrays:
        shape = ast.parse(str(array.shape), mode="eval").body
        axes = shape.elts if isinstance(shape, ast.Tuple) else [shape]
        for axis, expression in enumerate(axes):
            if isinstance(expression, ast.Name) and expression.id == name:
                write(f"if {name} is None and {array.name} is not None and not isinstance({array.name}, _kcl_buffers):")
                write(f"if len({array.name}.shape) != {len(axes)}:", 2)
                expected = str(array.shape).replace("%", "%%")
                says = f"shape mismatch on argument {array.name!r} (got: %s, expected: {expected})"
                write.refuse("ValueError", 3, says, f"{array.name}.shape")
                write(f"{name} = {array.name}.shape[{axis}]", 2)
    dtype = dtype_of(scalar)
    write(f"if {name} is None:")
    says = f"argument {name!r} was not given, and no shape says it; it is a number of dtype {dtype}"
    write.refuse("TypeError", 2, says)
    if not dtype.names:
        write(f"if isinstance({name}, _kcl_no_numbers):")
        write.refuse("TypeError", 2, f"argument {name!r} is a number of dtype {dtype}, not %r", name)
    if dtype.kind in "iu":
        # Sizes are computed from it; small integers of numpy wrap around. Floats are refused, as by loopy's executor.
        write(f"{name} = _kcl_index({name})")


def _write_array(write: _Writer, array: Array, arrays: list[Array]) -> None:
    name, dtype, shape = array.name, f"_kcl_dtype_{array.name}", str(array.shape)
    mentioned = {node.id for node in ast.walk(ast.parse(shape, mode="eval")) if isinstance(node, ast.Name)}
    unknown = [one.name for one in arrays[arrays.index(array) :] if one.direction == "out" and one.name in mentioned]
    for other in unknown:
        write(f"if {other} is None:")
        write.refuse("RuntimeError", 2, f"the shape of {name!r} follows from output {other!r}, which must be supplied")
    for other in [one.name for one in arrays[arrays.index(array) :] if one.name in mentioned]:
        write(f"if isinstance({other}, _kcl_buffers):")  # earlier arrays have been made of their buffers
        says = f"argument {other!r} is a %s, and the declaration of {name!r} needs its shape: "
        cure = "give a pyopencl.array.Array, or declare the size as a scalar"
        write.refuse("TypeError", 2, f"{says}{cure}", f"type({other}).__name__")
    write(f"_kcl_shape = {shape}")
    write("_kcl_shape = _kcl_shape if isinstance(_kcl_shape, tuple) else (_kcl_shape,)")
    if array.direction == "out":
        write(f"if {name} is None:")
        write(f"{name} = _cl_array.Array(queue, _kcl_shape, {dtype}, allocator=allocator)", 2)
    write(f"if isinstance({name}, _kcl_buffers):")
    _write_buffer(write, array)
    for attribute, condition, words, expected in (
        ("dtype", f"{name}.dtype != {dtype}", "dtype mismatch", dtype),
        ("shape", f"{name}.shape != _kcl_shape", "shape mismatch", "_kcl_shape"),
        ("strides", f"not {name}.flags.c_contiguous", "strides mismatch", "'C order'"),
    ):
        write(f"if {condition}:")
        error = "TypeError" if attribute == "dtype" else "ValueError"
        says = f"{words} on argument {name!r} (got: %s, expected: %s)"
        write.refuse(error, 2, says, f"{name}.{attribute}", expected)
    write(f"if {name}.offset:")
    write.refuse("ValueError", 2, f"Argument {name!r} does not allow arrays with offsets; pass a copy")


def _write_buffer(write: _Writer, array: Array) -> None:
    """Make an array of a buffer; one over SVM has no queue, since SVM may be bound to another."""
    name, dtype = array.name, f"_kcl_dtype_{array.name}"
    write(f"_kcl_svm = isinstance({name}, _cl.SVMPointer)", 2)
    write(f"if isinstance({name}, _cl.Image):", 2)
    write.refuse("TypeError", 3, f"argument {name!r} is an array of dtype {dtype_of(array)}, not an Image")
    write("if not _kcl_svm:", 2)
    _write_memory(write, name, "a buffer", array.direction, 3)
    write(f"_kcl_bytes = int(_np.prod(_kcl_shape)) * {dtype}.itemsize", 2)
    write(f"if {name}.size is not None and {name}.size < _kcl_bytes:", 2)
    says = f"argument {name!r} is a buffer of %d bytes, but its shape %s takes %d"
    write.refuse("ValueError", 3, says, f"{name}.size", "_kcl_shape", "_kcl_bytes")
    write(f"{name} = _cl_array.Array(queue.context if _kcl_svm else queue, _kcl_shape, {dtype}, data={name})", 2)


def _write_sizes(write: _Writer, source: Source) -> None:
    """Find the sizes of the launch: those of the call, or else the declared ones."""
    write("if global_size is None:")
    if source.global_size is None:
        write.refuse("TypeError", 2, "global_size is not declared: give it in the call, global_size=(...)")
    else:
        write(f"global_size = {source.global_size}", 2)
    if source.local_size is not None:
        write("if local_size is None:")
        write(f"local_size = {source.local_size}", 2)
    follow = [one.name for one in source.arguments if isinstance(one, Local) and "local_size" in str(one.size)]
    if follow and source.local_size is None:
        write("if local_size is None:")
        write.refuse("TypeError", 2, f"the size of {follow[0]!r} follows from local_size: give it, local_size=(...)")
    for name in LAUNCH:
        unless = "" if name == "global_size" else f"{name} is not None and "
        write(f"if {unless}not isinstance({name}, tuple):")
        write(f"{name} = tuple({name}) if isinstance({name}, list) else ({name},)", 2)
    write("if local_size is not None and 0 in local_size:")  # PoCL launches nothing, and reports nothing
    write.refuse("ValueError", 2, "local_size is %s, and each axis of a group has 1 work-item or more", "local_size")


def _write_launch(write: _Writer, source: Source, arrays: list[Array]) -> None:
    write("wait_for = [] if wait_for is None else list(wait_for)")
    for array in arrays:
        write(f"wait_for.extend({array.name}.events)")
    write(f"_kcl_knl = _kcl_kernels.{source.entry}")
    passed = [_passed(argument) for argument in source.arguments]
    write("try:")
    write(f"_kcl_knl.set_args({', '.join(passed)})", 2)
    write("except TypeError:")
    write(f"if _kcl_knl.num_args == {len(passed)}:", 2)
    write("raise", 3)
    says = f"kcl.Source {source.entry!r} declares {len(passed)} argument(s), but the kernel has %d"
    cure = "list an Array, Scalar, Local, Image or Sampler for each of its parameters, in their order"
    # A stored invoker imports no module of kcl: the kernels that kcl hands over carry kcl's error with them.
    write("_kcl_error = getattr(_kcl_kernels, '_kcl_error', TypeError)", 2)
    write(f'raise _kcl_error("{says}; {cure}" % _kcl_knl.num_args) from None', 2)
    write(
        "_kcl_event = _cl.enqueue_nd_range_kernel("
        "queue, _kcl_knl, global_size, local_size, global_offset, wait_for, False, True)"
    )


def _passed(argument: Declaration) -> str:
    """Write the expression that is set as an argument of the kernel."""
    name, dtype = argument.name, f"_kcl_dtype_{argument.name}"
    if isinstance(argument, Array):
        return f"{name}.base_data"
    if isinstance(argument, Local):
        return f"_kcl_local({name!r}, {str(argument.size)!r}, {argument.size}, {dtype}.itemsize)"
    if isinstance(argument, Scalar):
        is_structure = dtype_of(argument).names
        return f"_kcl_structure({name!r}, {name}, {dtype})" if is_structure else f"{dtype}.type({name})"
    return name


def _write_outputs(write: _Writer, source: Source) -> None:
    outputs = [one for one in source.arguments if isinstance(one, (Array, Image)) and one.direction != "in"]
    arrays = [one for one in outputs if isinstance(one, Array)]
    for array in arrays:
        write(f"{array.name}.add_event(_kcl_event)")
    write("if out_host is None and _kcl_host and not _kcl_device:")
    write("out_host = True", 2)
    for array in arrays:
        write(f"if out_host or _kcl_host_{array.name} is not None:")
        write(f"{array.name} = {array.name}.get(queue=queue, ary=_kcl_host_{array.name})", 2)
    write(f"return _kcl_event, ({''.join(output.name + ', ' for output in outputs)})")
