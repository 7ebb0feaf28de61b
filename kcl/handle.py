"""Kernel: the user's handle, callable like loopy's executor. Its code is found or made at the first launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from threading import get_ident
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import pyopencl as cl

from kcl import frontends
from kcl.base import ports, settings, spans
from kcl.cache import layers
from kcl.cache.lead import Lead
from kcl.cache.lookup import find
from kcl.errors import CacheMiss, KclError, RecipeError, UnknownInput
from kcl.frontends import RecipeResult
from kcl.generate import running
from kcl.generate.declarations import RecipeCall
from kcl.generate.stage import CallValues
from kcl.launch import ARRAYS, MissingArguments, unpack
from kcl.line import Line, bindings_of, handle_of

if TYPE_CHECKING:
    from kcl.cache.key import Key
    from kcl.code import Argument, Code, LaunchableCode
    from kcl.generate.protocol import Result

P = ParamSpec("P")
R = TypeVar("R")

# Names that users look for in a Kernel, and the place of each.
_ELSEWHERE = {
    "executor": "; it is called itself: kernel(queue, ...)",
    "kernel": "; `.kernel` belongs to kcl.Source: build the Source in a plain function, and return source.kernel(...) "
    "from a recipe",
}


def needs_queue(
    call: Callable[Concatenate[Any, cl.CommandQueue, P], R],
) -> Callable[Concatenate[Any, cl.CommandQueue, P], R]:
    """Return a function with an optional queue as it is; a type checker demands the queue."""
    return call


class Kernel:
    """A recipe with its parameters, ready to be launched on any queue.

    The recipe runs, and code is found or generated, at the first launch. One Kernel serves any number of contexts,
    devices, queues and threads. What is bound for a queue is released with the queue object, or some time after the
    last Kernel of the same code.

    >>> @kcl.kernel
    ... def scaled(factor):
    ...     return kcl.Source(
    ...         f"kernel void scaled(global float *x, int n) {{ x[get_global_id(0)] *= {factor}; }}",
    ...         entry="scaled",
    ...         arguments=[kcl.Array("x", np.float32, "n", "inout"), kcl.Scalar("n", np.int32)],
    ...         global_size="n",
    ...     )
    >>> kernel = scaled(factor=3)
    >>> event, (x,) = kernel(queue, x=np.ones(4, np.float32))
    >>> x.tolist()
    [3.0, 3.0, 3.0, 3.0]
    >>> event, (x,) = kernel(queue, x=x, global_size=2, global_offset=1)
    >>> x.tolist()
    [3.0, 9.0, 9.0, 3.0]
    """

    def __init__(
        self,
        result: Result,
        parameters: dict[str, Any],
        function: Callable[..., object] | None = None,
        context: int = 0,
        sizes: Any = None,
    ) -> None:
        self.name = result.name
        self._function = function
        self._parameters = parameters
        # The sizes that a call may name: see `kcl.sized`.
        self._sizes = sizes
        self._line = Line(result, function, context)

    @needs_queue  # type: ignore[arg-type]  # by name it may be given, too
    def __call__(
        self,
        # A call without a queue is refused by name.
        queue: cl.CommandQueue = None,
        *unnamed: Any,
        allocator: Any = None,
        wait_for: Any = None,
        out_host: bool | None = None,
        **arguments: Any,
    ) -> tuple[Any, Any]:
        """Launch on `queue`; returns (event, outputs) exactly as loopy's executor does.

        Arrays are numpy or device arrays; output arrays that are not given are allocated by `allocator` (bytes to
        buffer). `wait_for` lists events; `out_host` forces (True) or forbids (False) numpy outputs, and None means
        numpy where every array given is one. Of a Source the sizes of the launch may be given too: `global_size`,
        `local_size` and `global_offset` are whole numbers or tuples of them, in the place of what is declared.

        Raises what the executor raises for an argument that is missing, or of a wrong kind, dtype, shape, strides or
        offset; of a Source, TypeError for one of a wrong kind. The message names kernel and argument. Thread-safe.
        """
        if unnamed:
            raise TypeError(
                f"kernel {self.name!r} takes its arguments by name: write kernel(queue, {self._named()})"
            )
        line = self._line
        try:
            # The short way of a call like the last one. A new queue, and what is no queue, take the
            # long way.
            hot = queue._kcl_bindings.launchers[line.sole, get_ident()].hot
        except (AttributeError, KeyError):
            hot = None
        if hot is not None and wait_for is None and out_host is None:
            result: tuple[Any, Any] | None = hot(queue, allocator, arguments)
            if result is not None:
                return result
        try:
            arguments = self._taken(arguments)
            flat = unpack(line.packed, arguments) if line.packed else arguments
            launcher = line.known(queue, flat)
            if launcher is None:
                return self._first(queue, allocator, wait_for, out_host, arguments)
            return launcher(queue, allocator, wait_for, out_host, flat)
        except Exception as error:
            refused = self._refused(error, arguments, queue)
            if refused is None:
                raise
        # Outside of the handler, so that the error has not kcl's own steps for its context.
        raise refused

    def bind(self, queue: cl.CommandQueue, **arguments: Any) -> Callable[..., cl.Event]:
        """Return `launch(**arguments)`, which launches on `queue` with the least work and returns the event.

        `arguments` are those of a call, as an example: every array is given, outputs too, and lies on the device;
        nothing is launched. The function takes the same names, and refuses what a call refuses; a scalar is converted
        to the dtype that it has now. It is for the thread that bound it. It waits for no event of an array and leaves
        none there: what the order of the queue does not say, `launch` does not know. It keeps the queue alive.

        >>> import pyopencl.array
        >>> given = cl.array.to_device(queue, x)
        >>> launch = doubled().bind(queue, x=given)
        >>> launch(x=given).wait()
        >>> given.get().tolist()
        [2.0, 2.0, 2.0, 2.0]
        """
        if not isinstance(queue, cl.CommandQueue):
            raise TypeError(self._wrong_queue(queue))
        from pyopencl.array import Array

        from kcl.launch import replay

        with self._lead() as lead:
            ready = self._line.code(queue, CallValues(arguments), lead)
            example, arguments = arguments, self._taken(arguments, is_new=True)
            arrays = [
                argument.name
                for argument in ready.code.invoker.arguments
                if argument.kind in ARRAYS
            ]
            names = ", ".join(name for name in arrays if not isinstance(arguments.get(name), Array))
            if names:
                words = "bind takes every array, on the device, and these are not"
                raise TypeError(f"kernel {self.name!r}: {words}: {names}")
            launcher = self._line.bound(queue, ready, lead)
            launcher.note_launch(arguments)
            launch = replay.bind(
                launcher,
                queue,
                arguments,
                lambda error, values: self._refused(error, values, queue),
            )
            return (
                launch
                if len(arguments) == len(example)
                else lambda **values: launch(**self._taken(values))
            )

    def prepare(self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any) -> None:
        """Make everything that a launch needs: run the recipe, find or generate its code, build the program.

        Open arguments are given by dtype, by type or by an array or scalar that has the dtype. What was made lives
        as long as the object that is given. Raises TypeError for an argument that the kernel does not take, and for a
        dtype that numpy does not know or that is not the argument's.

        >>> kernel = doubled()
        >>> kernel.prepare(context)
        >>> kernel
        <kcl.Kernel doubled(factor=2): 1 variant(s) generated>
        """
        with self._lead() as lead:
            ready = self._asked(context_or_queue, arguments, lead)
            self._line.bound(context_or_queue, ready, lead).note_launch()

    def source(self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any) -> str:
        """Return the OpenCL C; arguments as for `prepare`.

        >>> doubled(factor=3).source(context)
        'kernel void doubled(global float *x) { x[get_global_id(0)] *= 3; }'
        """
        with self._lead() as lead:
            return self._asked(context_or_queue, arguments, lead).code.text.source

    def key(
        self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any
    ) -> dict[str, Key | None]:
        """Return the key in each layer for the first device, None if it is unknown; arguments as for `prepare`.

        >>> one, other = doubled(factor=2).key(context), doubled(factor=3).key(context)
        >>> [difference.name for difference in one["binary"].diff(other["binary"])]
        ['source']
        """
        with self._lead() as lead:
            ready = self._asked(context_or_queue, arguments, lead)
        try:
            slots = bindings_of(context_or_queue).build.slots(ready.code.text)
        except UnknownInput:
            slots = []
        return {
            settings.GENERATOR: self._line.generate.key(),
            settings.BINARY: slots[0].key if slots else None,
        }

    def explain(self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any) -> str:
        """Say what each layer holds for this kernel now and why; arguments as for `prepare`.

        Of a miss it says what differs from the nearest earlier entry of the same kernel, in the words of
        `kcl explain`, and which process makes the entry now, if one does. Runs the recipe if it has not run yet, unless
        that is pure. Counts no look-up and builds nothing.

        >>> print(doubled().explain(context))
        kernel doubled
          generator: miss: not in the cache (...)
            first time seen
          binary: not looked up: ...
        """
        from kcl.launch.refusals import refuse_asked

        refuse_asked(self.name, arguments)
        generate, call = self._line.generate, CallValues(arguments)
        present = ports.at("present")
        lines = present.lines(
            self.name, generate, call, lambda: bindings_of(context_or_queue).build
        )
        return "\n".join(lines)

    def is_stored(self) -> bool:
        """Return True if the generator layer holds code of this kernel, for whatever dtypes; counts no look-up.

        >>> doubled().is_stored()
        False
        >>> event, outputs = doubled()(queue, x=x)
        >>> doubled().is_stored()
        True
        """
        return self._line.generate.is_stored()

    # A type checker finds a misspelt name.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say what stands in the place of a method of loopy's, or of a Source's."""
            told = _ELSEWHERE.get(name, "")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{told}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy as the recipe by its name, with the parameters; the code is found again where it arrives."""
        if self._function is None or "<locals>" in self._function.__qualname__:
            raise TypeError(
                f"kernel {self.name!r} cannot be pickled or copied: its recipe is no function of a module"
            )
        return by_name, (self._function.__module__, self._function.__qualname__, self._parameters)

    def __repr__(self) -> str:
        ready = self._line.ready
        state = f"{len(ready)} variant(s) generated" if ready else "nothing generated yet"
        return f"<kcl.Kernel {described(self)}: {state}>"

    def _lead(self) -> Lead:
        return Lead(self.name, self._parameters, running.shown)

    def _first(
        self,
        queue: cl.CommandQueue,
        allocator: Any,
        wait_for: Any,
        out_host: bool | None,
        arguments: dict[str, Any],
    ) -> tuple[Any, Any]:
        """Launch for the first time on this queue, in this thread, or with these dtypes."""
        holder = self._holder(queue)
        # Only `prepare` takes the name of a dtype; here it is an argument of a wrong type.
        spoken = {
            name: None if isinstance(value, (str, type)) else value
            for name, value in arguments.items()
        }
        with spans.span("first launch", self.name), self._lead() as lead:
            ready = self._line.code(holder, CallValues(spoken, launch=True), lead)
            arguments = self._taken(arguments, is_new=True)
            if self._line.packed:
                arguments = unpack(self._line.packed, arguments)
            launcher = self._line.bound(holder, ready, lead)
            try:
                return launcher(queue, allocator, wait_for, out_host, arguments)
            finally:
                # After a refused call too: the next call takes the short way and skips this line.
                launcher.note_launch(arguments)

    def _holder(self, queue: Any) -> cl.Context | cl.CommandQueue:
        """Return the queue or context for which the code of a call is bound; raises TypeError for another object.

        The program of an executor is that of its own context. A launch of it on anything but a queue of that context
        raises the error of pyopencl, as with loopy's executor.
        """
        only = self._line.context
        if only and not (isinstance(queue, cl.CommandQueue) and handle_of(queue) == only):
            return cl.Context.from_int_ptr(only, retain=True)
        if isinstance(queue, (cl.CommandQueue, cl.Context)):
            return queue
        raise TypeError(self._wrong_queue(queue))

    def _asked(
        self, holder: cl.Context | cl.CommandQueue, values: dict[str, Any], lead: Lead
    ) -> LaunchableCode:
        """Return code for the dtypes that the caller names; raises TypeError where these are not the kernel's."""
        if not values:
            return self._line.code(holder, CallValues(values), lead)
        from kcl.launch import refusals

        refusals.refuse_asked(self.name, values)
        ready = self._line.code(holder, CallValues(values), lead)
        values = self._taken(values, is_new=True)
        if not self._line.packed:
            invoker = ready.code.invoker
            refusals.refuse_unlike(
                self.name, values, invoker.arguments, invoker.front_end == "opencl"
            )
        return ready

    @property
    def _arguments(self) -> tuple[Argument, ...]:
        """The arguments of the code; none while they are unknown."""
        for ready in self._line.ready.values():
            return ready.code.invoker.arguments
        return self._line.generate.arguments

    def _taken(self, arguments: Any, is_new: bool = False) -> dict[str, Any]:
        """Return the arguments without sizes that the code does not take; all of them while it is unknown.

        If the code is new, raises RecipeError for sizes that it cannot have.
        """
        declared = self._arguments if self._sizes is not None else ()
        if not declared:
            return arguments  # type: ignore[no-any-return]
        names = [*self._line.packed, *(argument.name for argument in declared)]
        return self._sizes.taken(self._function, names, arguments, is_new)  # type: ignore[no-any-return]

    def _refused(
        self, error: Exception, arguments: Mapping[str, Any], queue: Any
    ) -> Exception | None:
        """Return the error of a call in the user's terms, None if the error itself is clear."""
        from kcl.launch import refusals

        if isinstance(error, CacheMiss):
            # The user's frames are added, and not kcl's.
            return error.with_traceback(None)
        arguments = self._taken(arguments)
        base, ready_code = self._line.generate.base, next(iter(self._line.ready.values()), None)
        is_source = ready_code is not None and ready_code.code.invoker.front_end == "opencl"
        packed = base.packed if base is not None else ()
        call = refusals.FailedCall(
            self.name, arguments, error, self._arguments, packed, is_source, queue
        )
        fault = self._wrong_queue(queue) or (refusals.at_fault(call) if base is not None else "")
        # An error of the class that the front end raises.
        instead: Exception | None = None
        if isinstance(error, MissingArguments):
            instead = self._missing(error.names)
        elif base is not None and base.names and not is_source and not isinstance(error, KclError):
            instead = refusals.unknown_open(call)
        elif fault and is_source and not isinstance(error, (OverflowError, cl.Error)):
            instead = TypeError(fault)
        if fault or instead is not None:
            return refusals.worded(instead or error, fault) if fault else instead
        if isinstance(error, cl.RuntimeError) and error.routine == "clBuildProgram":
            texts = [ready.code.text.source for ready in self._line.ready.values()]
            return refusals.not_built(
                self.name, self._function, error, texts[0] if len(texts) == 1 else ""
            )
        if isinstance(error, RecipeError) and isinstance(error.__cause__, cl.LogicError):
            return RecipeError(f"kernel {self.name!r}{refusals.place(self._function)}: {error}")
        return refusals.named(call)

    def _wrong_queue(self, queue: Any) -> str:
        """Describe the fault of the first argument of a call; empty if it is a queue for this Kernel."""
        if not isinstance(queue, cl.CommandQueue):
            return f"the first argument of kernel {self.name!r} is a pyopencl.CommandQueue, not {queue!r}"
        if self._line.context in (0, handle_of(queue)):
            return ""
        return f"kernel {self.name!r}: the queue is of another context than the executor; write unit.executor(queue)"

    def _named(self) -> str:
        """Write the arguments of a call by name, as far as these are known."""
        from kcl.launch import refusals

        names = refusals.given_in_calls(self._arguments) or ["name"]
        return ", ".join([f"{name}=..." for name in names])

    def _missing(self, names: list[str]) -> Exception:
        whole = {part: name for name, parts in self._line.packed.items() for _index, part in parts}
        names = sorted({whole.get(name, name) for name in names})
        return frontends.of(self._line.generate.front_end).missing(self.name, names)


