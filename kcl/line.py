"""`Line`: turns the arguments of a call into code, a program and a launcher. Each of them is made once.

    with line.lead() as lead:                          # others that want the same wait until this block ends
        ready = line.code(queue, call, lead)           # stage 1: the generator layer
        launcher = line.launcher(queue, ready, lead)   # stage 2: the binary layer; once per queue, code and thread

Both stages go through `kcl.cache.lookup.obtain`. Launchers are kept in an attribute of the user's queue or context
(`Bindings`) and live as long as that, so that a program that makes the same Kernel again and again loads nothing twice.
Launchers of code that no Kernel uses any more are dropped, except the `KEPT` last ones.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Mapping
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyopencl as cl

from kcl import drivers, frontends
from kcl.base import process
from kcl.cache.lead import Lead
from kcl.cache.lookup import obtain
from kcl.code import Argument, LaunchableCode, Packed, show
from kcl.frontends import RecipeResult
from kcl.generate import shown
from kcl.generate.stage import CallValues, Generate
from kcl.launch import Arguments, Launcher
from kcl.programs.stage import Build, BuildRequest, BuiltProgram, build_of, is_current

if TYPE_CHECKING:
    from kcl.generate.declarations import RecipeCall
    from kcl.generate.protocol import Result

T = TypeVar("T")
# What programs and launchers are bound for.
Holder: TypeAlias = "cl.Context | cl.CommandQueue"
Launch = Callable[..., cl.Event]
# A line, and a function that explains the choice of it.
Asked = tuple["Line", Callable[[], list[str]]]
# What a chooser raises if it cannot find the sizes of a call; reading the bindings of a new queue raises one, too.
UNKNOWN = (AttributeError, LookupError, ZeroDivisionError, TypeError, ValueError)

# The attribute of the user's queue or context with its bindings.
_ATTRIBUTE = "_kcl_bindings"
# The number of codes whose launchers are kept although no Kernel uses them any more.
KEPT = 48
# Numbers for the lines of this process.
_numbers = itertools.count()


class Bindings:
    """The launchers for one queue or context object of the user, released with that object.

    `launchers` has them by digest of the code and thread, since two threads cannot share a `cl.Kernel`.
    """

    def __init__(self, build: Build, device: cl.Device) -> None:
        self.build = build
        # The same object for all queues of a device.
        self.device = device
        # Events known to belong to the queue.
        self.own_events: dict[cl.Event, None] = {}
        self.launchers: dict[tuple[str, int], Launcher] = {}


class AllBindings:
    """All bindings of this process, and the lines that use them."""

    def __init__(self) -> None:
        # Replaced when the place of kcl's files changes: a line with the old object looks its code up again.
        self.epoch = object()
        # Digest of a code -> the living lines that use its launcher. The code asked for last is at the end.
        self.users: dict[str, weakref.WeakSet[Line]] = {}
        # True if some Line was collected since launchers were last released.
        self.has_unused = False
        # A dictionary by id and not a set: it can be listed in one step while other threads add to it.
        self.bindings: weakref.WeakValueDictionary[int, Bindings] = weakref.WeakValueDictionary()
        self.devices: dict[cl.Device, cl.Device] = {}

    def on_change(self) -> None:
        """Have every kernel looked up again."""
        self.epoch = object()
        for launchers in self.launchers():
            launchers.clear()

    def launchers(self) -> list[dict[tuple[str, int], Launcher]]:
        """List the launchers of all living bindings."""
        living = filter(None, [place() for place in self.bindings.valuerefs()])
        return [bindings.launchers for bindings in living]


_state = process.own(AllBindings)


class Line(process.LockedState):
    """The way from one Result to launchers, with its ready code by the dtypes of the `open` arguments. Thread-safe.

    If a recipe has neither sizes nor a space, its Kernel has a Line as chooser (see `kcl.choices`). A program whose
    variables outlive a launch is not shared with other lines.
    """

    has_variants = False
    space = None

    def __init__(
        self,
        result: Result,
        parameters: Mapping[str, Any] = {},
        function: Callable[..., object] | None = None,
        context_pointer: int = 0,
        sizes: Any = None,
    ) -> None:
        super().__init__()
        self.name = result.name
        self.sizes = sizes
        # The parameters and the function of the recipe, if there is one.
        self.parameters = parameters
        self.function = function
        # The context of an executor; 0 for a Kernel, which serves any context. An executor's digests end with it, so that
        # executors share no launchers with Kernels. Bindings keep their context alive, so the pointer is not used again.
        self.context_pointer = context_pointer
        self.generate = Generate(result)
        # None before the first look-up.
        self.open: tuple[str, ...] | None = None
        # The digest of the code that a call tries first, whatever its dtypes: a played call checks them itself.
        self.sole = ""
        # The arguments that a call gives as one object.
        self.packed: Packed = {}
        self.ready: dict[tuple[Any, ...], LaunchableCode] = {}
        self._epoch: object = None
        self._all = _state()
        self._own: set[BuiltProgram] = set()
        # Appended to the headers' digest of code whose program must not be shared.
        self._token = f" line {next(_numbers)}"

    def __del__(self) -> None:
        # No lock, since this may run at any point of any thread.
        self._all.has_unused = True

    # The methods of a chooser: see `kcl.choices`.

    @property
    def state(self) -> str:
        """How many variants were generated, in words."""
        return f"{len(self.ready)} variant(s) generated" if self.ready else "nothing generated yet"

    def general(self) -> Line:
        """Return the line itself."""
        return self

    def use(self, _queue: Any, _arguments: Any, launch: Callable[[Line], T]) -> T:
        """Call `launch` with the line itself: there is nothing to choose."""
        return launch(self)

    def bind(self, _queue: Any, _arguments: Any, bind: Callable[[Line], Launch]) -> Launch:
        """Call `bind` with the line itself."""
        return bind(self)

    def asked(self, _holder: Any, _values: Any) -> Asked:
        """Return the line itself, and a function that explains the choice: it returns no lines."""
        return self, list

    def lead(self) -> Lead:
        """Return the lead of one launch. While it is held, others wait for the code and the program of this thread."""
        return Lead(self.name, self.parameters, shown)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments of the kernel; none while they are unknown."""
        for ready in self.ready.values():
            return ready.code.invoker.arguments
        return self.generate.arguments

    def drop_sizes(self, arguments: Any, is_new: bool = False) -> dict[str, Any]:
        """Return a call's arguments without sizes that the code does not take; unchanged while the code is unknown.

        With `is_new` raises RecipeError for sizes that the code cannot have.
        """
        if self.sizes is None or not self.arguments:
            return arguments  # type: ignore[no-any-return]
        names = [*self.packed, *(argument.name for argument in self.arguments)]
        return self.sizes.taken(self.function, names, arguments, is_new)  # type: ignore[no-any-return]

    def missing_error(self, parts: Iterable[str]) -> Exception:
        """Return the front end's error for a launch that lacks arrays, or elements of packed ones."""
        wholes = {part: name for name, parts in self.packed.items() for _index, part in parts}
        names = sorted({wholes.get(part, part) for part in parts})
        return frontends.of(self.generate.front_end).missing(self.name, names)

    def find_launcher(self, queue: cl.CommandQueue, arguments: Arguments) -> Launcher | None:
        """Return the launcher for these dtypes, this queue and this thread; None if there is none yet."""
        ready = self.ready.get(
            tuple([getattr(arguments.get(name), "dtype", None) for name in self.open or ()])
        )
        bindings: Bindings | None = getattr(queue, _ATTRIBUTE, None)
        return bindings.launchers.get((ready.digest, get_ident())) if ready and bindings else None

    def code(self, holder: Holder, call: CallValues, lead: Lead) -> LaunchableCode:
        """Return code that is ready to launch: kept here, from the generator layer, or made now.

        Raises MissingArguments for a launch without a required array; the recipe's own error; RecipeError; CacheMiss.
        """
        build = bindings_of(holder).build
        if self._epoch is not _state().epoch:
            self._forget()
        if self.open is not None:
            earlier = self.ready.get(self.generate.choice(call.values))
            if earlier is not None:
                return earlier
        try:
            ready = self._obtained(call, lead, build)
        except Exception as error:
            from kcl.launch import refusals

            refusals.add_note(error, lead.describe(), self.function)
            raise
        self._keep(ready)
        return ready

    def launcher(self, holder: Holder, ready: LaunchableCode, lead: Lead) -> Launcher:
        """Return the launcher of code for a queue or context, and for this thread.

        Raises pyopencl's own error if the source does not compile, and CacheMiss.
        """
        bindings, digest = bindings_of(holder), ready.digest
        launcher = bindings.launchers.get((digest, get_ident()))
        if launcher is None:
            build, text = bindings.build, ready.code.text
            program = build.program(BuildRequest(text), build.digest(text, ready.headers), lead)
            if ready.headers.endswith(self._token):
                # Kept alive, since the values of the program's variables must live as long as this Kernel.
                self._own.add(program)
            launcher = program.launcher(ready, bindings.own_events)
            bindings.launchers[digest, get_ident()] = launcher
        users = _state().users.pop(digest, None) or weakref.WeakSet()
        users.add(self)
        _state().users[digest] = users
        _release_unused()
        return launcher

    def serves(self, holder: Holder) -> bool:
        """Return True if another executor may use this line: it has ready code for the context, and shares its program.

        Programs whose variables outlive a launch are not shared, since each executor has its own variables.
        """
        is_here = self.context_pointer == pointer_of(holder)
        ready = tuple(self.ready.values()) if is_here else ()
        return bool(ready) and not any(code.headers.endswith(self._token) for code in ready)

    def _obtained(self, call: CallValues, lead: Lead, build: Build) -> LaunchableCode:
        ready: LaunchableCode = obtain(self.generate, call, lead)
        if ready.code.invoker.shown:
            show(ready.code)
        if ready.code.invoker.warned:
            frontends.of(ready.code.invoker.front_end).warn_again(ready.code.invoker.warned)
        # A launcher was built with the headers of its time: if they have changed, the same code needs another one.
        headers = build.headers_digest(ready.code.text)
        headers += self._token if build.keeps_state(ready.code.text) else ""
        executor = f" {self.context_pointer}" if self.context_pointer else ""
        return ready._replace(digest=ready.digest + headers + executor, headers=headers)

    def _keep(self, ready: LaunchableCode) -> None:
        base = self.generate.base
        # Another thread has found that the unit was edited: the next call looks again.
        if base is None:
            return
        with self.lock:
            # In this order, since calls read without the lock: first the code, then the attributes by which it is found.
            self.packed = base.packed
            self.ready[ready.choice] = ready
            self.open = base.names
            if not base.packed:
                self.sole = ready.digest

    def _forget(self) -> None:
        """Forget the code, since it was looked up in the former place of kcl's files."""
        with self.lock:
            self._epoch, self.open, self.sole = _state().epoch, None, ""
            self.ready.clear()


