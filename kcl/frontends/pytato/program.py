"""What stands in the place of pytato's functions: the calls that make the unit of a graph are recorded.

`generate_loopy` is a record of the graph, and a transformation of the unit is one of the unit and of what transforms it.
A record that an earlier run carried out waits: its proof has the bound arguments, and where the unit was launched the
identity of the unit, which leads to its code. A question that only the unit answers makes the unit.
"""

from __future__ import annotations

import copy
import functools
import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from kcl.base import hide_from_warnings, process, settings
from kcl.cache import layers
from kcl.errors import RecipeError, UnknownInput
from kcl.frontends.loopy import executor, making, moment, proofs, recorder, texts, unmade
from kcl.frontends.loopy.callables.content import Content
from kcl.frontends.loopy.plain import StandIn
from kcl.frontends.loopy.record import CallSite, Record, site
from kcl.frontends.pytato import transform
from kcl.frontends.pytato.graph import Graph, digest
from kcl.generate import thread

Function = Callable[..., Any]
_PROGRAMS = "target.loopy.BoundPyOpenCLProgram", "target.loopy.BoundPyOpenCLExecutable"
_MOST = 3  # graphs that differ in numbers alone: the stages of a Runge-Kutta step have two
NEEDED = (
    "generate_loopy",
    f"{_PROGRAMS[0]}.bind_to_context",
    f"{_PROGRAMS[1]}.with_transformed_translation_unit",
)


def replacements(package: Any) -> list[tuple[Any, str, Any]]:
    """Return the replacements of pytato's functions, and of the look-ups in caches of units: (holder, name, value)."""
    kinds = importlib.import_module("pytato.target.loopy")
    caches = importlib.import_module("pytools.persistent_dict")
    program, executable = kinds.BoundPyOpenCLProgram, kinds.BoundPyOpenCLExecutable
    rows = [
        (package, "generate_loopy", _generating),
        (program, "bind_to_context", _binding),
        (executable, "with_transformed_translation_unit", _transforming),
        (executable, "__call__", _launching),
        *[
            (kind, name, make)
            for kind in (caches.PersistentDict, caches.WriteOncePersistentDict)
            for name, make in (("fetch", _fetching), ("store", _storing))
        ],
    ]
    replaced = []
    for holder, name, make in rows:
        own = getattr(holder, name)
        replaced.append((holder, name, functools.wraps(own)(make(own))))
        hide_from_warnings(replaced[-1][2])
    return replaced


class _Described(StandIn):
    """What a call gets beside units, by its text alone."""

    def __init__(self, text: str) -> None:
        self._text = text

    def text(self) -> str:
        """Return the text."""
        return self._text


class GraphRecord(Record):
    """A call that makes or transforms the unit of a graph, of loopy's own units and of what it `holds` beside them.

    `carry_out` gets what it holds, and the units; `count` returns what that counts by.
    """

    def __init__(
        self,
        function: str,
        carry_out: Function,
        units: tuple[Any, ...],
        holds: Any,
        count: Callable[[Any], dict[str, Any]],
        name: str,
    ) -> None:
        place, now = site() or CallSite(sys._getframe()), moment.now()
        counted = {**count(holds), "structures": Content(str(now.structures), (), "")}
        keywords = {key: _Described(content.exact()) for key, content in counted.items()}
        super().__init__(function, units, keywords, now, place)
        self.described = (*counted.values(),)
        self.holds, self._count = holds, count
        self.call = lambda *real: carry_out(self.holds, *real)
        self._name = name
        # What it holds may lead to any code.
        self.finds_unit = self.may_change = True
        self.unkept = next((unit.unkept for unit in self.inputs if unit.unkept), "")

    def hand_out(self) -> None:
        """Let go the data of the graph: the program has them as long as it lives, and its unit may live longer."""
        graph = self.described[0]
        if isinstance(graph, Graph) and graph.nodes:
            bare = graph.without_data()
            self.holds = bare.root, self.holds[1]
            self.described = (bare, *self.described[1:])

    def kernel(self) -> str:
        """Return the name that the program gave the kernel."""
        return self._name

    def _carried_out(self, carry_out: Function) -> Any:
        """Call pytato, or what transforms a unit; nothing is kept where the key may not hold what decides the outcome.

        A record that waited is carried out with what its call got. Raises RecipeError if the program has changed since
        what else decides the unit: another unit would give other numbers.
        """
        units = texts.mapped(self.arguments, texts.real)
        unkept = [unit.unkept for unit in self.inputs]
        if self.waits and self._is_changed():
            raise RecipeError(
                f"the unit of {self.kernel()!r} is made only now, and the program has changed since {self.place} what "
                f"{self.function} counts by there: run with KCL_NO_CACHE=graph, or change it before that call"
            )
        with thread.having(reads=_Reads()), transform.noting_messages(self.holds) as asked:
            made = carry_out(self, units, {})
            unkept.append(thread.reads.reason())
        unkept += [f"it asks a communicator for {name!r}, as other ranks may do" for name in asked]
        if self.inputs and not self.waits and self._is_changed():
            unkept.append("the transformation changes what it holds")
        self.unkept = next(filter(None, [self.unkept, *unkept]), "")
        return made

    def _is_changed(self) -> bool:
        try:
            counted = self._count(self.holds)
        except UnknownInput:
            return True
        return any(one.exact() != self.keywords[key].text() for key, one in counted.items())