def of_call(call: RecipeCall, sizes: Any = None) -> Kernel:
    """Return the kernel of a recipe with its parameters; that of a pure recipe does not run on a hit.

    A call of it may name each of these sizes.
    """
    if call.declared.pure:
        from kcl.frontends.pure import PureResult

        return Kernel(PureResult(call), call.arguments, call.function, sizes=sizes)
    return Kernel(RecipeResult(call), call.arguments, call.function, sizes=sizes)


def by_name(module: str, name: str, parameters: dict[str, Any]) -> Any:
    """Call the recipe of a name in a module."""
    import importlib

    try:
        recipe: Any = attrgetter(name)(importlib.import_module(module))
    except AttributeError:
        raise RecipeError(
            f"kernel {name!r} cannot be unpickled: {module} has no such recipe in this process; "
            "define the recipe in a module that this process can import"
        ) from None
    return recipe(**parameters)


def line_of(kernel: Kernel) -> Line:
    """Return the line of a kernel; its `generate` has the key, and `open` is None before the recipe has run."""
    return kernel._line


def may_have_launched(kernel: Kernel, queue: cl.CommandQueue, arguments: dict[str, Any]) -> bool:
    """Return True if a call that raised may have launched some of several kernels."""
    line = kernel._line
    several = any(len(ready.code.text.kernels) > 1 for ready in line.ready.values())
    return (
        several
        and line.known(queue, unpack(line.packed, arguments) if line.packed else arguments)
        is not None
    )


