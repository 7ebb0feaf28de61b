"""TunedKernel: the handle of a recipe with a space. A call is served the choice that was measured for its sizes.

    sizes of the call -> row of the table: of these sizes, else in the same power of two -> choice -> Kernel
                         no row, or none that is valid here                              -> the defaults

A row is valid if the space has its values now, and if every predicate holds for the sizes of this call: loopy checks no
assumption. A size is decided once a process. What was launched last is compared first.
"""

from __future__ import annotations

import ast
import inspect
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from kcl import handle
from kcl.base import process
from kcl.base.dtypes import dtype_text
from kcl.cache import layer, layers, lookup
from kcl.cache.key import Part
from kcl.errors import KclError, RecipeError
from kcl.generate.stage import dtypes_of
from kcl.line import bindings_of
from kcl.sized import UNKNOWN, SizedKernel, Sizes, code_of, whole_number
from kcl.tuning import table as tables
from kcl.tuning.space import Choice, Space, said
from kcl.tuning.table import ChoiceTable, Decision

if TYPE_CHECKING:
    from kcl.record.declarations import RecipeCall
    from kcl.tuning.tuner import Tuning

Untuned = Callable[["TunedKernel", cl.CommandQueue, dict[str, Any]], object]

_DECISIONS = 1024  # of a handle, found at once
_NOTED = 64  # of a process
_LOOKED = 4096  # candidates that are asked for a first valid one


class State:
    """The handles of this process, what was decided in it, and who tunes before a size is decided."""

    def __init__(self) -> None:
        self.handles: weakref.WeakSet[TunedKernel] = weakref.WeakSet()
        self.decided: list[tuple[str, Decision]] = []
        self.untuned: Untuned | None = None

    def on_change(self) -> None:
        """Decide again, as the tables lie in another place."""
        for one in list(self.handles):
            one.forget()


