"""`Source`: OpenCL C by hand, with declarations of the kernel's arguments and of the sizes of its launch."""

from __future__ import annotations

import ast
import keyword
import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl.errors import RecipeError
from kcl.frontends.source import expressions

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy as np

    # An integer of Python or numpy, an expression, or a tuple of these.
    Sizes: TypeAlias = str | int | np.integer[Any] | Sequence[str | int | np.integer[Any]]

DIRECTIONS = ("in", "out", "inout")
# Types of images in OpenCL C, with their names in `pyopencl.mem_object_type`.
_KINDS = ("IMAGE1D", "IMAGE1D_BUFFER", "IMAGE1D_ARRAY", "IMAGE2D", "IMAGE2D_ARRAY", "IMAGE3D")
IMAGES = {f"{name.lower()}_t": name for name in _KINDS}
# The kinds of numpy dtypes that have no counterpart in OpenCL C.
_NO_ARGUMENTS = "OSUmM"
# The keywords of a call that replace declared sizes for one launch.
LAUNCH = ("global_size", "local_size", "global_offset")
# Names that an argument cannot have, since they mean something else in a call or in the invoker.
_GIVEN = {"self", "queue", "allocator", "wait_for", "out_host", *LAUNCH}
_TAKEN = {
    *("min", "max", "round_up", "int", "isinstance", "len", "list", "tuple"),
    *("_np", "_cl", "_cl_array", "_DeferredAllocator"),
}


