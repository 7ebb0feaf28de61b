"""Plays calls: repeats the steps that an invoker took in an earlier call. Imported for kernels that are called often.

The checks and computations of an invoker depend on the *signature* of a call: the layouts of the arrays (shape,
strides, offset, dtype) and the scalars that the invoker computes with. For equal signatures they give equal results. So
a call with the signature of the last one only sets the buffers and the other scalars, and enqueues. The invoker carries
out any other call. Signatures hold numbers and no array.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import index
from threading import get_ident
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl
from pyopencl.array import Array
from pyopencl.tools import DeferredAllocator

from kcl.launch import Arguments, Function, events, form_of
from kcl.launch.recording import WIDTH, NotPlayable, record
from kcl.launch.write import Form, Script

if TYPE_CHECKING:
    from kcl.launch import Launcher

# The most signatures that one function plays, and the failed attempts after which no further call is learned.
_SIGNATURES = 32
_FAILURES = 8
# The types of the numbers in a tuple that is a size.
_WHOLE = {int}
# Types whose values are nothing but numbers to an invoker: a user's subclass might do more.
_NUMBERS = {bool, int, float, complex, *(np.dtype(char).type for char in "?bBhHiIlLqQefdFD")}

# The attributes of an array that a launch uses. Arrays of a subclass that overrides none of them are played.
_USED = {
    "base_data",
    "data",
    "offset",
    "shape",
    "strides",
    "dtype",
    "events",
    "queue",
    "context",
    "allocator",
    "size",
    "nbytes",
    "flags",
    "add_event",
    "finish",
    "__getattribute__",
    "__getattr__",
    "__setattr__",
    "__eq__",
}

Refused = Callable[[Exception, Arguments], "Exception | None"]


def learn(launcher: Launcher, queue: cl.CommandQueue, values: Arguments) -> Function | None:
    """Teach the launcher to play calls like the one with `values`; return the function that plays them.

    `function(queue, allocator, arguments)` returns (event, outputs), or None if the invoker must carry out the call.
    Returns None if such calls cannot be played, or if the invoker refuses this one.
    """
    if not _suits(values):
        return None
    play: Function | None = None
    try:
        play = _function(launcher, queue, values, None)
    except NotPlayable:
        pass
    except Exception:
        # Most likely the invoker refuses this call only. After several failures no attempt is made any more.
        launcher.failures += 1
        if launcher.failures < _FAILURES:
            return None
        launcher.learn = None
    launcher.plays[form_of(values)] = play
    return play


def bind(
    launcher: Launcher, queue: cl.CommandQueue, values: Arguments, refused: Refused
) -> Function:
    """Return a function for calls like the one with `values` in this thread: it takes keywords, and ignores events.

    If the invoker raises an error, the function raises `refused(error, arguments)` in its place, or the error itself if
    that is None.
    """
    slow = _unmanaged(launcher, queue, frozenset(values), refused)
    try:
        return _function(launcher, queue, values, slow) if _suits(values) else slow
    except NotPlayable:
        return slow


def _function(
    launcher: Launcher,
    queue: cl.CommandQueue,
    values: Arguments,
    slow: Function | None,
) -> Function:
    """Generate the function that plays calls. With `slow` it is a bound function, which passes other calls to `slow`."""
    signatures = _Signatures(launcher, queue, values, bound=slow is not None)
    own, names = launcher.own_events, signatures.names()
    if slow is not None:
        names.update(
            _kcl_queue=queue, _kcl_ident=get_ident, _kcl_thread=get_ident(), _kcl_slow=slow
        )
    else:
        context = queue.context
        names.update(
            _kcl_context=context,
            _kcl_default=DeferredAllocator(context),
            _kcl_own=own,
            _kcl_mask=events.RECENT - 1,
            _kcl_waits=functools.partial(events.waits, own),
            _kcl_leave=functools.partial(events.leave, own),
            _kcl_trim=events.trim,
        )
    exec(_compiled(signatures.text), names)
    # Taken out, so that function and names form no cycle: their objects are released with the launcher.
    return names.pop("launch")  # type: ignore[no-any-return]


class _Signatures:
    """The signatures that one generated function plays: the function's text, and what is set for each signature."""

    def __init__(
        self, launcher: Launcher, queue: cl.CommandQueue, values: Arguments, bound: bool
    ) -> None:
        self._code = (launcher.invoke, launcher.kernels)
        record(*self._code, values, frozenset())
        arrays = tuple(name for name, value in values.items() if isinstance(value, Array))
        self._passed = frozenset(
            name for name in values if name not in arrays and self._hands_on(values, name)
        )
        deciding = tuple(name for name in values if name not in self._passed and name not in arrays)
        sizes = tuple(name for name in deciding if type(values[name]) is tuple)
        others = [values[name] for name in deciding if name not in sizes]
        if not arrays or not all(
            isinstance(value, (int, np.integer, type(None))) for value in others
        ):
            raise NotPlayable(
                "no array is given, or something else than layouts and integers decides"
            )
        _check_plain([values[name] for name in arrays])
        in_order = not queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        passed = tuple(name for name in values if name in self._passed)
        typed = () if bound else tuple(name for name in passed if name in launcher.open)
        self._form = Form(tuple(values), arrays, deciding, passed, sizes, in_order, bound, typed)
        self._types = {
            **{f"_kcl_d{i}": values[name].dtype for i, name in enumerate(arrays)},
            **{f"_kcl_a{i}": type(values[name]) for i, name in enumerate(arrays)},
            **{f"_kcl_p{i}": type(values[name]) for i, name in enumerate(typed)},
        }
        recording = record(*self._code, values, self._passed)
        self._first, self._beside = Script(self._form, recording), recording.names
        # The kernel objects are for this caller alone.
        self._kernels = launcher.program.kernels(launcher.names)
        self._known: dict[tuple[Any, ...], Script | None] = {}

    @property
    def text(self) -> str:
        """The function as Python."""
        return self._first.text

    def names(self) -> dict[str, Any]:
        """Return the namespace in which the function is compiled."""
        namespace: dict[str, Any] = {
            **self._beside,
            **self._types,
            # Under names of kcl, since an argument of the kernel may have the name of one of these.
            **{
                f"_kcl_{value.__name__}": value
                for value in (
                    Array,
                    Exception,
                    IndexError,
                    NotPlayable,
                    globals,
                    index,
                    len,
                    map,
                    type,
                )
            },
            # The first array's shape, which a call compares first: `choose` sets it after the others.
            "_kcl_s0": None,
            "_kcl_new": Array.__new__,
            "_kcl_busy": False,
            "_kcl_numbers": _NUMBERS,
            "_kcl_whole": _WHOLE,
            "_kcl_choose": self.choose,
            "_kcl_enqueue": cl.enqueue_nd_range_kernel,
        }
        for number, name in enumerate(self._first.kernels):
            kernel = namespace[f"_kcl_k{number}"] = self._kernels[name]
            namespace.update(
                {f"_kcl_k{number}{setter}": getattr(kernel, setter) for setter in WIDTH}
            )
        return namespace

    def choose(
        self, names: dict[str, Any], arrays: tuple[Array, ...], deciding: tuple[Any, ...]
    ) -> None:
        """Set the function's names for the signature of a call; raises NotPlayable if it cannot be played."""
        layouts = [(array.shape, array.strides, array.offset) for array in arrays]
        if any(type(value) is tuple and not _is_size(value) for value in deciding):
            # `(4.0,)` equals `(4,)`, and is no size.
            raise NotPlayable
        key = (*layouts, *((type(value), value) for value in deciding))
        try:
            current = self._known[key]
        except KeyError:
            current = self._learned(key, arrays, deciding)
        if current is None:
            raise NotPlayable
        # If a step below fails, no signature is current.
        names["_kcl_s0"] = None
        for kernel, setter, items in current.constants:
            getattr(self._kernels[kernel], setter)(items)
        for i, (shape, strides, offset) in enumerate(layouts[1:], 1):
            names[f"_kcl_s{i}"], names[f"_kcl_t{i}"], names[f"_kcl_o{i}"] = shape, strides, offset
        for i, value in enumerate(deciding):
            names[f"_kcl_v{i}"], names[f"_kcl_y{i}"] = value, type(value)
        for i, value in enumerate(current.cells):
            names[f"_kcl_c{i}"] = value
        names["_kcl_s0"], names["_kcl_t0"], names["_kcl_o0"] = layouts[0]

    def _learned(
        self, key: tuple[Any, ...], arrays: tuple[Array, ...], deciding: tuple[Any, ...]
    ) -> Script | None:
        """Record a call of a new signature; None if it cannot be played, or if too many signatures are known."""
        if len(self._known) >= _SIGNATURES:
            return None
        values = dict(
            zip((*self._form.arrays, *self._form.deciding), (*arrays, *deciding), strict=True)
        )
        arguments = {name: values.get(name) for name in self._form.names}
        written: Script | None = None
        try:
            _check_plain(arrays)
            written = Script(self._form, record(*self._code, arguments, self._passed))
        except Exception:
            # The invoker carries out this call and raises the error for the user.
            pass
        if written is not None and (written.text, written.kernels) != (
            self._first.text,
            self._first.kernels,
        ):
            written = None
        self._known[key] = written
        return written

    def _hands_on(self, values: Arguments, name: str) -> bool:
        """Return True if the only thing that the invoker does with a scalar is to set it as an argument."""
        if values[name] is None:
            return False
        try:
            record(*self._code, values, frozenset([name]))
        except Exception:
            return False
        return True