_state = process.own(State)


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
        self.space = space
        self.defaults: Choice = {name: call.arguments[name] for name in free}
        self.given = {
            name: call.arguments[name] for name in space.lists if name not in self.defaults
        }
        self.size_texts = sizes.texts
        self._own = _asked_by(call, sizes)
        self.has_variants = bool(self._own.texts)
        self._arrays = sorted({name for text in sizes.texts.values() for name in _arrays_in(text)})
        types = [f"{name}.dtype," for name in self._arrays]
        self._code = compile(f"{code_of(sizes.texts)}, ({' '.join(types)})", "<sizes>", "eval")
        self._made: dict[str, Any] = {}
        self._tables: dict[Any, ChoiceTable | None] = {}
        self._decisions: dict[Any, Decision] = {}
        self._launches: dict[Any, tuple[Any, Any]] = {}
        self._latest: tuple[Any, Any] = (
            None,
            None,
        )  # sizes and dtypes of a launch, and the line of its Kernel
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
            found = eval(self._code, self._beside, arguments)  # checked as the recipe was decorated
            latest = self._latest
            if latest[0] != found:
                latest = self._latest = self._launches[found]
            hot = queue._kcl_bindings.launchers[latest[1].sole, get_ident()].hot
        except UNKNOWN:
            hot = None
        if hot is not None and wait_for is None and out_host is None and not unnamed:
            result: tuple[Any, Any] | None = hot(queue, allocator, arguments)
            if result is not None:
                return result
        options = {"allocator": allocator, "wait_for": wait_for, "out_host": out_host}
        return self._decided(queue, unnamed, options, arguments)

    def bind(self, queue: cl.CommandQueue, **arguments: Any) -> Callable[..., cl.Event]:
        """Return `launch(**arguments)` as `Kernel.bind` does; it raises ValueError for sizes that its choice excludes.

        The choice is that for the sizes of these arguments. If it can be bound or launched no longer, the defaults are.
        """
        if not isinstance(queue, cl.CommandQueue):
            return self.made({}).bind(queue, **arguments)  # type: ignore[no-any-return]  # it raises the error
        sizes, fitting = self.sizes_of(arguments), set[Any]()

        def binding(one: Decision) -> tuple[Decision, Callable[..., cl.Event]]:
            return one, self.made(one.choice).bind(queue, **arguments)

        now = self._guarded(self._decision(queue, arguments, sizes), binding, queue, arguments)

        def launching(one: Decision, given: dict[str, Any]) -> cl.Event:
            nonlocal now
            if one is not now[0]:
                now = binding(one)
                fitting.clear()
            return now[1](**given)

        def launch(**given: Any) -> cl.Event:
            if (place := self._sizes(given)) not in fitting:
                here = self._whole(place)
                if (
                    here != sizes
                    and 0 not in here.values()
                    and (refusal := self.refusal(now[0].choice, here))
                ):
                    bound = f"{said(sizes)} with {said(now[0].choice)}, and not for {said(here)}"
                    raise ValueError(
                        f"kernel {self.name!r} is bound for {bound}, as {refusal}: bind again"
                    )
                fitting.add(place)
            return self._guarded(now[0], lambda one: launching(one, given), queue, given)

        return launch

    def explain(self, context_or_queue: cl.Context | cl.CommandQueue, **arguments: Any) -> str:
        """Say what each layer holds for the choice at these sizes, and which row of the table led to it."""
        decision, left = self._asked(context_or_queue, arguments)
        words: str = decision.kernel.explain(context_or_queue, **left)
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
        tolerance: float | None = None,
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
            for one in [one for one in _state().handles if one.name == self.name]:
                one.forget()

    def sizes_of(self, arguments: Mapping[str, Any]) -> dict[str, int]:
        """Return the sizes of a call by name; 0 for all if one cannot be known. Raises TypeError for no integer."""
        return self._whole(self._sizes(arguments))

    def default_at(self, sizes: Mapping[str, int]) -> Choice:
        """Return the choice that runs untuned: the defaults, or the first valid choice if a predicate refuses these."""
        if 0 in sizes.values() or not self.refusal(self.defaults, sizes):
            return self.defaults
        for choice in self.space.choices(self.given, sizes, _LOOKED):
            return choice
        layer.warn_once(
            f"no choice of {self.name} {sizes}",
            f"kernel {self.name!r} has no valid choice for {said(sizes)}, so the defaults {said(self.defaults)} run: "
            "look at the where of its space",
        )
        return self.defaults

    def refusal(self, choice: Mapping[str, Any], sizes: Mapping[str, int]) -> str:
        """Return why a choice does not serve these sizes; empty if it does."""
        if said(choice) != said(self.defaults) and not (
            choice.keys() == self.defaults.keys() and self.space.has(choice)
        ):
            return "a value is not in the space"
        return self.space.refusal({**self.given, **choice}, sizes)

    def made(self, choice: Mapping[str, Any]) -> Any:
        """Return the handle with a choice of the free parameters; memoised, and nothing is stored before its launch."""
        chosen = {name: choice.get(name, default) for name, default in self.defaults.items()}
        place = said(chosen)
        if place not in self._made:
            call = self._call._replace(arguments={**self._call.arguments, **chosen})
            self._made.setdefault(place, _plain(call, self._declared))
        return self._made[place]

    def table(
        self, holder: cl.Context | cl.CommandQueue, arguments: Mapping[str, Any]
    ) -> ChoiceTable | None:
        """Return the table for a device and the dtypes of a call; None if tuning is off, or the recipe has no key.

        Runs the recipe with the defaults.
        """
        place = self._place(holder, arguments)
        if place not in self._tables:
            self._tables[place] = self._opened(holder, *place)
        return self._tables[place]

    def forget(self) -> None:
        """Forget what was decided: the next call reads the table again."""
        self._latest = (None, None)
        self._made, self._tables, self._decisions, self._launches = {}, {}, {}, {}

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
        try:
            found = eval(self._code, self._beside, arguments)
        except UNKNOWN:
            found = None
        if unnamed or found is None or not isinstance(queue, cl.CommandQueue):
            kernel = self.kernel_at(self.defaults, {})
            return kernel(queue, *unnamed, **options, **arguments)  # type: ignore[no-any-return]  # it raises the error
        decision = self._decision(queue, arguments, self._whole(found[0]), is_launch=True)

        def launching(one: Decision) -> tuple[Any, Any]:
            result: tuple[Any, Any] = one.kernel(queue, **options, **arguments)
            if len(self._launches) >= _DECISIONS:
                self._launches.clear()
            self._latest = self._launches[found] = found, handle.line_of(one.kernel)
            return result

        return self._guarded(decision, launching, queue, arguments)  # type: ignore[no-any-return]

    def _guarded(
        self, decision: Decision, use: Callable[[Decision], Any], queue: Any, arguments: Any
    ) -> Any:
        """Use a choice; if that fails and the use of the defaults does not, mark the row, and leave it out from now on.

        The error is raised if some of several kernels may have been launched already.
        """
        try:
            return use(decision)
        except Exception as error:
            table, row = decision.table, decision.row
            is_asked = isinstance(error, KclError) and not isinstance(
                error, RecipeError
            )  # by KCL_STRICT
            if (
                is_asked
                or table is None
                or row is None
                or said(row.choice) == said(self.default_at(decision.sizes))
            ):
                raise
            began = handle.may_have_launched(decision.kernel, queue, arguments)
            result = (
                None if began else use(self._untuned(table, decision.sizes))
            )  # the error of a call is raised again
            words = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
            table.put(row._replace(outcome="no longer runs", detail=words))
            self._decisions = {
                place: one for place, one in self._decisions.items() if one.row is not row
            }
            reason = f"the tuned choice {said(row.choice)} no longer runs, the defaults do: {words}"
            lookup.report(layers.binary(), self.name, table.key, reason)
            if began:
                raise
            return result

    def _decision(
        self,
        holder: Any,
        arguments: Mapping[str, Any],
        sizes: dict[str, int],
        is_launch: bool = False,
    ) -> Decision:
        """Return what was decided for these sizes; decide it the first time."""
        place = (*self._place(holder, arguments), *sizes.values())
        found = self._decisions.get(place)
        if found is None:
            state = _state()
            if is_launch and state.untuned is not None:
                state.untuned(self, holder, dict(arguments))
            found = self._decide(self.table(holder, arguments), sizes)
            if len(self._decisions) >= _DECISIONS:
                self._decisions.clear()
            if is_launch or state.untuned is None:
                self._decisions[place] = found
            if is_launch and len(state.decided) < _NOTED:
                state.decided.append((self.name, found._replace(kernel=None)))
        return found

    def _decide(self, table: ChoiceTable | None, sizes: dict[str, int]) -> Decision:
        why, rows = (
            "",
            table.near(tuple(sizes.values()))
            if table is not None and 0 not in sizes.values()
            else [],
        )
        known = table.rows if table is not None and rows else []
        refusals = {
            said(one.choice): f"{one.outcome}: {one.detail}" for one in known if one.outcome != "ok"
        }
        for row in rows:
            name = said(row.choice)
            if name not in refusals:
                refusal = self.refusal(row.choice, sizes)
                refusals[name] = f"is not valid here: {refusal}" if refusal else ""
            if not refusals[name]:
                return Decision(self.kernel_at(row.choice, sizes), row.choice, sizes, row, table)
            why = why or f"{tables.measured(row, sizes)}, {refusals[name]}"
        return self._untuned(table, sizes, why)

    def _untuned(self, table: ChoiceTable | None, sizes: dict[str, int], why: str = "") -> Decision:
        choice = self.default_at(sizes)
        return Decision(self.kernel_at(choice, sizes), choice, sizes, None, table, why)

    def kernel_at(self, choice: Choice, sizes: Mapping[str, int]) -> Any:
        """Return the Kernel of a choice; of a recipe that asks for sizes itself, the variant for these."""
        made = self.made(choice)
        return (
            made.kernel_for(tuple(sizes.get(name, 0) for name in self._own.texts))
            if self._own.texts
            else made
        )

    def asked(
        self, holder: cl.Context | cl.CommandQueue, arguments: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        decision, left = self._asked(holder, arguments)
        return decision.kernel, left

    def _asked(self, holder: Any, arguments: dict[str, Any]) -> tuple[Decision, dict[str, Any]]:
        """Return the decision for sizes that are given by name, or by arrays, and the other arguments."""
        whole = {name for name in self._names if hasattr(type(arguments.get(name)), "__index__")}
        sizes = self._whole(
            arguments[name] if name in whole else value
            for name, value in zip(self._names, self._sizes(arguments), strict=True)
        )
        left = {name: value for name, value in arguments.items() if name not in whole}
        return self._decision(holder, left, sizes), left

    def _sizes(self, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the sizes of a call; 0 for all if one cannot be known, so that the defaults give the error."""
        try:
            return tuple(eval(self._code, self._beside, arguments)[0])
        except UNKNOWN:
            return (0,) * len(self._names)

    def _whole(self, values: Iterable[Any]) -> dict[str, int]:
        return {
            name: whole_number(self.name, name, one)
            for name, one in zip(self._names, values, strict=True)
        }

    def _place(
        self, holder: Any, arguments: Mapping[str, Any]
    ) -> tuple[cl.Device, tuple[tuple[str, str], ...]]:
        """Return the device, and the dtypes of the arrays that the sizes name."""
        device = (
            holder.device
            if isinstance(holder, cl.CommandQueue)
            else bindings_of(holder).build.devices[0][0]
        )
        types = dtypes_of({name: arguments[name] for name in self._arrays if name in arguments})
        return device, tuple((name, dtype_text(dtype)) for name, dtype in types.items())

    def _opened(
        self, holder: Any, device: cl.Device, types: tuple[tuple[str, str], ...]
    ) -> ChoiceTable | None:
        """Return a table; its key is made from that of the recipe with its defaults, which may be unknown, or raise."""
        subject = None
        with suppress(Exception):  # the launch raises it again
            subject = (
                None
                if tables.off()
                else handle.line_of(self.kernel_at(self.defaults, {})).generate.key()
            )
        if subject is None:
            return None
        build = bindings_of(holder).build
        identity = next(
            parts
            for (one, _), parts in zip(build.devices, build.identities, strict=True)
            if one == device
        )
        free = [Part("free", name) for name in sorted(self.defaults)]
        free += [Part(f"size {name}", text) for name, text in self.size_texts.items()]
        free += [Part(f"dtype {name}", text) for name, text in types]
        where = {"name": device.name, "driver": device.driver_version}
        return tables.of(
            tables.key_of(self.name, subject, free, identity, device.max_compute_units),
            {
                "kernel": self.name,
                "names": list(self._names),
                "defaults": self.defaults,
                "device": where,
            },
        )


def _plain(call: RecipeCall, sizes: Sizes) -> Any:
    own = _asked_by(call, sizes)
    return SizedKernel(call, own, handle, sizes) if own.texts else handle.of_call(call, sizes)


def _asked_by(call: RecipeCall, sizes: Sizes) -> Sizes:
    """Return the sizes that are parameters of the recipe; the others serve the space only."""
    parameters = inspect.signature(call.function).parameters
    return sizes._replace(
        texts={name: text for name, text in sizes.texts.items() if name in parameters}
    )


def _arrays_in(text: str) -> set[str]:
    """Return the names of the arrays in an expression: those whose shape it asks."""
    nodes = ast.walk(ast.parse(text, mode="eval"))
    return {ast.unparse(node.value) for node in nodes if isinstance(node, ast.Attribute)}
