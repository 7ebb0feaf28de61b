"""The list of what is pure: the names that code may use whose results depend on their arguments alone.

A callable that loopy runs while it generates is keyed by its code only if each library name that the code reaches is on
this list. The list grows by review: a name belongs here if no call of it reads the process, the machine or the time,
and if what it remembers shows in no result. A name that is missing costs a stored entry, never a wrong number.
"""

from __future__ import annotations

from functools import cache
from types import (
    AsyncGeneratorType,
    CodeType,
    CoroutineType,
    FrameType,
    GeneratorType,
    TracebackType,
)

# The distributions that turn a recipe into OpenCL C. Each key has their files, and what a program changed in them.
GENERATORS = frozenset({"loopy", "pymbolic", "islpy", "genpy", "cgen", "pytools", "constantdict"})
# What they have for other purposes: names that read the process or a disk, and modules with such names.
_PROCESS = frozenset({"get_or_register_dtype", "PersistentDict", "WriteOncePersistentDict"})
_OF_PROCESS = tuple(
    f"pytools.{name}"
    for name in (
        *(
            "persistent_dict",
            "prefork",
            "debug",
            "log",
            "mpi",
            "batchjob",
            "lock_file",
            "resolve_name",
        ),
        *(
            "ProcessTimer",
            "ProcessLogger",
            "DebugProcessLogger",
            "log_process",
            "invoke_editor",
            "is_interactive",
        ),
        *("open_unique_debug_file", "download_from_web_if_not_present", "find_git", "find_module"),
    )
)

# module -> names in it; a star stands for all of them
_TABLE = {
    "builtins": """
        abs all any ascii bin bool bytearray bytes callable chr classmethod complex delattr dict divmod enumerate
        filter float format frozenset getattr hasattr hash hex int isinstance issubclass iter len list map max min
        next object oct ord pow property range repr reversed round set setattr slice sorted staticmethod str sum super
        tuple type zip NoneType ellipsis NotImplementedType function method module mappingproxy generator
        builtin_function_or_method Ellipsis NotImplemented None True False __debug__ __build_class__ ArithmeticError
        AssertionError AttributeError BaseException Exception FloatingPointError IndexError KeyError LookupError
        NameError NotImplementedError OverflowError RuntimeError StopIteration SyntaxError TypeError
        UnboundLocalError UnicodeError ValueError ZeroDivisionError
    """,
    "numpy": """
        abs absolute add all allclose amax amin any append arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh
        argmax argmin argsort argwhere around array array_equal asanyarray asarray ascontiguousarray asfortranarray
        atleast_1d atleast_2d atleast_3d bincount bitwise_and bitwise_or bitwise_xor block bool bool_ broadcast
        broadcast_arrays broadcast_shapes broadcast_to byte can_cast cbrt cdouble ceil character clip clongdouble
        column_stack common_type complex128 complex256 complex64 complexfloating concatenate conj conjugate convolve
        copy copysign cos cosh count_nonzero cross csingle cumprod cumsum deg2rad degrees delete diag diagonal diff
        digitize divide divmod dot double dstack dtype dtypes e ediff1d einsum empty empty_like equal euler_gamma exp
        exp2 expand_dims expm1 eye fabs fft fill_diagonal finfo fix flatnonzero flexible flip fliplr flipud float16
        float32 float64 floating float_power floor floor_divide fmax fmin fmod frexp full full_like gcd generic
        geomspace gradient greater greater_equal half heaviside hsplit hstack hypot identity iinfo imag in1d inexact
        inf inner insert int16 int32 int64 int8 int_ intc integer interp intersect1d intp invert isclose iscomplex
        iscomplexobj isfinite isin isinf isnan isreal isrealobj isscalar issubdtype kron lcm ldexp left_shift less
        less_equal lexsort linalg linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or
        logical_xor logspace long longdouble longlong matmul matrix_transpose max maximum mean median meshgrid min
        minimum min_scalar_type mod modf moveaxis multiply nan nan_to_num nanmax nanmean nanmin nanstd nansum ndarray
        ndenumerate ndim ndindex negative newaxis nextafter nonzero not_equal number object_ ones ones_like outer pad
        partition percentile pi piecewise polyadd polyder polyfit polyint polymul polysub polyval positive
        power prod promote_types ptp putmask quantile rad2deg radians ravel ravel_multi_index real real_if_close
        reciprocal remainder repeat reshape result_type right_shift rint roll rollaxis roots rot90 round searchsorted
        select setdiff1d short sign signbit signedinteger sin sinc single size sinh sort spacing split sqrt square
        squeeze stack std str_ subtract sum swapaxes take tan tanh tensordot tile trace transpose trapezoid tri tril
        tril_indices triu triu_indices true_divide trunc ubyte ufunc uint uint16 uint32 uint64 uint8 uintc uintp ulong
        ulonglong union1d unique unravel_index unsignedinteger unwrap ushort vander var vdot vectorize void vsplit
        vstack where zeros zeros_like
    """,
    "functools": "partial wraps update_wrapper reduce cmp_to_key total_ordering cached_property",
    "dataclasses": "dataclass field fields replace asdict astuple is_dataclass Field MISSING KW_ONLY",
    "contextlib": "contextmanager helper nullcontext suppress AbstractContextManager",
    "sys": "intern",
    "pathlib": "PurePath PurePosixPath PureWindowsPath",
    "posixpath": "basename commonpath commonprefix dirname isabs join normpath split splitext",
    "types": "MappingProxyType SimpleNamespace NoneType EllipsisType FunctionType MethodType ModuleType GenericAlias",
}
# modules of which all names are on the list
_WHOLE = """
    abc bisect cmath collections collections.abc enum fractions heapq itertools keyword math numbers operator re string
    struct textwrap typing typing_extensions numpy.dtypes numpy.fft numpy.linalg
    _collections_abc
"""
_LISTED = {
    **{module: frozenset(names.split()) for module, names in _TABLE.items()},
    **dict.fromkeys(_WHOLE.split(), frozenset({"*"})),
}
# annotations do not count
_EXCEPT = frozenset({"typing.get_type_hints", "typing_extensions.get_type_hints"})

