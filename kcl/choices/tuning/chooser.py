"""`ByTable`, the chooser of a recipe with a space: a call gets the choice that was measured as fastest for its sizes.

    sizes of the call -> row of the table: of these sizes, else within a factor of two -> choice -> line
                         no row, or none that is valid and measured here               -> the defaults

A choice is *valid* if its values are in the space now, and if every predicate holds for the sizes of this call, since
loopy does not check assumptions. It is *measured* if the code that would run was compared when its row was made. The
decision for some sizes is made once in a process. A call first tries what was launched last.
"""

from __future__ import annotations

import inspect
import math
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast

import pyopencl as cl

from kcl.base import computed_once, events, process
from kcl.cache import faults, lookup
from kcl.cache.key import Part
from kcl.cache.lookup import Look, Searching, Stage
from kcl.choices.sizes import Sizes
from kcl.choices.sizes.chooser import BySizes, CallSizes
from kcl.choices.tuning import table as tables
from kcl.choices.tuning.space import Choice, Space, describe
from kcl.choices.tuning.table import ChoiceTable, Decision, Row
from kcl.code import Code, dtype_text
from kcl.errors import KclError, RecipeError, UnknownInput
from kcl.generate.stage import CallValues, dtypes_of
from kcl.launch import unpack
from kcl.line import Line, bindings_of, of_call
from kcl.programs.program_key import changed_file

if TYPE_CHECKING:
    from kcl.cache.layer import Layer
    from kcl.choices.tuning.tuner import Tuning
    from kcl.generate.declarations import RecipeCall
    from kcl.line import Launch

T = TypeVar("T")
Chooser: TypeAlias = "Line | BySizes | ByTable"
Untuned = Callable[["ByTable", cl.CommandQueue, dict[str, Any]], object]

_DECISIONS = 1024  # that a chooser remembers
# If the defaults are not valid, this many choices are searched for a valid one to run.
_LOOKED = 4096
# The most choices of a row whose code a launch generates to compare it. Each takes time, and after an upgrade of loopy
# the code of all of them may have changed.
_COMPARED = 3
_NAMED = 200  # characters of a variant
# Errors that may be gone at another time.
_PASSING = (MemoryError, cl.MemoryError, OSError)


class Choosers:
    """The choosers of this process, and the function that tunes before a decision, if one is set."""

    def __init__(self) -> None:
        # A dictionary by id and not a set: it can be listed in one step while other threads add to it.
        self.choosers: weakref.WeakValueDictionary[int, ByTable] = weakref.WeakValueDictionary()
        self.untuned: Untuned | None = None

    def on_change(self, name: str = "") -> None:
        """Forget all decisions, since the place of the tables has changed; with `name` only those of that recipe."""
        for chooser in filter(None, [place() for place in self.choosers.valuerefs()]):
            if name in ("", chooser.name):
                chooser.forget()


_state = process.own(Choosers)


def tune_untuned(tune: Untuned | None) -> None:
    """From now on call `tune` before a decision, with the arguments of the launch that needs it; None ends that."""
    _state().untuned = tune


def chooser_of(call: RecipeCall, space: Space, sizes: Sizes | None, named: set[str]) -> Chooser:
    """Return the chooser of a recipe with a space; `named` are the parameters that the caller has given."""
    free = [name for name in space.lists if name not in named]
    sizes = sizes or Sizes({})
    if free:
        return ByTable(call, space, sizes, free)
    return BySizes(call, sizes) if sizes.of_recipe(call.function).texts else of_call(call, sizes)


