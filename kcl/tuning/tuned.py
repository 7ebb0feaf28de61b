"""TunedKernel: the handle of a recipe with a space. A call is served the choice that was measured for its sizes.

    sizes of the call -> row of the table: of these sizes, else within a factor of two -> choice -> Kernel
                         no row, or none that is valid and measured here               -> the defaults

A choice is valid if the space has its values now, and if every predicate holds for the sizes of this call: loopy checks
no assumption. It is measured if the code that would run is code that its row has compared. A size is decided once a
process. What was launched last is compared first.
"""

from __future__ import annotations

import functools
import inspect
import math
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from kcl import handle
from kcl.base import process
from kcl.cache import faults, layers, lookup
from kcl.cache.key import Part
from kcl.code import dtype_text
from kcl.errors import KclError, RecipeError
from kcl.generate.stage import dtypes_of
from kcl.line import bindings_of
from kcl.programs.program_key import changed_file
from kcl.sized import UNKNOWN, SizedKernel, Sizes
from kcl.tuning import table as tables
from kcl.tuning.space import Choice, Space, said
from kcl.tuning.table import ChoiceTable, Decision, Row

if TYPE_CHECKING:
    from kcl.generate.declarations import RecipeCall
    from kcl.tuning.tuner import Tuning

Untuned = Callable[["TunedKernel", cl.CommandQueue, dict[str, Any]], object]

_DECISIONS = 1024  # of a handle, found at once
_NOTED = 64  # of a process
_LOOKED = 4096  # candidates that are asked for a first valid one
# So many choices are generated in vain: after another loopy the code of all of them is another.
_COMPARED = 3
_NAMED = 200  # characters of a variant
# Errors that another moment may not have.
_PASSING = (MemoryError, cl.MemoryError, OSError)


class TunedHandles:
    """The handles of this process, what was decided in it, and who tunes before a size is decided."""

    def __init__(self) -> None:
        self.handles: weakref.WeakSet[TunedKernel] = weakref.WeakSet()
        self.decided: list[tuple[str, Decision]] = []
        self.untuned: Untuned | None = None

    def on_change(self) -> None:
        """Decide again, as the tables lie in another place."""
        # A copy, since another thread may make a handle.
        for kernel in list(self.handles):
            kernel.forget()


_state = process.own(TunedHandles)


def tune_untuned(tune: Untuned | None) -> None:
    """Have `tune` called before a size is decided, with the arguments of its first launch; None ends that."""
    _state().untuned = tune


def remarks() -> list[str]:
    """Return the first decisions of this process in words, for the journal."""
    return [f"{tables.MARK}{name}: {decision}" for name, decision in _state().decided]


def handle_of(call: RecipeCall, space: Space, sizes: Sizes | None, named: set[str]) -> Any:
    """Return the handle of a recipe with a space; `named` are the parameters that were given by hand."""
    free = [name for name in space.lists if name not in named]
    sizes = sizes or Sizes({})
    return TunedKernel(call, space, sizes, free) if free else _plain(call, sizes)