class _Reads:
    """What a call reads and stores in pytools' dictionaries on disk.

    A unit in one misses, because its key leaves out the code that made it. Anything else decides the outcome, and no key
    holds it.
    """

    def __init__(self) -> None:
        self.stored: list[tuple[Any, Any, Any]] = []
        self.missed: list[tuple[Any, Any]] = []
        self.others = False  # whether something else was read

    def stored_at(self, owner: Any, key: Any) -> list[Any]:
        """List what the call stored under a key, the last first."""
        return [value for one, other, value in self.stored[::-1] if one is owner and other == key]

    def reason(self) -> str:
        """Return why the outcome of the call is not kept."""
        is_read = self.others or not all(self.stored_at(*pair) for pair in self.missed)
        return "it reads a dictionary on disk" if is_read else ""


def _has_unit(key: Any) -> bool:
    """Return True for a unit or kernel, and for a tuple that holds one."""
    loopy = sys.modules["loopy"]
    if isinstance(key, tuple):
        return any(map(_has_unit, key))
    return isinstance(key, (loopy.TranslationUnit, loopy.LoopKernel))


def _fetching(own: Function) -> Function:
    def fetch(self: Any, key: Any) -> Any:
        reads: _Reads | None = thread.reads
        if reads is None:
            return own(self, key)
        if stored := reads.stored_at(self, key):
            return stored[0]
        absent = sys.modules["pytools.persistent_dict"].NoSuchEntryError
        try:
            value = own(self, key)
            if isinstance(value, sys.modules["loopy"].TranslationUnit):
                raise absent(key)
        except absent:
            # A memo of units need not store what it missed.
            if not _has_unit(key):
                reads.missed.append((self, key))
            raise
        reads.others = True
        return value

    return fetch


def _storing(own: Function) -> Function:
    def store(self: Any, key: Any, value: Any, *more: Any, **others: Any) -> Any:
        reads: _Reads | None = thread.reads
        try:
            return own(self, key, value, *more, **others)
        except sys.modules["pytools.persistent_dict"].ReadOnlyEntryError:
            if reads is None:  # else the entry that was missed is there
                raise
        finally:
            if reads is not None:
                reads.stored.append((self, key, value))

    return store


def _recorded(make: Callable[[], Any], function: str) -> Any:
    """Return what `make` returns; None where calls are not recorded, or no key holds what the call gives."""
    if not recorder.is_on() or settings.GRAPH in layers.generator().options.no_cache:
        return None
    try:
        return make()
    except Exception as error:
        recorder.refused(function, error, site())
        return None


def _generating(own: Function) -> Function:
    def generate_loopy(result: Any, target: Any = None, options: Any = None, **more: Any) -> Any:
        def carry_out(held: Any) -> Any:
            program = own(held[0], target, held[1], **more)
            places = {id(data): place for place, data in enumerate(record.described[0].data)}
            arguments = program.bound_arguments.items()
            bound = [[name, places.get(id(data))] for name, data in arguments]
            record.facts["bound"] = bound
            if any(place is None for _name, place in bound):  # data that the graph does not hold
                record.keeps_arguments = None
            if not record.waits:  # the call below takes it; nobody would take it later
                made.append(program)
            return program.program

        made = list[Any]()
        recorded = _recorded(
            lambda: _of_graph(carry_out, (_ordered(result), options), target, more),
            "generate_loopy",
        )
        if recorded is None:
            return own(result, target, options, **more)
        record, graph, aim = recorded
        unit = unmade.answer(record)
        # The program may change its options before it asks for the unit.
        record.holds = graph.root, copy.copy(options)
        own_program = made.pop() if made else None
        if record.keeps_arguments is None:
            return own_program
        bound = {name: graph.data[place] for name, place in record.facts["bound"]}
        program = sys.modules["pytato.target.loopy"].BoundPyOpenCLProgram
        return program(program=unit, bound_arguments=bound, target=aim)

    return generate_loopy


def _ordered(result: Any) -> Any:
    """Return outputs in the order of their names, in a dictionary that the program does not hold.

    Their order decides names of arguments alone; pytato takes it from sets where it parts a graph.
    """
    held: Any = result if isinstance(result, dict) else getattr(result, "_data", None)
    if not isinstance(held, Mapping):
        return result
    make: Any = type(held)
    ordered = make(sorted(held.items()))
    if held is result:
        return ordered
    outputs = copy.copy(result)
    vars(outputs)["_data"] = ordered
    return outputs