class ByTable:
    """The chooser of a recipe with a space. `free` are the parameters that it chooses."""

    def __init__(self, call: RecipeCall, space: Space, sizes: Sizes, free: list[str]) -> None:
        arguments = call.arguments
        fixed = {name: value for name, value in arguments.items() if name not in free}
        self.name, self.function, self.parameters = call.name, call.function, fixed
        self.sizes, self.space = sizes, space
        self.defaults: Choice = {name: arguments[name] for name in free}
        self.given = {name: fixed[name] for name in space.lists if name in fixed}
        # The sizes that the recipe takes. The others are for the table and for predicates only.
        self._own = sizes.of_recipe(call.function)
        self.has_variants = bool(self._own.texts)
        self._call = call
        self._call_sizes = CallSizes(call.name, sizes.texts)
        self._exact = self._call_sizes.exact
        self._offered: set[Any] = set()  # to `kcl tune`
        self.forget()
        _state().choosers[id(self)] = self

    def forget(self) -> None:
        """Forget all decisions; the next call reads the table again."""
        self._made: dict[str, BySizes] = {}
        self._tables: dict[Any, ChoiceTable | None] = {}
        self._decisions: dict[Any, Decision] = {}
        # (sizes, digest of the code, device) of the last launch, and of the last one for each sizes and device.
        self._latest: tuple[Any, str, Any] = (None, "", None)
        self._launches: dict[Any, tuple[Any, str, Any]] = {}

    @property
    def state(self) -> str:
        """The parameters that are chosen."""
        return f"chooses {', '.join(self.defaults)}"

    def last(self, device: cl.Device, arguments: Mapping[str, Any]) -> str:
        """Return the digest of the code that was launched last on a device with these sizes."""
        sizes, latest = self._exact(arguments), self._latest
        if latest[0] != sizes or latest[2] is not device:
            latest = self._latest = self._launches[sizes, device]
        return latest[1]

    def general(self) -> Line:
        """Return the line of the defaults."""
        return self.line_at(self.defaults, {})

    def use(self, queue: Any, arguments: Mapping[str, Any], launch: Callable[[Line], T]) -> T:
        """Launch the choice for the sizes of a call; it is decided if these are new."""
        computed = self._call_sizes.compute(arguments)
        sizes = self._call_sizes.check_whole(computed)
        if 0 in sizes.values() or not isinstance(queue, cl.CommandQueue):
            # A wrong call: the launch raises the error.
            return launch(self.line_at(self.defaults, sizes))

        def launch_decided(decision: Decision) -> T:
            result = launch(decision.line)
            # After a block with the layer off, calls must not try first what ran in the block.
            if not decision.in_block:
                if len(self._launches) >= _DECISIONS:
                    self._launches.clear()
                device = bindings_of(queue).device
                # One tuple set in one step, so that other threads see the old or the new launch.
                latest = computed, decision.line.sole, device
                self._latest = self._launches[computed, device] = latest
            return result

        decision = self._find_decision(queue, arguments, sizes)
        return self._use_or_default(decision, launch_decided, queue, arguments)

    def bind(
        self, queue: cl.CommandQueue, arguments: dict[str, Any], bind: Callable[[Line], Launch]
    ) -> Launch:
        """Bind the choice for these sizes; the function raises ValueError for sizes that a `where` refuses.

        If the choice cannot be bound or launched any more, or if it gets sizes beyond a factor of two of its row, the
        defaults are bound from then on.
        """
        sizes, fitting = self.sizes_of(arguments), set[Any]()

        def bind_decided(decision: Decision) -> tuple[Decision, Launch]:
            return decision, self._variants(decision.choice).bind(queue, arguments, bind)

        first = self._find_decision(queue, arguments, sizes)
        bound = self._use_or_default(first, bind_decided, queue, arguments)

        def launch(**values: Any) -> cl.Event:
            nonlocal bound
            if (computed := self._call_sizes.compute(values)) not in fitting:
                here, row = self._call_sizes.check_whole(computed), bound[0].row
                # If the row was measured too far from these sizes, the defaults take over.
                if row and row.best and not tables.is_near(tuple(here.values()), row):
                    bound = bind_decided(self.decide_default(bound[0].table, sizes))
                choice = bound[0].choice
                why = self.refusal(choice, here) if here != sizes else ""
                if why and 0 not in here.values():
                    raise ValueError(
                        f"kernel {self.name!r} is bound for {describe(sizes)} with {describe(choice)}, "
                        f"and not for {describe(here)}, as {why}: bind again"
                    )
                fitting.add(computed)

            def launch_decided(decision: Decision) -> cl.Event:
                nonlocal bound
                # Another decision than before means that the choice failed, and that the defaults take over.
                if decision is not bound[0]:
                    bound = bind_decided(decision)
                    fitting.clear()
                return bound[1](**values)

            return self._use_or_default(bound[0], launch_decided, queue, values)

        return launch

    def asked(
        self, holder: cl.Context | cl.CommandQueue, values: Mapping[str, Any]
    ) -> tuple[Line, Callable[[], list[str]]]:
        """Return the line of the choice for sizes, given by name or by arrays, and a function that explains the choice."""
        pairs = zip(
            self._call_sizes.read_named(values), self._call_sizes.compute(values), strict=True
        )
        sizes = self._call_sizes.check_whole(named or computed for named, computed in pairs)
        decision = self._find_decision(holder, values, sizes, is_launch=False)

        def why() -> list[str]:
            table, other = decision.table, ""
            if table is not None and not table.rows:
                from kcl.choices.tuning import views

                other = views.elsewhere(self.name, table.key)
            return [f"  tuning: {decision}{other}"]

        return decision.line, why

    def tune(
        self, queue: cl.CommandQueue, arguments: dict[str, Any], *options: Any, **named: Any
    ) -> Tuning:
        """Measure the choices with these arguments, and use the fastest from now on; for options see `tuner.tune`."""
        from kcl.choices.tuning import tuner

        try:
            return tuner.tune(self, queue, arguments, *options, **named)
        finally:
            # Other Kernels of the recipe must read the table again too.
            _state().on_change(self.name)

    def sizes_of(self, arguments: Mapping[str, Any]) -> dict[str, int]:
        """Return the sizes of a call by name; all 0 if one cannot be computed.

        Raises TypeError if a size is no integer, or if an argument in an expression is missing.
        """
        for name in self.sizes.arguments:
            if name not in arguments and name not in self.sizes.texts:
                raise TypeError(f"kernel {self.name!r}: missing argument {name!r}")
        return self._call_sizes.check_whole(self._call_sizes.compute(arguments))

    def default_at(self, sizes: Mapping[str, int]) -> Choice:
        """Return the choice without tuning: the defaults, or the first valid choice if a predicate refuses these.

        Raises RecipeError if none of the first `_LOOKED` choices is valid.
        """
        if 0 in sizes.values() or not (refusal := self.refusal(self.defaults, sizes)):
            return self.defaults
        for choice in self.space.choices(self.given, sizes, _LOOKED):
            return choice
        is_whole = math.prod(len(self.space.lists[name]) for name in self.defaults) <= _LOOKED
        among, others = ("", "all") if is_whole else (f" among its first {_LOOKED}", "these")
        raise RecipeError(
            f"kernel {self.name!r} has no valid choice for {describe(sizes)}{among}: for its default "
            f"{describe(self.defaults)} {refusal}, and so for {others} others; give the space a choice for these sizes, "
            "or correct the where"
        )

    def digest_default(self, sizes: Mapping[str, int], choice: Choice) -> str:
        """Return the digest of the default's key parts at these sizes; empty if the key of the table has them."""
        if choice is self.defaults and not self._own.texts:
            return ""
        return tables.digest_questions(self.line_at(choice, sizes).generate.key())

    @computed_once
    def variant(self) -> str:
        """The given parameters outside of the space that differ from the function's defaults, as a text."""
        parameters = inspect.signature(self.function).parameters
        texts = [
            f"{name}={value!r}"
            for name, value in self._call.arguments.items()
            if name not in self.space.lists and repr(value) != repr(parameters[name].default)
        ]
        # A text with an address differs in each process.
        return ", ".join(text for text in texts if " at 0x" not in text)[:_NAMED]

    def refusal(self, choice: Mapping[str, Any], sizes: Mapping[str, int]) -> str:
        """Return why a choice is not valid for these sizes; empty if it is."""
        if describe(choice) != describe(self.defaults) and not (
            choice.keys() == self.defaults.keys() and self.space.has(choice)
        ):
            return "a value is not in the space"
        return self.space.refusal({**self.given, **choice}, sizes)

    def line_at(self, choice: Choice, sizes: Mapping[str, int]) -> Line:
        """Return the line of a choice for these sizes."""
        return self._variants(choice).line_for(
            tuple(sizes.get(name, 0) for name in self._own.texts)
        )

    def _variants(self, choice: Choice) -> BySizes:
        # In a local variable, since another thread may replace the dictionary.
        name, made = describe(choice), self._made
        if name not in made:
            call = self._call._replace(arguments={**self._call.arguments, **choice})
            made.setdefault(name, BySizes(call, self.sizes))
        return made[name]

    def table(self, holder: cl.Context | cl.CommandQueue) -> ChoiceTable | None:
        """Return the table for a device; None if the recipe has no key. Runs the recipe with the defaults."""
        # In a local variable, since another thread may replace the dictionary.
        device, opened = bindings_of(holder).device, self._tables
        if device not in opened:
            opened[device] = self._open_table(holder, device)
        return opened[device]

    def _use_or_default(
        self, decision: Decision, use: Callable[[Decision], T], queue: Any, arguments: Any
    ) -> T:
        """Use a choice; if it fails and the defaults do not, use these and leave the choice out from now on.

        If it failed for lack of memory or of a file, the next call tries it again. If the program has several kernels, of
        which some may have been launched already, the error is raised.
        """
        try:
            if decision.error is not None:
                raise decision.error
            return use(decision)
        except Exception as error:
            table, row = decision.table, decision.row
            # An error that the user has asked for by `KCL_STRICT`.
            is_of_kcl = isinstance(error, KclError) and not isinstance(error, RecipeError)
            default = self.default_at(decision.sizes)
            is_default = describe(decision.choice) == describe(default)
            if is_of_kcl or is_default or table is None or row is None:
                raise
            if _may_have_launched(decision.line, queue, arguments):
                self._leave_out(decision.choice, row, table, error)
                raise
            # If the call itself is wrong, and not the choice, this raises too.
            result = use(self.decide_default(table, decision.sizes))
            self._leave_out(decision.choice, row, table, error)
            return result

    def _leave_out(self, choice: Choice, row: Row, table: ChoiceTable, error: Exception) -> None:
        """Report a choice that failed, and remove it from its row unless the error may be gone at another time."""
        name, is_passing = describe(choice), isinstance(error, _PASSING)
        does_not = "does not run now" if is_passing else "no longer runs"
        words = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
        reason = f"the tuned choice {name} {does_not}, the defaults do: {words}"
        if not is_passing:
            if name == describe(row.choice):
                row = row._replace(outcome=does_not, detail=words)
            best = tuple(ranked for ranked in row.best if describe(ranked.choice) != name)
            table.put(row._replace(best=best))
            self._decisions = {}
            self._warn(reason)
        lookup.report_error(tables.layer(), self.name, table.key, reason)

    def _warn(self, words: str) -> None:
        told = f"kernel {self.name!r}: {words}; measure again with `kcl tune` and the program"
        faults.warn_once(f"tuned {self.name}", told)

    def _find_decision(
        self,
        holder: Any,
        arguments: Mapping[str, Any],
        sizes: dict[str, int],
        is_launch: bool = True,
    ) -> Decision:
        """Return the decision for these sizes and dtypes; the first time it is made, and reported if it is for a launch."""
        types = {}
        # A text that is no dtype: the launch raises the error.
        with suppress(TypeError):
            types = {name: dtype_text(dtype) for name, dtype in dtypes_of(arguments).items()}
        # Decisions within a block with the layer off hold only for such blocks.
        in_block = tables.layer().off() == "kcl.disabled()"
        device = bindings_of(holder).device
        question = (is_launch, in_block, device, *types.items(), *sizes.values())
        decision, state = self._decisions.get(question), _state()
        if decision is not None:
            return decision
        if is_launch and state.untuned is not None and question not in self._offered:
            self._offered.add(question)
            state.untuned(self, holder, dict(arguments))
        # Raises if no choice is valid.
        untuned = self.decide_default(None, sizes)._replace(in_block=in_block)
        case = TuningCase(self, holder, arguments, sizes, types, is_launch, untuned)
        # Only look-ups of launches are counted.
        if is_launch:
            decision = cast("Decision", lookup.obtain(_STAGE, case, self.general().lead()))
        else:
            look = lookup.find(_STAGE, case)
            decision = look.value or _STAGE.make(case, look).value
        # After an error the next call decides anew.
        if decision.error is None:
            if len(self._decisions) >= _DECISIONS:
                self._decisions.clear()
            self._decisions[question] = decision
            if is_launch:
                events.remark(f"{tables.MARK}{self.name}: {decision}")
                if decision.lost:
                    self._warn(str(decision))
        return decision

    def decide(self, case: TuningCase, table: ChoiceTable) -> Decision:
        """Return the decision for the first choice that is valid and whose code was measured; else for the defaults."""
        sizes, values = case.sizes, tuple(case.sizes.values())
        is_known, build = 0 not in values, bindings_of(case.holder).build
        rows = table.near(values, self.variant) if is_known else []
        # Why no row is used; what the user should know of a measured choice that is not used; the same for a whole row.
        why, lost, unlike = "", "", "" if table.rows else table.lost
        refusals = {
            describe(row.choice): f"{row.outcome}: {row.detail}"
            for row in rows
            if row.outcome != "ok"
        }
        untuned, digests = case.untuned._replace(table=table), dict[str, str]()
        default = describe(untuned.choice)
        default_digest = self.digest_default(sizes, untuned.choice) if rows else ""
        for row in rows:
            if reason := _unlike(row, case.types, default_digest):
                unlike = unlike or f"{tables.describe_row(row, sizes)}, {reason}"
                continue
            is_same = row.variant == self.variant
            # That the default won says nothing about another variant.
            for choice, codes in row.served() if row.best or is_same else ():
                name = describe(choice)
                decision = untuned._replace(choice=choice, row=row, lost=lost)
                if name == default and is_same and name not in refusals:
                    return decision
                if name not in refusals:
                    refusal = self.refusal(choice, sizes)
                    refusals[name] = f"is not valid here: {refusal}" if refusal else ""
                if refusals[name]:
                    is_gone = not self.space.has(choice)
                    lost = lost or (f"{name} {refusals[name]}" if is_gone else "")
                    why = why or f"{tables.describe_row(row, sizes, choice)}, {refusals[name]}"
                    continue
                if name not in digests and len(digests) >= _COMPARED:
                    continue
                decision = decision._replace(line=self.line_at(choice, sizes))
                try:
                    if name not in digests:
                        code = _code(decision.line, case)
                        digests[name] = tables.code_digest(build, *code)
                except Exception as error:
                    # `_use_or_default` tries the defaults then.
                    return decision._replace(error=error)
                if digests[name] in codes:
                    return decision
                # Only then: at other sizes a recipe that takes sizes has other code anyway.
                if is_same and (not self._own.texts or values == row.sizes):
                    lost = lost or f"the code of {name} changed since it was measured"
                lost = lost or "this variant was not measured"
        nearest = table.nearest(values) if is_known else None
        if nearest is None:
            why = "nothing is measured"
        elif not rows:
            why = f"no row is within a factor of two; the nearest is {tables.describe_row(nearest, sizes)}"
        return untuned._replace(why=why or "no row is of this variant", lost=lost or unlike)

    def decide_default(self, table: ChoiceTable | None, sizes: dict[str, int]) -> Decision:
        """Return the decision for the defaults; raises RecipeError if no choice is valid."""
        choice = self.default_at(sizes)
        return Decision(self.line_at(choice, sizes), choice, sizes, None, table)

    def _open_table(self, holder: Any, device: cl.Device) -> ChoiceTable | None:
        """Return the table for a device; None if the recipe with its defaults has no key, or for a sub-device."""
        subject = None
        # An error of the recipe is raised again by the launch.
        with suppress(Exception):
            subject = self.general().generate.key()
        if subject is None:
            return None
        build = bindings_of(holder).build
        pairs = zip(build.devices, build.identities, strict=True)
        identity = next((parts for (member, _), parts in pairs if member == device), None)
        # A sub-device, which its context does not list.
        if identity is None:
            return None
        free = [Part("free", name) for name in sorted(self.defaults)]
        texts = [Part(f"size {name}", text) for name, text in self.sizes.texts.items()]
        place = tables.device_parts(identity, device.max_compute_units)
        key = tables.make_key(self.name, subject, [*free, *texts, *place])
        fixed = Part("given", f"{self.variant} {describe(self.given)}")
        about = {
            "kernel": self.name,
            "names": list(self.sizes.texts),
            "defaults": self.defaults,
            "device": {"name": device.name, "driver": device.driver_version},
            "platform": {"name": device.platform.name, "version": device.platform.version},
            "note": tables.name_note(self.function, [fixed, *free, *place]),
        }
        return ChoiceTable(key, about)