def _suits(values: Arguments) -> bool:
    return all(
        _is_array(type(value)) or value is None or type(value) in _NUMBERS or _is_size(value)
        for value in values.values()
    )


def _is_array(kind: type[Any]) -> bool:
    """Return True for pyopencl's Array, and for a subclass that adds to it and replaces nothing that a launch uses."""
    if kind is Array or not issubclass(kind, Array):
        return kind is Array
    return not any(
        name in _USED for base in kind.__mro__[: kind.__mro__.index(Array)] for name in vars(base)
    )


def _is_size(value: Any) -> bool:
    return type(value) is tuple and {*map(type, value)} == _WHOLE


def _check_plain(arrays: Sequence[Array]) -> None:
    # An integer of numpy may equal one of Python, but computing with it can overflow.
    for array in arrays:
        if not all(type(number) is int for number in (*array.shape, *array.strides, array.offset)):
            raise NotPlayable("a layout of numpy's integers")


class _Silent:
    """Stands for an array, but has no events; for bound functions, which ignore events."""

    __slots__ = ("_array",)

    events = ()

    def __init__(self, array: Array) -> None:
        self._array = array

    def add_event(self, event: cl.Event) -> None:
        """Ignore the event."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._array, name)


def _unmanaged(
    launcher: Launcher, queue: cl.CommandQueue, names: frozenset[str], refused: Refused
) -> Function:
    """Return the function for those calls of a bound function that the invoker must carry out."""
    thread = get_ident()

    def launch(**arguments: Any) -> cl.Event:
        if get_ident() != thread:
            raise RuntimeError(
                "this kernel was bound in another thread; bind it in the thread that calls it"
            )
        if arguments.keys() != names:
            raise TypeError(
                f"a bound kernel takes the arguments that it was bound with: {', '.join(sorted(names))}"
            )
        silent = {
            name: _Silent(value) if isinstance(value, Array) else value
            for name, value in arguments.items()
        }
        try:
            event, _outputs = launcher.invoke(launcher.kernels, queue, None, None, False, **silent)
        except Exception as error:
            instead = refused(error, arguments)
            if instead is None:
                raise
            raise instead from None
        return event

    return launch


@functools.lru_cache(maxsize=64)
def _compiled(text: str) -> CodeType:
    return compile(text, "<kcl hot call>", "exec")