def _of_graph(
    carry_out: Function, holds: Any, target: Any, more: dict[str, Any]
) -> tuple[GraphRecord, Graph, Any] | None:
    """Return the record of a call with its graph and its target; None for a call that binds no program to a context."""
    kind = sys.modules["pytato.target.loopy"].LoopyPyOpenCLTarget
    aim: Any = kind() if target is None else target
    if not getattr(holds[1], "no_numpy", False) or not isinstance(aim, kind):
        return None
    if getattr(type(aim), "bind_program", None) is not getattr(kind, "bind_program", None):
        return None

    def count(held: Any) -> dict[str, Any]:
        call = transform.of_call([sorted(more.items()), aim, held[1]])
        return {"graph": digest(held[0]), "call with its packages": call}

    name = str(more.get("function_name", "_pt_kernel"))
    record = GraphRecord("generate_loopy", carry_out, (), holds, count, name)
    graph: Graph = record.described[0]
    form = texts.digest([graph.form, *[value.exact() for value in record.described[1:]]])
    record.group = proofs.group(f"graph {form}")
    # The graph has a key.
    proofs.use()
    record.unkept = _unkept(record, graph, form)
    return record, graph, aim


class MetGraphs(dict[str, list[list[str]]]):
    """The numbers of the first graphs that this process met, by what the graphs have in common."""

    on_change = dict.clear


_met = process.own(MetGraphs)


def _unkept(record: GraphRecord, graph: Graph, form: str) -> str:
    """Return why code of a graph is not kept: a program whose numbers change at each step would fill the cache."""
    first = _met().setdefault(form, [])
    if len(first) < _MOST and graph.numbers not in first:
        first.append(graph.numbers)
    if graph.numbers in first or proofs.find(record.digest, record.group) is not None:
        return ""
    values = [[*dict.fromkeys(column)] for column in zip(*first, strict=True)]
    place, changing = max(enumerate(values), key=lambda pair: len(pair[1]))
    numbers = ", ".join([number.rpartition("(")[2].partition(")")[0] for number in changing])
    return (
        f"a run keeps the first {_MOST} graphs that differ in numbers alone, and a number of this one changes: "
        f"{numbers}, ...{graph.place_of(place)}; make it an argument of the compiled function, or an array: "
        "actx.from_numpy(np.array(number))"
    )


def _record_of(program: Any) -> Any:
    """Return the record of a unit, or of that of an executor; None for any other unit."""
    unit = executor.unit_of(program) if type(program) is executor.Executor else program
    record = unmade.record_of(unit)
    return record if isinstance(record, GraphRecord) else None


def _binding(own: Function) -> Function:
    def bind_to_context(self: Any, context: Any, allocator: Any = None) -> Any:
        array = sys.modules["pyopencl.array"].Array
        is_on_device = all(isinstance(bound, array) for bound in self.bound_arguments.values())
        if _record_of(self.program) is None or not is_on_device:
            return own(self, context, allocator)
        return _executable(self.program, self.bound_arguments, self.target, context)

    return bind_to_context


def _executable(unit: Any, bound: Any, target: Any, context: Any) -> Any:
    names = vars(sys.modules["pytato.target.loopy"])
    # pytato's own class of mappings was immutabledict before it was constantdict.
    kind = names.get("constantdict") or names.get("immutabledict") or dict
    launcher = executor.Executor(unit, context, None)
    return names["BoundPyOpenCLExecutable"](
        program=launcher, bound_arguments=kind(bound), target=target, cl_context=context
    )


def _transforming(own: Function) -> Function:
    def with_transformed_translation_unit(self: Any, f: Any) -> Any:
        before = _record_of(self.program)
        record = (before if callable(f) else None) and _recorded(
            lambda: GraphRecord(
                "with_transformed_translation_unit",
                lambda held, unit: held(unit),
                (executor.unit_of(self.program),),
                f,
                lambda held: {"f": transform.of_function(held)},
                before.kernel(),
            ),
            "with_transformed_translation_unit",
        )
        if record is None:
            return own(self, f)
        record.group = before.group
        unit = unmade.answer(record)
        if record.waits:
            record.holds = transform.as_of_now(f)
        if type(unit) is not unmade.RecordedUnit:
            unit.executor(self.cl_context)  # raises the error of pytato's
        return _executable(unit, self.bound_arguments, self.target, self.cl_context)

    return with_transformed_translation_unit


def _launching(own: Function) -> Function:
    def __call__(
        self: Any, queue: Any, allocator: Any = None, wait_for: Any = None, **given: Any
    ) -> Any:
        record = _record_of(self.program)
        if record is None or not given.keys().isdisjoint(self.bound_arguments):
            return own(self, queue, allocator, wait_for, **given)
        if "names" not in record.facts:
            arguments = making.make(record).default_entrypoint.arg_dict
            recorder.learn(record, names=[*arguments])
        values = {**self.bound_arguments, **given}
        taken = {name: values[name] for name in record.facts["names"] if name in values}
        launched = self.program(queue, allocator=allocator, wait_for=wait_for, **taken)
        record.group.write()  # a signal may end the process
        return launched

    return __call__
