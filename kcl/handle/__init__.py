"""`Kernel`, the user's handle: callable like loopy's executor. Its code is found or made at the first launch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from threading import get_ident
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import pyopencl as cl

from kcl.base import spans
from kcl.cache.lead import Lead
from kcl.errors import CacheMiss, RecipeError
from kcl.generate import shown
from kcl.generate.stage import CallValues
from kcl.launch import Arguments, unpack
from kcl.line import UNKNOWN, Holder, Line, of_call, pointer_of

if TYPE_CHECKING:
    from kcl.cache.key import Key
    from kcl.choices.tuning.chooser import Chooser
    from kcl.choices.tuning.tuner import Tuning
    from kcl.generate.declarations import RecipeCall
    from kcl.generate.protocol import Result

P = ParamSpec("P")
R = TypeVar("R")
# The allocator, the events to wait for, and whether outputs are to be numpy arrays.
Options = tuple[Any, Any, bool | None]

# Names that users look for in a Kernel, with the advice of the AttributeError.
_ELSEWHERE = {
    "executor": "; it is called itself: kernel(queue, ...)",
    "kernel": "; `.kernel` belongs to kcl.Source: build the Source in a plain function, and return source.kernel(...) "
    "from a recipe",
}


def needs_queue(
    call: Callable[Concatenate[Any, cl.CommandQueue, P], R],
) -> Callable[Concatenate[Any, cl.CommandQueue, P], R]:
    """Mark a function so that type checkers demand the queue, which is optional at run time."""
    return call


class Kernel:
    """A recipe with its parameters, ready to be launched on any queue.

    The recipe runs, and code is found or generated, at the first launch. One Kernel serves any number of contexts,
    devices, queues and threads. Its device kernels for a queue are released with the queue object, or some time after the
    last Kernel with the same code.

    If the recipe has sizes or a space, the Kernel chooses its code by the sizes of each call. `prepare`, `source`, `key`
    and `explain` then take sizes by name, as in `n=64`; without them they use the code for any sizes. `space` is that of
    the recipe, None if it has none.

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

    def __init__(self, chooser: Chooser) -> None:
        self.name = chooser.name
        self.space = chooser.space
        self._chooser = chooser
        # A call first tries the code of the one line, or the code that the chooser took for the sizes of the last call.
        self._line = chooser if isinstance(chooser, Line) else None
        self._last: Any = getattr(chooser, "last", None)

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
        numpy if all given arrays are numpy arrays. For a Source the sizes of the launch may be given too: `global_size`,
        `local_size` and `global_offset` are integers or tuples of them, and replace the declared ones.

        Raises what the executor raises if an argument is missing, or has a wrong kind, dtype, shape, strides or offset;
        for a Source, TypeError if it has a wrong kind. The message names kernel and argument. Thread-safe.
        """
        if unnamed:
            raise TypeError(
                f"kernel {self.name!r} takes its arguments by name: write kernel(queue, {self._named()})"
            )
        line = self._line
        try:
            # The short way, for a call like the last one. A new queue, an object that is no queue, or
            # other sizes raise an error here and take the long way.
            bindings = queue._kcl_bindings
            code = self._last(bindings.device, arguments) if line is None else line.sole
            hot = bindings.launchers[code, get_ident()].hot
        except UNKNOWN:
            hot = None
        if hot is not None and wait_for is None and out_host is None:
            result: tuple[Any, Any] | None = hot(queue, allocator, arguments)
            if result is not None:
                return result
        options, refused = (allocator, wait_for, out_host), list[Exception]()
        try:
            return self._chooser.use(
                queue, arguments, partial(self._launched, queue, options, arguments, refused)
            )
        except Exception as error:
            if error not in refused:
                raise
        # Raised outside of the handler and without traceback, so that it shows no frames and no context of kcl.
        raise refused[-1].with_traceback(None)

    def bind(self, queue: cl.CommandQueue, **arguments: Any) -> Callable[..., cl.Event]:
        """Return `launch(**arguments)`, which launches on `queue` with the least work and returns the event.

        `arguments` are an example of a call: every array must be given, outputs too, and lie on the device. Nothing is
        launched yet. The function takes the same names and refuses what a call refuses; a scalar is converted to the dtype
        that it has in the example. Only the thread that bound it may call it. It keeps the queue alive. It ignores events:
        it waits for none of an array's events and adds none to arrays, so only the order of the queue orders its launches.

        If the Kernel chooses by sizes, the function raises ValueError for sizes of another variant, and for sizes that a
        `where` of the space refuses. If the choice cannot be launched any more, or sizes differ by more than a factor of
        two from the measured ones, the defaults are bound from then on.

        >>> import pyopencl.array
        >>> given = cl.array.to_device(queue, x)
        >>> launch = doubled().bind(queue, x=given)
        >>> launch(x=given).wait()
        >>> given.get().tolist()
        [2.0, 2.0, 2.0, 2.0]
        """
        if not isinstance(queue, cl.CommandQueue):
            raise TypeError(self._wrong_queue(queue))
        from kcl.handle import questions

        return self._chooser.bind(
            queue,
            arguments,
            lambda line: questions.bind(
                line,
                queue,
                arguments,
                lambda error, values: self._refused(line, error, values, queue),
            ),
        )

    def tune(
        self,
        queue: cl.CommandQueue,
        *,
        level: int = 1,
        seconds: float = 60.0,
        search: Any = None,
        tolerance: Any = None,
        again: bool = False,
        anyway: bool = False,
        **arguments: Any,
    ) -> Tuning:
        """Measure the choices of a recipe's space with these arguments, and use the fastest from now on.

        Raises TypeError for a recipe without a space, and for arguments other than contiguous arrays and numbers;
        ValueError for an unknown level; RuntimeError under MPI or a batch scheduler, unless `anyway` is True.

        >>> @kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(block=[1, 4]))
        ... def filled(block=1):
        ...     return kcl.Source(
        ...         "kernel void filled(global float *x, int n) { x[get_global_id(0)] = 1; }",
        ...         entry="filled",
        ...         arguments=[kcl.Array("x", np.float32, "n", "inout"), kcl.Scalar("n", np.int32)],
        ...         global_size="n",
        ...         local_size=block,
        ...     )
        >>> print(filled().tune(queue, x=np.zeros(64, np.float32)))
        filled at n = 64: ...
        """
        chooser = self._chooser
        if chooser.space is None:
            raise TypeError(
                f"kernel {self.name!r} has no space of choices: write @kcl.kernel(space=kcl.space(...))"
            )
        return chooser.tune(queue, arguments, level, seconds, search, tolerance, again, anyway)

    def prepare(self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any) -> None:
        """Make everything that a launch needs: run the recipe, find or generate its code, build the program.

        Arguments that the recipe left open are given as a dtype, a type, or an array or scalar of the dtype. The program
        lives as long as the given context or queue. Raises TypeError for an argument that the kernel does not take, and for
        a dtype that numpy does not know or that is not the argument's.

        >>> kernel = doubled()
        >>> kernel.prepare(context)
        >>> kernel
        <kcl.Kernel doubled(factor=2): 1 variant(s) generated>
        """
        from kcl.handle import questions

        launcher = questions.prepare(self._chooser, context_or_queue, arguments)
        launcher.program.note_call(launcher)

    def source(self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any) -> str:
        """Return the OpenCL C; arguments as for `prepare`.

        >>> doubled(factor=3).source(context)
        'kernel void doubled(global float *x) { x[get_global_id(0)] *= 3; }'
        """
        from kcl.handle import questions

        return questions.find_code(self._chooser, context_or_queue, arguments)[1].code.text.source

    def key(
        self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any
    ) -> dict[str, Key | None]:
        """Return the key in each layer for the first device, None if it is unknown; arguments as for `prepare`.

        >>> one, other = doubled(factor=2).key(context), doubled(factor=3).key(context)
        >>> [difference.name for difference in one["binary"].diff(other["binary"])]
        ['source']
        """
        from kcl.handle import questions

        return questions.find_keys(self._chooser, context_or_queue, arguments)

    def explain(self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any) -> str:
        """Say what each layer holds for this kernel now and why; arguments as for `prepare`.

        For a miss the text says what differs from the nearest earlier entry of the same kernel, as `kcl explain` does, and
        which process is making the entry now, if any. The recipe runs if it has not run yet, unless it is pure. No look-up
        is counted and nothing is built.

        If the Kernel chooses, the text says which sizes the recipe read, or which row of the table led to the choice.

        >>> print(doubled().explain(context))
        kernel doubled
          generator: miss: not in the cache (...)
            first time seen
          binary: not looked up: ...
        """
        from kcl.handle import questions

        return questions.explain(self._chooser, context_or_queue, arguments)

    def is_stored(self) -> bool:
        """Return True if the generator layer holds code of this kernel, for any dtypes. No look-up is counted.

        If the Kernel chooses by sizes, this is about the code for any sizes.

        >>> doubled().is_stored()
        False
        >>> event, outputs = doubled()(queue, x=x)
        >>> doubled().is_stored()
        True
        """
        return self._chooser.general().generate.is_stored()

    # Hidden from type checkers, so that they find misspelt names.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise an AttributeError that says what to write in place of a name of loopy's or of a Source."""
            told = _ELSEWHERE.get(name, "")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{told}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy as the name of the recipe with the parameters; the receiver looks the code up again."""
        function = self._chooser.function
        if function is None or "<locals>" in function.__qualname__:
            raise TypeError(
                f"kernel {self.name!r} cannot be pickled or copied: its recipe is no function of a module"
            )
        return by_name, (function.__module__, function.__qualname__, self._chooser.parameters)

    def __repr__(self) -> str:
        return f"<kcl.Kernel {described(self)}: {self._chooser.state}>"

    def _launched(
        self,
        queue: cl.CommandQueue,
        options: Options,
        arguments: Arguments,
        refused: list[Exception],
        line: Line,
    ) -> tuple[Any, Any]:
        """Launch a line. The error of a failed call is reworded, added to `refused`, and raised.

        By `refused` the caller tells such an error from one of a chooser's own.
        """
        try:
            arguments = line.drop_sizes(arguments)
            flat = unpack(line.packed, arguments) if line.packed else arguments
            launcher = line.find_launcher(queue, flat)
            if launcher is None:
                return self._first(line, queue, options, arguments)
            return launcher(queue, *options, flat)
        except Exception as error:
            in_words = self._refused(line, error, arguments, queue)
            if in_words is None:
                raise
            refused.append(in_words)
        raise refused[-1]

    def _first(
        self, line: Line, queue: cl.CommandQueue, options: Options, arguments: Arguments
    ) -> tuple[Any, Any]:
        """Launch for the first time on this queue, in this thread, or with these dtypes."""
        holder = self._holder(line, queue)
        # A text or a type would be taken for a dtype, as in `prepare`; in a call it is a wrong argument.
        values = {
            name: None if isinstance(value, (str, type)) else value
            for name, value in arguments.items()
        }
        with spans.span("first launch", self.name), line.lead() as lead:
            ready = line.code(holder, CallValues(values, launch=True), lead)
            arguments = line.drop_sizes(arguments, is_new=True)
            if line.packed:
                arguments = unpack(line.packed, arguments)
            launcher = line.launcher(holder, ready, lead)
            try:
                return launcher(queue, *options, arguments)
            finally:
                # Even after a failed call, since the next one takes the short way and would skip this.
                launcher.program.note_call(launcher, arguments)

    def _holder(self, line: Line, queue: Any) -> Holder:
        """Return the queue or context for which the code of a call is bound; the line refuses another object.

        For an executor it is its own context unless the queue belongs to that. A launch on a wrong queue then raises
        pyopencl's error, as with loopy's executor.
        """
        only = line.context_pointer
        if only and not (isinstance(queue, cl.CommandQueue) and pointer_of(queue) == only):
            return cl.Context.from_int_ptr(only, retain=True)
        return queue

    def _refused(
        self, line: Line, error: Exception, arguments: Arguments, queue: Any
    ) -> Exception | None:
        """Return a clearer error for a failed call; None if the error itself is clear."""
        if isinstance(error, CacheMiss):
            return error
        from kcl.launch.refusals import in_words

        fault = self._wrong_queue(queue, line.context_pointer)
        return in_words(self.name, line, error, arguments, queue, fault)

    def _wrong_queue(self, queue: Any, context: int = 0) -> str:
        """Describe why the first argument of a call is no queue for this Kernel; empty if it is one."""
        if not isinstance(queue, cl.CommandQueue):
            return f"the first argument of kernel {self.name!r} is a pyopencl.CommandQueue, not {queue!r}"
        if context in (0, pointer_of(queue)):
            return ""
        return f"kernel {self.name!r}: the queue is of another context than the executor; write unit.executor(queue)"

    def _named(self) -> str:
        """Return the arguments of a call as `x=..., y=...`, for a message; `name=...` if they are unknown."""
        from kcl.launch import refusals

        names = refusals.given_in_calls(self._chooser.general().arguments) or ["name"]
        return ", ".join(f"{name}=..." for name in names)


def by_name(module: str, name: str, parameters: dict[str, Any]) -> Any:
    """Unpickle a Kernel: call the recipe `name` of a module."""
    import importlib

    try:
        recipe: Any = attrgetter(name)(importlib.import_module(module))
    except AttributeError:
        raise RecipeError(
            f"kernel {name!r} cannot be unpickled: {module} has no such recipe in this process; "
            "define the recipe in a module that this process can import"
        ) from None
    return recipe(**parameters)


def of_recipe(call: RecipeCall) -> Kernel:
    """Return the Kernel of a recipe that has neither sizes nor a space."""
    return Kernel(of_call(call))


def chooser_of(kernel: Kernel) -> Chooser:
    """Return the chooser of a Kernel; it may be a Line."""
    return kernel._chooser


def described(kernel: Kernel) -> str:
    """Return the name of a Kernel with its parameters, for display."""
    return Lead(kernel.name, kernel._chooser.parameters, shown).describe()


def prepare_only(kernel: Kernel, holder: Holder, arguments: Arguments) -> None:
    """Prepare a kernel that may never be launched: its entry is completed without specialised code."""
    from kcl.handle import questions

    questions.prepare(kernel._chooser, holder, arguments).program.note_prepared()


def is_stored_for(kernel: Kernel, holder: Holder, arguments: Arguments) -> bool:
    """Return True if both layers hold a kernel for these arguments. Runs its recipe; no look-up is counted."""
    from kcl.handle import questions

    return questions.are_stored(kernel._chooser, holder, arguments)


def kernel_of(result: Result, holder: Holder) -> Kernel:
    """Return the Kernel behind an executor: for one unit and the queues of one context."""
    return Kernel(Line(result, context_pointer=pointer_of(holder)))