def round_up(n: int, multiple: int) -> int:
    """Return the smallest multiple of `multiple` that is at least `n`, as for a global size given the local size.

    Expressions for sizes may use `round_up` too. Raises TypeError if an argument is no integer, ValueError if `multiple` is
    below one.

    >>> import kcl
    >>> kcl.round_up(1000, 64)
    1024
    """
    try:
        n, multiple = operator.index(n), operator.index(multiple)
    except TypeError:
        raise TypeError(
            f"kcl.round_up takes integers, not {n!r} and {multiple!r}; of names it stands within a text: "
            "'round_up(n, 64)'"
        ) from None
    if multiple < 1:
        raise ValueError(f"kcl.round_up: multiple is at least 1, not {multiple}")
    # Floor division rounds down, so the negated quotient is rounded up.
    return -(-n // multiple) * multiple


class Array(NamedTuple):
    """A global array argument.

    `shape` is an expression over scalars and other arrays' shapes: "(n, m)", ("n", 3), "(x.shape[0],)", 1024. The array is
    in C order. `direction` is "in", "out" (allocated if it is not given) or "inout". A call gives a numpy array or a
    `pyopencl.array.Array`; also a buffer or SVM if scalars and other arrays determine the shape.

    >>> import kcl, numpy as np
    >>> kcl.Array("y", np.float32, shape=("n", 3), direction="out").shape
    ('n', 3)
    """

    name: str
    dtype: Any
    shape: Sizes
    direction: str = "in"


class Scalar(NamedTuple):
    """A scalar argument. If it is the length of an array's axis, as in `shape=("n", 3)`, a call may leave it out.

    >>> import kcl, numpy as np
    >>> kcl.Scalar("n", np.int32).name
    'n'
    """

    name: str
    dtype: Any


class Local(NamedTuple):
    """An argument in local memory. `size` is an expression for its number of elements.

    The expression may use `local_size` and `global_size`, the sizes of the launch, as tuples.

    >>> import kcl, numpy as np
    >>> kcl.Local("part", np.float32, "2*local_size[0]").size
    '2*local_size[0]'
    """

    name: str
    dtype: Any
    size: str | int | np.integer[Any]


class Image(NamedTuple):
    """An image argument. `type` is the type in OpenCL C, such as "image2d_t" or "image3d_t".

    `direction` is "in" (`read_only` in OpenCL C), "out" (`write_only`) or "inout" (`read_write`). A call gives a
    `pyopencl.Image` of this type in every direction.

    >>> import kcl
    >>> kcl.Image("picture").type
    'image2d_t'
    """

    name: str
    type: str = "image2d_t"
    direction: str = "in"


class Sampler(NamedTuple):
    """A sampler argument; a call gives a `pyopencl.Sampler`.

    >>> import kcl
    >>> kcl.Sampler("nearest").name
    'nearest'
    """

    name: str


if TYPE_CHECKING:
    Declaration: TypeAlias = Array | Scalar | Local | Image | Sampler


class Source:
    """OpenCL C with the declarations that are needed to launch it.

    `entry` is the name of the kernel. `arguments` lists Array, Scalar, Local, Image and Sampler in the order of the
    kernel's parameters. `global_size` and `local_size` are integers, expressions over scalars and shapes, or tuples of
    these: "(n,)", ("round_up(n, 64)",), (1024, 1024). Without a `global_size` every call must give one; a `local_size` of
    None leaves the choice to the driver. `include_dirs` are searched for `#include`, in order. `build_options` and
    `include_dirs` are lists of texts. Raises RecipeError for declarations that make no sense.

    >>> import kcl, numpy as np
    >>> source = kcl.Source(
    ...     "kernel void twice(global float *x, int n) { int i = get_global_id(0); if (i < n) x[i] *= 2; }",
    ...     entry="twice",
    ...     arguments=[kcl.Array("x", np.float32, ("n",), "inout"), kcl.Scalar("n", np.int32)],
    ...     global_size=("round_up(n, 64)",),
    ...     local_size=64,
    ... )
    >>> source.global_size, source.local_size
    ('(round_up(n, 64),)', '64')
    """

    __slots__ = (
        "arguments",
        "build_options",
        "code",
        "entry",
        "global_size",
        "include_dirs",
        "local_size",
        "path",
    )

    def __init__(
        self,
        code: str,
        *,
        entry: str,
        arguments: Sequence[Declaration],
        global_size: Sizes | None = None,
        local_size: Sizes | None = None,
        build_options: Sequence[str] = (),
        include_dirs: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        self.code = code
        self.entry = entry
        declared = _listed(entry, "arguments", arguments, (Array, Scalar, Local, Image, Sampler))
        self.arguments = tuple(_with_text(entry, argument) for argument in declared)
        self.global_size = (
            None if global_size is None else expressions.written(entry, "global_size", global_size)
        )
        self.local_size = (
            None if local_size is None else expressions.written(entry, "local_size", local_size)
        )
        self.build_options = _listed(entry, "build_options", build_options, (str,))
        directories = _listed(entry, "include_dirs", include_dirs, (str, os.PathLike))
        self.include_dirs = tuple(os.fspath(directory) for directory in directories)
        self.path: str | None = None
        for words in _faults(self):
            raise expressions.error(entry, words)

    def __repr__(self) -> str:
        names = ", ".join(argument.name for argument in self.arguments)
        return f"<kcl.Source {self.entry}({names}): {len(self.code)} characters of OpenCL C>"

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], **keywords: Any) -> Source:
        """Return a Source with the OpenCL C of a file; the keywords are those of the class.

        >>> with open("one.cl", "w") as stream:
        ...     _ = stream.write("kernel void one(global int *x) { x[get_global_id(0)] = 1; }")
        >>> source = kcl.Source.from_file("one.cl", entry="one", arguments=[kcl.Array("x", "int32", 4, "out")])
        >>> source.path
        'one.cl'
        """
        with open(path, encoding="utf-8") as stream:
            source = cls(stream.read(), **keywords)
        source.path = os.fspath(path)
        return source

    def kernel(self, entry: str, **changed: Any) -> Source:
        """Return a Source for another kernel of the same text; keywords replace declarations of this one.

        If `arguments` are replaced, the sizes of the launch are not taken over: give them here or in each call. The program
        is built once for all its kernels. Raises RecipeError as the class does.

        >>> text = "kernel void one(global int *x) { x[0] = 1; } kernel void two(global int *x) { x[0] = 2; }"
        >>> one = kcl.Source(text, entry="one", arguments=[kcl.Array("x", "int32", 4, "out")], global_size=1)
        >>> two = one.kernel("two")
        >>> two.entry, two.global_size
        ('two', '1')
        >>> one.kernel("two", arguments=[kcl.Array("x", "int32", 8, "out")]).global_size is None
        True
        """
        other = (
            "code",
            "entry",
            "path",
            *(("global_size", "local_size") if "arguments" in changed else ()),
        )
        same = {name: getattr(self, name) for name in Source.__slots__ if name not in other}
        source = Source(self.code, entry=entry, **(same | changed))
        source.path = self.path
        return source


def dtype_of(argument: Array | Scalar | Local) -> np.dtype[Any]:
    """Return the declared dtype as numpy's; raises numpy's error if it is unknown."""
    import numpy as np

    dtype: np.dtype[Any] = np.dtype(argument.dtype)
    return dtype


