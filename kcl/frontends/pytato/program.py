"""Replaces functions of pytato, so that the calls that make a unit from a graph are recorded.

A call of `generate_loopy` becomes a record of the graph; a transformation of the unit becomes a record of the unit and of
the transforming function. If an earlier run has carried the call out, the record waits. Its proof has the bound
arguments and, if the unit was launched, the unit's identity, by which its code is found. The unit is made only for a
question that nothing else answers.
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

_PROGRAMS = "target.loopy.BoundPyOpenCLProgram", "target.loopy.BoundPyOpenCLExecutable"
_MOST = 3  # graphs of one form whose code is kept; the stages of a Runge-Kutta step have two
NEEDED = (
    "generate_loopy",
    f"{_PROGRAMS[0]}.bind_to_context",
    f"{_PROGRAMS[1]}.with_transformed_translation_unit",
)


def replacements(package: Any) -> list[tuple[Any, str, Any]]:
    """Return the replacements of functions of pytato and of pytools' caches: (holder, name, value)."""
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
    """An argument of a record that is known by its text alone."""

    def __init__(self, text: str) -> None:
        self._text = text

    def text(self) -> str:
        """Return the text."""
        return self._text


class GraphRecord(Record):
    """The record of a call that makes or transforms the unit of a graph.

    `holds` has the arguments other than units. `carry_out(holds, *units)` carries the call out; `count(holds)` returns the
    content of these arguments.
    """

    def __init__(
        self,
        function: str,
        carry_out: Callable[..., Any],
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
        # The held objects may refer to any code, so the key has the unit's identity, and content is compared again.
        self.finds_unit = self.may_change = True
        self.unkept = next((unit.unkept for unit in self.inputs if unit.unkept), "")

    def hand_out(self) -> None:
        """Drop the data of the graph, which the unit would keep alive longer than the program does."""
        graph = self.described[0]
        if isinstance(graph, Graph) and graph.nodes:
            bare = graph.without_data()
            self.holds = bare.root, self.holds[1]
            self.described = (bare, *self.described[1:])

    def kernel(self) -> str:
        """Return the name that the program gave the kernel."""
        return self._name

    def _carried_out(self, carry_out: Callable[..., Any]) -> Any:
        """Call pytato, or the transforming function, and find out whether its result may be stored (`unkept`).

        A record that waited is carried out with the arguments of its call. Raises RecipeError if the program has changed
        their content since, because another unit would compute other numbers.
        """
        units = texts.mapped(self.arguments, texts.real)
        unkept = [unit.unkept for unit in self.inputs]
        if self.waits and self._is_changed():
            raise RecipeError(
                f"the unit of {self.kernel()!r} is made only now, and the program has changed since {self.place} what "
                f"{self.function} counts by there: run with KCL_NO_CACHE=graph, or change it before that call"
            )
        with thread.having(reads=_Reads()), transform.noting_messages(self.holds) as messages:
            made = carry_out(self, units, {})
            unkept.append(thread.reads.reason())
        unkept += [
            f"it asks a communicator for {name!r}, as other ranks may do" for name in messages
        ]
        if self.inputs and not self.waits and self._is_changed():
            unkept.append("the transformation changes what it holds")
        self.unkept = next(filter(None, [self.unkept, *unkept]), "")
        return made

    def _is_changed(self) -> bool:
        try:
            counted = self._count(self.holds)
        except UnknownInput:
            return True
        return any(content.exact() != self.keywords[key].text() for key, content in counted.items())


class _Reads:
    """What a call reads from and stores in pytools' dictionaries on disk.

    A unit found there counts as a miss, because its key there leaves out the code that made it. Any other value that is
    read may decide the result without being in kcl's key, so the result is not stored.
    """

    def __init__(self) -> None:
        self.stored: list[tuple[Any, Any, Any]] = []
        self.missed: list[tuple[Any, Any]] = []
        self.others = False  # whether something else was read

    def stored_at(self, owner: Any, key: Any) -> list[Any]:
        """List the values that the call has stored under a key, the last one first."""
        return [value for cache, name, value in self.stored[::-1] if cache is owner and name == key]

    def reason(self) -> str:
        """Return why the result of the call must not be stored; empty if it may."""
        is_read = self.others or not all(self.stored_at(*pair) for pair in self.missed)
        return "it reads a dictionary on disk" if is_read else ""


def _has_unit(key: Any) -> bool:
    """Return True if a key is a unit or a loopy kernel, or a tuple that contains one."""
    loopy = sys.modules["loopy"]
    if isinstance(key, tuple):
        return any(map(_has_unit, key))
    return isinstance(key, (loopy.TranslationUnit, loopy.LoopKernel))


def _fetching(own: Callable[..., Any]) -> Callable[..., Any]:
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
            # A cache with a unit in its key is a memo, whose misses do not matter.
            if not _has_unit(key):
                reads.missed.append((self, key))
            raise
        reads.others = True
        return value

    return fetch


def _storing(own: Callable[..., Any]) -> Callable[..., Any]:
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
    """Return what `make` returns; None if calls are not recorded now, or an argument has no exact text."""
    if not recorder.is_on() or settings.GRAPH in layers.generator().options.no_cache:
        return None
    try:
        return make()
    except Exception as error:
        recorder.refused(function, error, site())
        return None


def _generating(own: Callable[..., Any]) -> Callable[..., Any]:
    def generate_loopy(result: Any, target: Any = None, options: Any = None, **more: Any) -> Any:
        def carry_out(inputs: Any) -> Any:
            program = own(inputs[0], target, inputs[1], **more)
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
        # Copied, since the program may change its options before the unit is made.
        record.holds = graph.root, copy.copy(options)
        own_program = made.pop() if made else None
        if record.keeps_arguments is None:
            return own_program
        bound = {name: graph.data[place] for name, place in record.facts["bound"]}
        program = sys.modules["pytato.target.loopy"].BoundPyOpenCLProgram
        return program(program=unit, bound_arguments=bound, target=aim)

    return generate_loopy


def _ordered(result: Any) -> Any:
    """Return a copy of the outputs, sorted by name.

    The order only decides names of arguments. If pytato has partitioned a graph, it comes from sets and differs between
    processes.
    """
    named: Any = result if isinstance(result, dict) else getattr(result, "_data", None)
    if not isinstance(named, Mapping):
        return result
    make: Any = type(named)
    ordered = make(sorted(named.items()))
    if named is result:
        return ordered
    outputs = copy.copy(result)
    vars(outputs)["_data"] = ordered
    return outputs


def _of_graph(
    carry_out: Callable[..., Any], holds: Any, target: Any, more: dict[str, Any]
) -> tuple[GraphRecord, Graph, Any] | None:
    """Return (record, graph, target) of a call of `generate_loopy`; None if it is not for launches by pyopencl."""
    kind = sys.modules["pytato.target.loopy"].LoopyPyOpenCLTarget
    aim: Any = kind() if target is None else target
    if not getattr(holds[1], "no_numpy", False) or not isinstance(aim, kind):
        return None
    if getattr(type(aim), "bind_program", None) is not getattr(kind, "bind_program", None):
        return None

    def count(inputs: Any) -> dict[str, Any]:
        call = transform.of_call([sorted(more.items()), aim, inputs[1]])
        return {"graph": digest(inputs[0]), "call with its packages": call}

    name = str(more.get("function_name", "_pt_kernel"))
    record = GraphRecord("generate_loopy", carry_out, (), holds, count, name)
    graph: Graph = record.described[0]
    form = texts.digest([graph.form, *[value.exact() for value in record.described[1:]]])
    record.group = proofs.group(f"graph {form}")
    # The graph has a key, so its proofs will be needed.
    proofs.use()
    record.unkept = _unkept(record, graph, form)
    return record, graph, aim


class MetGraphs(dict[str, list[list[str]]]):
    """Form of a graph -> the numbers of the first graphs of that form that this process has met."""

    on_change = dict.clear


_met = process.own(MetGraphs)


def _unkept(record: GraphRecord, graph: Graph, form: str) -> str:
    """Return why code of a graph is not stored: numbers that change at each step would fill the cache. Else empty."""
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
    """Return the GraphRecord of a unit or of an executor's unit; None if there is none."""
    unit = executor.unit_of(program) if type(program) is executor.Executor else program
    record = unmade.record_of(unit)
    return record if isinstance(record, GraphRecord) else None


def _binding(own: Callable[..., Any]) -> Callable[..., Any]:
    def bind_to_context(self: Any, context: Any, allocator: Any = None) -> Any:
        array = sys.modules["pyopencl.array"].Array
        is_on_device = all(isinstance(bound, array) for bound in self.bound_arguments.values())
        if _record_of(self.program) is None or not is_on_device:
            return own(self, context, allocator)
        return _executable(self.program, self.bound_arguments, self.target, context)

    return bind_to_context


def _executable(unit: Any, bound: Any, target: Any, context: Any) -> Any:
    names = vars(sys.modules["pytato.target.loopy"])
    # pytato's class for mappings: constantdict, in earlier releases immutabledict.
    kind = names.get("constantdict") or names.get("immutabledict") or dict
    launcher = executor.Executor(unit, context, None)
    return names["BoundPyOpenCLExecutable"](
        program=launcher, bound_arguments=kind(bound), target=target, cl_context=context
    )


def _transforming(own: Callable[..., Any]) -> Callable[..., Any]:
    def with_transformed_translation_unit(self: Any, f: Any) -> Any:
        before = _record_of(self.program)
        record = (before if callable(f) else None) and _recorded(
            lambda: GraphRecord(
                "with_transformed_translation_unit",
                lambda transform_unit, unit: transform_unit(unit),
                (executor.unit_of(self.program),),
                f,
                lambda function: {"f": transform.of_function(function)},
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


def _launching(own: Callable[..., Any]) -> Callable[..., Any]:
    def __call__(
        self: Any, queue: Any, allocator: Any = None, wait_for: Any = None, **passed: Any
    ) -> Any:
        record = _record_of(self.program)
        if record is None or not passed.keys().isdisjoint(self.bound_arguments):
            return own(self, queue, allocator, wait_for, **passed)
        if "names" not in record.facts:
            arguments = making.make(record).default_entrypoint.arg_dict
            recorder.learn(record, names=[*arguments])
        values = {**self.bound_arguments, **passed}
        taken = {name: values[name] for name in record.facts["names"] if name in values}
        launched = self.program(queue, allocator=allocator, wait_for=wait_for, **taken)
        record.group.write()  # a signal may end the process
        return launched

    return __call__