class TuningCase(NamedTuple):
    """A call of a recipe with a space, for the tuning layer: its sizes, and the dtypes of its arguments as texts.

    Made by a chooser; ends in its decision. `is_launch` is False for a question without a launch. `untuned` is the
    decision if no row is used.
    """

    chooser: ByTable
    holder: cl.Context | cl.CommandQueue
    arguments: Mapping[str, Any]
    sizes: dict[str, int]
    types: dict[str, str]
    is_launch: bool
    untuned: Decision


class TuningStage(Stage[TuningCase]):
    """The look-up of a decision. If no row is used it is no miss: the outcome is "default" and nothing is made."""

    __slots__ = ()
    required = False

    @property
    def layer(self) -> Layer:
        """The tuning layer."""
        return tables.layer()

    def name(self, job: TuningCase) -> str:
        """Return the name of the kernel."""
        return job.chooser.name

    def search(self, job: TuningCase) -> Searching:
        """Read the table and decide. An error of the user's code is kept in the decision, and raised when that is used."""
        table = job.chooser.table(job.holder)
        if table is None:
            raise UnknownInput("its key is unknown")
        answer = yield table.address, table.key
        if answer.entry is not None:
            table.take(answer.entry)
        try:
            decision = job.chooser.decide(job, table)
        except Exception as error:
            decision = job.untuned._replace(table=table, error=error)
        look = Look("default", str(decision), table.key, value=decision, size=answer.size)
        if answer.outcome == "error" and not table.rows:
            return look._replace(outcome="error", reason=answer.reason)
        if decision.row is None or decision.error is not None or answer.entry is None:
            return look
        return look._replace(
            outcome="hit", slots=((table.address, table.key),), entries=(answer.entry,)
        )

    def load(self, _job: TuningCase, look: Look) -> Look:
        """Return the look, which has the decision already."""
        return look

    def make(self, job: TuningCase, look: Look) -> Look:
        """Decide for the defaults, since the layer is off or cannot be read."""
        return look._replace(value=look.value or job.untuned._replace(why=look.reason))