# Names between two underscores that lead from a value to its class and its parts. Others lead to modules and frames.
_SPECIAL_NAMES = """
    __abs__ __add__ __and__ __args__ __bases__ __bool__ __bytes__ __call__ __class__ __class_getitem__ __complex__
    __contains__ __copy__ __dataclass_fields__ __deepcopy__ __delattr__ __delitem__ __dict__ __divmod__ __enter__
    __eq__ __exit__ __float__ __floordiv__ __format__ __func__ __ge__ __get__ __getattr__ __getattribute__ __getitem__
    __getnewargs__ __getstate__ __gt__ __hash__ __iadd__ __index__ __init__ __init_subclass__ __int__ __invert__
    __ior__ __iter__ __kcl_key__ __le__ __len__ __lshift__ __lt__ __matmul__ __members__ __missing__ __mod__ __mro__
    __mul__ __name__ __ne__ __neg__ __new__ __next__ __or__ __origin__ __pos__ __post_init__ __pow__ __qualname__
    __radd__ __rand__ __rdivmod__ __reduce__ __reduce_ex__ __repr__ __reversed__ __rfloordiv__ __rlshift__ __rmatmul__
    __rmod__ __rmul__ __ror__ __round__ __rpow__ __rrshift__ __rshift__ __rsub__ __rtruediv__ __rxor__ __self__
    __set__ __set_name__ __setattr__ __setitem__ __setstate__ __slots__ __str__ __sub__ __truediv__ __weakref__
    __wrapped__ __xor__
"""
_SPECIAL = frozenset(_SPECIAL_NAMES.split())
# attributes of frames, tracebacks, generators and code
_FRAMES = (
    "f_",
    "tb_",
    "gi_",
    "cr_",
    "ag_",
    "co_",
)


@cache
def has(dotted: str) -> bool:
    """Return True if a name of a library is on the list."""
    names = dotted.split(".")
    if names[0] in GENERATORS:
        return _PROCESS.isdisjoint(names) and not dotted.startswith(_OF_PROCESS)
    if names[0] not in _LISTED:
        # Python writes the names of `_functools` in C that `functools` shows
        names[0] = names[0].removeprefix("_")
    if dotted in _EXCEPT:
        return False
    for end in range(len(names) - 1, 0, -1):
        listed = _LISTED.get(".".join(names[:end]))
        if listed is not None:
            return "*" in listed or names[end] in listed
    return len(names) == 1 and has_module(dotted)


@cache
def has_module(name: str) -> bool:
    """Return True if code may import a module of a library: names in it are on the list."""
    return (
        name in _LISTED
        or name.partition(".")[0] in GENERATORS
        or any(one.startswith(f"{name}.") for one in _LISTED)
    )


def is_whole(name: str) -> bool:
    """Return True if a module may be passed on as a value: each name in it is on the list."""
    return "*" in _LISTED.get(name, ()) and not any(one.startswith(f"{name}.") for one in _EXCEPT)


@cache
def takes(attribute: str) -> bool:
    """Return True if code may take an attribute of this name of any value."""
    return (
        attribute in _SPECIAL
        if attribute[:2] == "__" == attribute[-2:]
        else attribute not in _inner()
    )


@cache
def _inner() -> frozenset[str]:
    kinds = (AsyncGeneratorType, CodeType, CoroutineType, FrameType, GeneratorType, TracebackType)
    return frozenset(name for kind in kinds for name in vars(kind) if name.startswith(_FRAMES))