def described(kernel: Kernel) -> str:
    """Return the name of a kernel with its parameters."""
    return kernel._lead().described()


def prepare_only(
    kernel: Kernel, holder: cl.Context | cl.CommandQueue, arguments: dict[str, Any]
) -> None:
    """Prepare a kernel that may never be launched: its entry is completed without the driver's work for a launch."""
    with kernel._lead() as lead:
        ready = kernel._asked(holder, arguments, lead)
        kernel._line.bound(holder, ready, lead).program.note_prepared()


def generated(kernel: Kernel, arguments: Mapping[str, Any]) -> Code:
    """Generate the code of a kernel for these arguments; nothing is looked up, and nothing is stored."""
    return kernel._line.generate.unstored(CallValues(dict(arguments)))


def code_for(
    kernel: Kernel, holder: cl.Context | cl.CommandQueue, arguments: Mapping[str, Any]
) -> tuple[Code, str]:
    """Return the code of a kernel and the digest of its headers; a launch with these arguments looks up no more."""
    with kernel._lead() as lead:
        ready = kernel._line.code(holder, CallValues(dict(arguments), launch=True), lead)
    return ready.code, ready.headers.partition(" ")[0]


def code_seen(
    kernel: Kernel, holder: cl.Context | cl.CommandQueue, arguments: Mapping[str, Any]
) -> tuple[Code, str]:
    """Return what `code_for` returns; counts no look-up, and stores nothing."""
    look = find(kernel._line.generate, CallValues(dict(arguments)))
    code = look.value.code if look.outcome == "hit" else generated(kernel, arguments)
    return code, bindings_of(holder).build.headers_digest(code.text)


def is_stored_for(
    kernel: Kernel, holder: cl.Context | cl.CommandQueue, arguments: dict[str, Any]
) -> bool:
    """Return True if both layers hold a kernel for these arguments; runs its recipe, and counts no look-up."""
    look = find(kernel._line.generate, CallValues(arguments))
    if look.outcome != "hit":
        return False
    slots = bindings_of(holder).build.slots(look.value.code.text)
    return all(layers.binary().look_up(slot.address, slot.key).entry is not None for slot in slots)


def kernel_of(result: Result, holder: cl.Context | cl.CommandQueue) -> Kernel:
    """Return the kernel of an executor: of a unit, for the queues of one context."""
    return Kernel(result, {}, context=handle_of(holder))