class TunedKernel(SizedKernel):
    """The kernels of one recipe with a space: a call takes the choice for its sizes. Called as a Kernel. Thread-safe.

    `space` is that of the recipe. `given` are the parameters of the space that were given by hand, `defaults` those
    that were not. `prepare`, `source`, `key` and `explain` take sizes by name, as `n=64`, or from the arrays.
    """

    def __init__(self, call: RecipeCall, space: Space, sizes: Sizes, free: list[str]) -> None:
        super().__init__(call, sizes, handle)
        self.space, self.function = space, call.function
        self.defaults: Choice = {name: call.arguments[name] for name in free}
        self.given = {
            name: call.arguments[name] for name in space.lists if name not in self.defaults
        }
        self.size_texts = sizes.texts
        self._own = _asked_by(call, sizes)
        self.has_variants = bool(self._own.texts)
        self._made: dict[str, Any] = {}
        self._tables: dict[Any, ChoiceTable | None] = {}
        self._decisions: dict[Any, Decision] = {}
        self._noted: set[Any] = set()
        self._offered: set[Any] = set()  # to `kcl tune`
        self._launches: dict[Any, tuple[Any, str, Any]] = {}
        # the sizes of a launch, the digest of its code, and its device
        self._latest: tuple[Any, str, Any] = (None, "", None)
        _state().handles.add(self)

    @handle.needs_queue  # type: ignore[arg-type]  # by name it may be given, too
    def __call__(  # type: ignore[override]
        self,
        queue: cl.CommandQueue = None,
        *unnamed: Any,
        allocator: Any = None,
        wait_for: Any = None,
        out_host: bool | None = None,
        **arguments: Any,
    ) -> tuple[Any, Any]:
        """Launch the choice for the sizes of this call; arguments, outputs and errors are those of a Kernel."""
        try:
            # The text was checked as the recipe was decorated, so `eval` runs sizes and nothing
            # else.
            sizes = eval(self._code, self._beside, arguments)
            latest, bindings = self._latest, queue._kcl_bindings
            if latest[0] != sizes or latest[2] is not bindings.device:
                latest = self._latest = self._launches[sizes, bindings.device]
            hot = bindings.launchers[latest[1], get_ident()].hot
        except UNKNOWN:
            # The careful way below decides, and raises what is wrong with the call.
            hot = None
        if hot is not None and wait_for is None and out_host is None and not unnamed:
            result: tuple[Any, Any] | None = hot(queue, allocator, arguments)
            if result is not None:
                return result
        options = {"allocator": allocator, "wait_for": wait_for, "out_host": out_host}
        return self._decided(queue, unnamed, options, arguments)

    def bind(self, queue: cl.CommandQueue, **arguments: Any) -> Callable[..., cl.Event]:
        """Return `launch(**arguments)` as `Kernel.bind` does; it raises ValueError where a `where` refuses its choice.

        The choice is that for the sizes of these arguments. If it can be bound or launched no longer, or comes to sizes
        beyond a factor of two of its row, the defaults are bound from then on.
        """
        if not isinstance(queue, cl.CommandQueue):
            return self.made({}).bind(queue, **arguments)  # type: ignore[no-any-return]  # it raises the error
        sizes, fitting = self.sizes_of(arguments), set[Any]()

        def bound(decision: Decision) -> tuple[Decision, Callable[..., cl.Event]]:
            return decision, self.made(decision.choice).bind(queue, **arguments)

        now = self._guarded(self._decision(queue, arguments, sizes), bound, queue, arguments)

        def launching(decision: Decision, values: dict[str, Any]) -> cl.Event:
            nonlocal now
            # The choice fails, and these are the defaults.
            if decision is not now[0]:
                now = bound(decision)
                fitting.clear()
            return now[1](**values)

        def launch(**values: Any) -> cl.Event:
            nonlocal now
            if (place := self._sizes(values)) not in fitting:
                here, row = self._whole(place), now[0].row
                if row and row.best and not tables.is_near(tuple(here.values()), row):
                    # The row was measured too far from these sizes.
                    now = bound(self._untuned(now[0].table, sizes))
                why = self.refusal(now[0].choice, here) if here != sizes else ""
                if why and 0 not in here.values():
                    words = f"{said(sizes)} with {said(now[0].choice)}, and not for {said(here)}"
                    raise ValueError(
                        f"kernel {self.name!r} is bound for {words}, as {why}: bind again"
                    )
                fitting.add(place)
            return self._guarded(
                now[0], lambda decision: launching(decision, values), queue, values
            )

        return launch

    def explain(self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any) -> str:
        """Say what each layer holds for the choice at these sizes, and which row of the table led to it."""
        decision = self._asked(context_or_queue, arguments)
        words: str = decision.kernel.explain(context_or_queue, **arguments)
        table, other = decision.table, ""
        if table is not None and not table.rows:
            from kcl.tuning import views

            other = views.elsewhere(self.name, table.key)
        return f"{words}\n  tuning: {decision}{other}"

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
        """Measure the choices with these arguments, and serve the fastest from now on."""
        from kcl.tuning import tuner

        try:
            return tuner.tune(
                self, queue, arguments, level, seconds, search, tolerance, again, anyway
            )
        finally:
            # Another handle of the recipe reads the table again, too.
            for kernel in [kernel for kernel in _state().handles if kernel.name == self.name]:
                kernel.forget()

    def sizes_of(self, arguments: Mapping[str, Any]) -> dict[str, int]:
        """Return the sizes of a call by name; 0 for all if one cannot be known.

        Raises TypeError for no integer, and if an argument of an expression is missing.
        """
        for name in self._declared.arguments:
            if name not in arguments and name not in self._names:
                raise TypeError(f"kernel {self.name!r}: missing argument {name!r}")
        return self._whole(self._sizes(arguments))

    def default_at(self, sizes: Mapping[str, int]) -> Choice:
        """Return the choice that runs untuned: the defaults, or the first valid choice if a predicate refuses these.

        Raises RecipeError if the whole space has no valid choice.
        """
        if 0 in sizes.values() or not (refusal := self.refusal(self.defaults, sizes)):
            return self.defaults
        for choice in self.space.choices(self.given, sizes, _LOOKED):
            return choice
        if math.prod(len(self.space.lists[name]) for name in self.defaults) <= _LOOKED:
            raise RecipeError(
                f"kernel {self.name!r} has no valid choice for {said(sizes)}: for its default {said(self.defaults)} "
                f"{refusal}, and so for all others; give the space a choice for these sizes, or correct the where"
            )
        faults.warn_once(
            f"no choice of {self.name} {sizes}",
            f"kernel {self.name!r} has no valid choice for {said(sizes)} among its first {_LOOKED}, so the defaults "
            f"{said(self.defaults)} run: look at the where of its space",
        )
        return self.defaults

    def asked_at(self, sizes: Mapping[str, int], choice: Choice) -> str:
        """Return the digest of what a default asks at these sizes; empty if the key of the table has that."""
        if choice is self.defaults and not self._own.texts:
            return ""
        return tables.asked(handle.line_of(self.kernel_at(choice, sizes)).generate.key())

    @functools.cached_property
    def variant(self) -> str:
        """The parameters beside the space that are not the function's defaults: code may depend on them unseen."""
        parameters, texts = inspect.signature(self.function).parameters, list[str]()
        for name, value in self._call.arguments.items():
            if name not in self.space.lists and repr(value) != repr(parameters[name].default):
                texts.append(f"{name}={value!r}")
        # An address is another one in each process.
        return ", ".join(text for text in texts if " at 0x" not in text)[:_NAMED]

    def refusal(self, choice: Mapping[str, Any], sizes: Mapping[str, int]) -> str:
        """Return why a choice does not serve these sizes; empty if it does."""
        if said(choice) != said(self.defaults) and not (
            choice.keys() == self.defaults.keys() and self.space.has(choice)
        ):
            return "a value is not in the space"
        return self.space.refusal({**self.given, **choice}, sizes)

    def made(self, choice: Mapping[str, Any]) -> Any:
        """Return the handle with a choice of the free parameters; memoised, and nothing is stored before its launch."""
        # A local keeps the dictionary, since another thread may forget and put a new one in its
        # place.
        place, kernels = said(choice), self._made
        if place not in kernels:
            call = self._call._replace(arguments={**self._call.arguments, **choice})
            kernels.setdefault(place, _plain(call, self._declared))
        return kernels[place]

    def table(self, holder: cl.Context | cl.CommandQueue) -> ChoiceTable | None:
        """Return the table for a device; None if tuning is off, or the recipe has no key.

        Runs the recipe with the defaults.
        """
        # A local keeps the dictionary, since another thread may forget and put a new one in its
        # place.
        device, opened = _device(holder), self._tables
        if device not in opened:
            opened[device] = self._opened(holder, device)
        return opened[device]

    def forget(self) -> None:
        """Forget what was decided: the next call reads the table again."""
        self._latest = (None, "", None)
        self._made, self._tables, self._decisions, self._launches = {}, {}, {}, {}
        self._noted = set()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy as the recipe by its name, with the parameters that were given."""
        by_name, (*place, arguments) = super().__reduce__()
        return by_name, (
            *place,
            {name: value for name, value in arguments.items() if name not in self.defaults},
        )

    def __repr__(self) -> str:
        return f"<kcl.TunedKernel {self.name}: chooses {', '.join(self.defaults)}>"

    def _decided(
        self,
        queue: Any,
        unnamed: tuple[Any, ...],
        options: dict[str, Any],
        arguments: dict[str, Any],
    ) -> tuple[Any, Any]:
        """Decide, if these sizes are new, and launch."""
        place = self._sizes(arguments)
        sizes = self._whole(place)
        if unnamed or 0 in sizes.values() or not isinstance(queue, cl.CommandQueue):
            kernel = self.kernel_at(self.defaults, sizes)
            return kernel(queue, *unnamed, **options, **arguments)  # type: ignore[no-any-return]  # it may raise the error
        decision = self._decision(queue, arguments, sizes)

        def launching(chosen: Decision) -> tuple[Any, Any]:
            result: tuple[Any, Any] = chosen.kernel(queue, **options, **arguments)
            if len(self._launches) >= _DECISIONS:
                self._launches.clear()
            device, code = _device(queue), handle.line_of(chosen.kernel).sole
            # One tuple in one step: another thread sees the old launch or the new one.
            self._latest = self._launches[place, device] = place, code, device
            return result

        return self._guarded(decision, launching, queue, arguments)  # type: ignore[no-any-return]

    def _guarded(
        self, decision: Decision, use: Callable[[Decision], Any], queue: Any, arguments: Any
    ) -> Any:
        """Use a choice; if that fails and the use of the defaults does not, leave it out from now on.

        A choice that fails for want of memory or of a file is used again by the next call.
        The error is raised if some of several kernels may have been launched already.
        """
        try:
            if decision.error is not None:
                raise decision.error
            return use(decision)
        except Exception as error:
            table, row, name = decision.table, decision.row, said(decision.choice)
            # `KCL_STRICT` asks for this error.
            is_asked = isinstance(error, KclError) and not isinstance(error, RecipeError)
            is_default = name == said(self.default_at(decision.sizes))
            if is_asked or is_default or table is None or row is None:
                raise
            began = handle.may_have_launched(decision.kernel, queue, arguments)
            # An error of the call itself, and not of the choice, is raised again here.
            result = None if began else use(self._untuned(table, decision.sizes))
            words = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
            reason = f"the tuned choice {name} does not run now, the defaults do: {words}"
            if not isinstance(error, _PASSING):
                left = row._replace(
                    best=tuple(ranked for ranked in row.best if said(ranked.choice) != name)
                )
                if name == said(row.choice):
                    left = left._replace(outcome="no longer runs", detail=words)
                table.put(left)
                reason = reason.replace("does not run now", "no longer runs")
                told = (
                    f"kernel {self.name!r}: {reason}; measure again with `kcl tune` and the program"
                )
                faults.warn_once(f"tuned {self.name}", told)
                self._decisions = {}
            lookup.report(layers.binary(), self.name, table.key, reason)
            if began:
                raise
            return result

    def _decision(
        self,
        holder: Any,
        arguments: Mapping[str, Any],
        sizes: dict[str, int],
        is_launch: bool = True,
    ) -> Decision:
        """Return what was decided for these sizes and dtypes; decide it the first time, and say it at a launch."""
        types = {}
        # A text may name no dtype. The launch says so.
        with suppress(TypeError):
            types = {name: dtype_text(dtype) for name, dtype in dtypes_of(arguments).items()}
        place = (_device(holder), *types.items(), *sizes.values())
        decision, state = self._decisions.get(place), _state()
        if decision is None:
            if is_launch and state.untuned is not None and place not in self._offered:
                self._offered.add(place)
                state.untuned(self, holder, dict(arguments))
            decision = self._decide(holder, arguments, sizes, types, is_launch)
            if len(self._decisions) >= _DECISIONS:
                self._decisions.clear()
            # A decision with an error is made anew by the next call.
            if decision.error is None and (is_launch or state.untuned is None):
                self._decisions[place] = decision
        if is_launch and decision.error is None and place not in self._noted:
            self._noted.add(place)
            if len(state.decided) < _NOTED:
                # Without its kernel, which the list would keep alive.
                state.decided.append((self.name, decision._replace(kernel=None)))
            if decision.lost:
                told = f"kernel {self.name!r}, {decision}: measure again with `kcl tune` and the program"
                faults.warn_once(f"tuned {self.name}", told)
        return decision

    def _decide(
        self,
        holder: Any,
        arguments: Mapping[str, Any],
        sizes: dict[str, int],
        types: dict[str, str],
        is_launch: bool,
    ) -> Decision:
        """Return the first choice that is valid here and whose code is what was measured; the look-up is the launch's."""
        table, build = self.table(holder), bindings_of(holder).build
        take = handle.code_for if is_launch else handle.code_seen
        is_known = table is not None and 0 not in sizes.values()
        rows = table.near(tuple(sizes.values()), self.variant) if table and is_known else []
        why, lost, unlike = "", "", table.lost if table and not table.rows else ""
        refusals = {
            said(row.choice): f"{row.outcome}: {row.detail}" for row in rows if row.outcome != "ok"
        }
        untuned, digests = self._untuned(table, sizes), dict[str, str]()
        default, wanted = said(untuned.choice), self.asked_at(sizes, untuned.choice) if rows else ""
        for row in rows:
            if reason := _unlike(row, types, wanted):
                unlike = unlike or f"{tables.measured(row, sizes)}, {reason}"
                continue
            is_same = row.variant == self.variant
            for choice, codes in row.served() if row.best or is_same else ():
                name = said(choice)
                decision = untuned._replace(choice=choice, row=row, lost=lost)
                if name == default and is_same and name not in refusals:
                    return decision
                if name not in refusals:
                    refusal = self.refusal(choice, sizes)
                    refusals[name] = f"is not valid here: {refusal}" if refusal else ""
                if refusals[name]:
                    is_gone = not self.space.has(choice)
                    lost = lost or (f"{name} {refusals[name]}" if is_gone else "")
                    why = why or f"{tables.measured(row, sizes, choice)}, {refusals[name]}"
                    continue
                if name not in digests and len(digests) >= _COMPARED:
                    continue
                decision = decision._replace(kernel=self.kernel_at(choice, sizes))
                try:
                    if name not in digests:
                        code = take(decision.kernel, holder, arguments)
                        digests[name] = tables.code_digest(build, *code)
                except Exception as error:
                    return decision._replace(error=error)
                if digests[name] in codes:
                    return decision
                if is_same and (not self._own.texts or tuple(sizes.values()) == row.sizes):
                    lost = lost or f"the code of {name} changed since it was measured"
                lost = lost or "this variant was not measured"
        return untuned._replace(why=why, lost=lost or unlike)

    def _untuned(self, table: ChoiceTable | None, sizes: dict[str, int]) -> Decision:
        choice = self.default_at(sizes)
        return Decision(self.kernel_at(choice, sizes), choice, sizes, None, table)

    def kernel_at(self, choice: Choice, sizes: Mapping[str, int]) -> Any:
        """Return the Kernel of a choice; of a recipe that asks for sizes itself, the variant for these."""
        made = self.made(choice)
        return (
            made.kernel_for(tuple(sizes.get(name, 0) for name in self._own.texts))
            if self._own.texts
            else made
        )

    def asked(self, holder: cl.Context | cl.CommandQueue, arguments: Mapping[str, Any]) -> Any:
        """Return the kernel for the sizes that are given by name, or by arrays."""
        return self._asked(holder, arguments).kernel

    def _asked(self, holder: Any, arguments: Mapping[str, Any]) -> Decision:
        pairs = zip(self._given(arguments), self._sizes(arguments), strict=True)
        sizes = self._whole(named or computed for named, computed in pairs)
        return self._decision(holder, arguments, sizes, is_launch=False)

    def _opened(self, holder: Any, device: cl.Device) -> ChoiceTable | None:
        """Return a table; its key is made from that of the recipe with its defaults, which may be unknown, or raise."""
        subject = None
        # The launch raises the error again.
        with suppress(Exception):
            subject = (
                None
                if tables.off()
                else handle.line_of(self.kernel_at(self.defaults, {})).generate.key()
            )
        if subject is None:
            return None
        build = bindings_of(holder).build
        pairs = zip(build.devices, build.identities, strict=True)
        identity = next((parts for (member, _), parts in pairs if member == device), None)
        # A part of a device: its context names the whole device only.
        if identity is None:
            return None
        free = [Part("free", name) for name in sorted(self.defaults)]
        texts = [Part(f"size {name}", text) for name, text in self.size_texts.items()]
        where = {"name": device.name, "driver": device.driver_version}
        place = tables.device_parts(identity, device.max_compute_units)
        key = tables.key_of(self.name, subject, [*free, *texts, *place])
        fixed = Part("given", f"{self.variant} {said(self.given)}")
        about = {
            "kernel": self.name,
            "names": list(self._names),
            "defaults": self.defaults,
            "device": where,
            "note": tables.note_of(self.function, [fixed, *free, *place]),
        }
        return tables.of(key, about)


def _plain(call: RecipeCall, sizes: Sizes) -> Any:
    own = _asked_by(call, sizes)
    return SizedKernel(call, own, handle, sizes) if own.texts else handle.of_call(call, sizes)


def _asked_by(call: RecipeCall, sizes: Sizes) -> Sizes:
    """Return the sizes that are parameters of the recipe; the others serve the space only."""
    parameters = inspect.signature(call.function).parameters
    return sizes._replace(
        texts={name: text for name, text in sizes.texts.items() if name in parameters}
    )


def _device(holder: cl.Context | cl.CommandQueue) -> cl.Device:
    return bindings_of(holder).device


def _unlike(row: Row, types: Mapping[str, str], asked: str) -> str:
    """Return why a row does not count for a call with these dtypes, and for this default; empty if it does."""
    if asked not in (row.codes or ("",)):
        return "beside another default"
    for name, text in row.dtypes.items():
        if types.get(name, "") != text:
            return f"with {name} of dtype {text or 'unknown'}, not {types.get(name, 'unknown')}"
    changed = changed_file(row.includes)
    return f"with another {changed}" if changed else ""