def of_call(call: RecipeCall, sizes: Any = None) -> Line:
    """Return the line of a recipe call."""
    result: Result = RecipeResult(call)
    if call.pure:
        from kcl.frontends.pure import PureResult

        result = PureResult(call)
    return Line(result, call.arguments, call.function, sizes=sizes)


def _release_unused() -> None:
    """Release the launchers of codes that no Kernel uses any more, except the `KEPT` last ones."""
    state = _state()
    # Checking all of them takes a tenth of the time of a look-up, so it is done only if there are a quarter too many.
    if not state.has_unused or len(state.users) <= KEPT + KEPT // 4:
        return
    state.has_unused, holders = False, state.launchers()
    unused = [digest for digest, users in [*state.users.items()] if not users]
    for digest in unused[: max(len(unused) - KEPT, 0)]:
        state.users.pop(digest, None)
        for launchers in holders:
            # A copy, since another thread may bind a launcher meanwhile.
            for place in [place for place in list(launchers) if place[0] == digest]:
                launchers.pop(place, None)


def bindings_of(holder: Holder) -> Bindings:
    """Return the bindings of a queue or context; raises TypeError for another object."""
    bindings: Bindings | None = getattr(holder, _ATTRIBUTE, None)
    if bindings is None:
        build = build_of(_context(holder), drivers.of)
        is_queue = isinstance(holder, cl.CommandQueue)
        device = holder.device if is_queue else build.devices[0][0]
        device = _state().devices.setdefault(device, device)
        # `setdefault` is one step: another thread may be faster.
        bindings = vars(holder).setdefault(_ATTRIBUTE, Bindings(build, device))
        _state().bindings[id(bindings)] = bindings
    elif not is_current(bindings.build):
        # The place of kcl's files has changed, and `_state()` may be a new object that does not know these bindings.
        bindings.build = build_of(_context(holder), drivers.of)
        bindings.launchers.clear()
        _state().bindings[id(bindings)] = bindings
    return bindings


def pointer_of(holder: Holder) -> int:
    """Return OpenCL's pointer to a context, or to the context of a queue."""
    return int(holder.context.int_ptr if isinstance(holder, cl.CommandQueue) else holder.int_ptr)


def _context(holder: Holder) -> cl.Context:
    if not isinstance(holder, (cl.Context, cl.CommandQueue)):
        raise TypeError(f"expected a pyopencl Context or CommandQueue, got {holder!r}")
    return holder if isinstance(holder, cl.Context) else holder.context