_STAGE = TuningStage()


def _code(line: Line, case: TuningCase) -> tuple[Code, str]:
    """Return the code for a case, and the digest of its headers.

    For a launch this is its look-up. Else no look-up is counted and nothing is stored.
    """
    call = CallValues(dict(case.arguments), launch=case.is_launch)
    if case.is_launch:
        with line.lead() as lead:
            ready = line.code(case.holder, call, lead)
        return ready.code, ready.headers.partition(" ")[0]
    look = lookup.find(line.generate, call)
    code = look.value.code if look.outcome == "hit" else line.generate.unstored(call)
    return code, bindings_of(case.holder).build.headers_digest(code.text)


def _may_have_launched(line: Line, queue: cl.CommandQueue, arguments: dict[str, Any]) -> bool:
    """Return True if a failed call may have launched some of several kernels."""
    flat = unpack(line.packed, arguments) if line.packed else arguments
    several = any(len(ready.code.text.kernels) > 1 for ready in line.ready.values())
    return several and line.find_launcher(queue, flat) is not None


def _unlike(row: Row, types: Mapping[str, str], default_digest: str) -> str:
    """Return why a row does not apply to a call with these dtypes and this default; empty if it does."""
    if default_digest not in (row.codes or ("",)):
        return "beside another default"
    for name, text in row.dtypes.items():
        if types.get(name, "") != text:
            return f"with {name} of dtype {text or 'unknown'}, not {types.get(name, 'unknown')}"
    changed = changed_file(row.includes)
    return f"with another {changed}" if changed else ""