def _listed(entry: str, parameter: str, value: Any, kinds: tuple[type, ...]) -> tuple[Any, ...]:
    """Check that a parameter is a list of items of these types, and return it as a tuple; raise RecipeError if not."""
    *others, last = [kind.__name__ for kind in kinds]
    says, names = (
        f"kcl.Source {entry!r}: {parameter}",
        " or ".join(filter(None, [", ".join(others), last])),
    )
    # Checked first, since a single text is iterable too, and each letter would be an item.
    if isinstance(value, kinds):
        raise RecipeError(f"{says} is a list; write {parameter}=[{value!r}]")
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise RecipeError(f"{says} is a list of {names}, not {value!r}; write {parameter}=[...]")
    items = tuple(value)
    for item in items:
        if not isinstance(item, kinds):
            raise RecipeError(f"{says} lists {names}, not {item!r}; mend that item")
    return items


def _with_text(entry: str, argument: Declaration) -> Declaration:
    """Return a declaration with its shape or size as a text."""
    if isinstance(argument, Array):
        return argument._replace(
            shape=expressions.written(entry, f"shape of {argument.name!r}", argument.shape)
        )
    if isinstance(argument, Local):
        size = expressions.written(entry, f"size of {argument.name!r}", argument.size)
        # The grammar of sizes allows tuples, but this is a number of elements.
        if isinstance(
            expressions.parsed(entry, f"size of {argument.name!r}", size).body, ast.Tuple
        ):
            says = f"size of {argument.name!r} is {argument.size!r}; local memory has a number of elements"
            raise expressions.error(
                entry, f"{says}: write one number or text, such as '4*local_size[0]'"
            )
        return argument._replace(size=size)
    return argument


def _faults(source: Source) -> Iterator[str]:
    """Yield what cannot be meant in a declaration; raise RecipeError for an expression."""
    names = [argument.name for argument in source.arguments]
    for name in (source.entry, *names):
        why = _why_unusable(name)
        if why:
            by_name = (
                ", and arguments are given by name: declare it under another name, in its place"
            )
            cure = by_name if name in names else ": rename the kernel in the OpenCL C"
            yield f"{name!r} {why}{cure}"
    if len(set(names)) != len(names):
        yield f"an argument is declared twice: {names}"
    for argument in source.arguments:
        yield from _argument_faults(source, argument)
    for what, size in (("global_size", source.global_size), ("local_size", source.local_size)):
        if size is not None:
            _check_expression(source, what, size)


def _why_unusable(name: str) -> str:
    """Return why a name cannot be used for an argument or a kernel; empty if it can."""
    if keyword.iskeyword(name) or not name.isidentifier():
        return "is no name in Python"
    is_taken = name in _GIVEN or name in _TAKEN or name.startswith("_kcl")
    return (
        "has a meaning of its own in a call, or in the code that launches the kernel"
        if is_taken
        else ""
    )


def _argument_faults(source: Source, argument: Declaration) -> Iterator[str]:
    says = f"argument {argument.name!r}"
    if isinstance(argument, (Array, Scalar, Local)):
        yield from _dtype_faults(argument)
    if isinstance(argument, (Array, Image)) and argument.direction not in DIRECTIONS:
        yield f"{says}: direction is one of {', '.join(DIRECTIONS)}"
    if isinstance(argument, Image) and argument.type not in IMAGES:
        yield f"{says}: type is one of {', '.join(IMAGES)}, not {argument.type!r}"
    if isinstance(argument, Array):
        _check_expression(source, f"shape of {argument.name!r}", str(argument.shape))
    if isinstance(argument, Local):
        _check_expression(
            source, f"size of {argument.name!r}", str(argument.size), ("global_size", "local_size")
        )


def _dtype_faults(argument: Array | Scalar | Local) -> Iterator[str]:
    says = f"the dtype of argument {argument.name!r} is"
    try:
        dtype = dtype_of(argument)
    except Exception:
        from kcl.launch.refusals import unknown_dtype

        cure = "write np.float32, np.int32, or another dtype of numpy"
        yield f"{says} {unknown_dtype(argument.dtype)}; {cure}"
        return
    if dtype.kind in _NO_ARGUMENTS:
        yield f"{says} {dtype}, which no kernel takes"


def _check_expression(source: Source, what: str, text: str, tuples: tuple[str, ...] = ()) -> None:
    """Raise RecipeError unless an expression is arithmetic over declared arguments and the names in `tuples`."""
    kinds = {argument.name: _kind(argument) for argument in source.arguments}
    kinds |= dict.fromkeys(LAUNCH, "") | dict.fromkeys(tuples, expressions.TUPLE)
    expressions.check(source.entry, what, text, kinds)


def _kind(argument: Declaration) -> str:
    if isinstance(argument, (Array, Scalar)):
        return expressions.VALUE
    return expressions.IMAGE if isinstance(argument, Image) else ""
