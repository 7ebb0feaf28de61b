"""What stands in the place of pytato's functions: the calls that make the unit of a graph are recorded.

`generate_loopy` is a record of the graph, and a transformation of the unit is one of the unit and of what transforms it.
A record that an earlier run carried out waits: its proof has the bound arguments, and where the unit was launched the
identity of the unit, which leads to its code. A question that only the unit answers makes the unit.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from kcl.base import settings
from kcl.base.attended import uncounted
from kcl.cache import layers
from kcl.frontends.loopy import executor, moment, proofs, recorder, texts, unmade
from kcl.frontends.loopy.callables.content import Content
from kcl.frontends.loopy.plain import StandIn
from kcl.frontends.loopy.record import CallSite, Record
from kcl.frontends.pytato import transform
from kcl.frontends.pytato.graph import Graph, digest
from kcl.generate.running import thread

_PROGRAMS = "target.loopy.BoundPyOpenCLProgram", "target.loopy.BoundPyOpenCLExecutable"
_MOST = 3  # graphs that differ in numbers alone
_NUMBERS = 40  # that a proof has
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
        (caches.PersistentDict, "fetch", _missing),
        (caches.WriteOncePersistentDict, "fetch", _missing),
        (caches.WriteOncePersistentDict, "store", _storing),
    ]
    replaced = [(holder, name, make(getattr(holder, name))) for holder, name, make in rows]
    for _holder, _name, function in replaced:
        uncounted(function)
    return replaced


class _Described(StandIn):
    """What a call gets beside units, by its text alone."""

    def __init__(self, text: str) -> None:
        self._text = text

    def text(self) -> str:
        """Return the text."""
        return self._text


class GraphRecord(Record):
    """A call that makes or transforms the unit of a graph; `carry_out` carries it out with loopy's own units."""

    def __init__(
        self,
        function: str,
        carry_out: Callable[..., Any],
        units: tuple[Any, ...],
        described: dict[str, Any],
        name: str,
    ) -> None:
        place, now = recorder.site() or CallSite(sys._getframe()), moment.now()
        described["structures"] = Content(str(now.structures), (), "")
        keywords = {key: _Described(one.exact()) for key, one in described.items()}
        super().__init__(function, units, keywords, now, place)
        self.described = (*described.values(),)
        self.call = carry_out
        self.name = name
        self.finds_unit = True

    def kernel(self) -> str:
        """Return the name that the program gave the kernel."""
        return self.name

    def _carried_out(self, carry_out: Callable[..., Any]) -> Any:
        """Call pytato, or what transforms a unit; caches of units miss, as their keys leave out the code that made them."""
        before, thread.missing = thread.missing, True
        try:
            return carry_out(self, texts.mapped(self.arguments, texts.real), {})
        finally:
            thread.missing = before


def _missing(own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def fetch(self: Any, key: Any) -> Any:
        if thread.missing:
            raise sys.modules["pytools.persistent_dict"].NoSuchEntryError(key)
        return own(self, key)

    return fetch


def _storing(own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def store(self: Any, *given: Any, **more: Any) -> Any:
        try:
            return own(self, *given, **more)
        except sys.modules["pytools.persistent_dict"].ReadOnlyEntryError:
            if not thread.missing:  # else the entry that was missed is there
                raise

    return store


def _recorded(make: Callable[[], Any], function: str) -> Any:
    """Return what `make` returns; None where calls are not recorded, or no key holds what the call gives."""
    if not recorder.is_on() or settings.GRAPH in layers.generator().chosen.no_cache:
        return None
    try:
        return make()
    except Exception as error:
        recorder.refused(function, error, recorder.site())
        return None


def _generating(own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def generate_loopy(result: Any, target: Any = None, options: Any = None, **more: Any) -> Any:
        def carry_out() -> Any:
            made.append(own(result, target, options, **more))
            places = {id(one): place for place, one in enumerate(graph.data)}
            bound = [[name, places.get(id(one))] for name, one in made[0].bound_arguments.items()]
            record.facts["bound"] = bound
            if any(place is None for _name, place in bound):  # data that the graph does not hold
                record.keeps_arguments = None
            return made[0].program

        made = list[Any]()
        recorded = _recorded(
            lambda: _of_graph(carry_out, result, target, options, more), "generate_loopy"
        )
        if recorded is None:
            return own(result, target, options, **more)
        record, graph, aim = recorded
        record.facts["numbers"] = graph.numbers[:_NUMBERS]
        unit = unmade.answer(record)
        if record.keeps_arguments is None:
            return made[0]
        bound = {name: graph.data[place] for name, place in record.facts["bound"]}
        program = sys.modules["pytato.target.loopy"].BoundPyOpenCLProgram
        return program(program=unit, bound_arguments=bound, target=aim)

    return generate_loopy


def _of_graph(
    carry_out: Callable[[], Any], result: Any, target: Any, options: Any, more: dict[str, Any]
) -> tuple[GraphRecord, Graph, Any] | None:
    """Return the record of a call with its graph and its target; None for a call that binds no program to a context."""
    kind = sys.modules["pytato.target.loopy"].LoopyPyOpenCLTarget
    aim = kind() if target is None else target
    if not getattr(options, "no_numpy", False) or not isinstance(aim, kind):
        return None
    graph = digest(result)
    counted = {
        "packages": transform.packages(),
        "call": transform.of_value([sorted(more.items()), aim, options]),
    }
    name = str(more.get("function_name", "_pt_kernel"))
    form = [graph.form, *[one.exact() for one in counted.values()]]
    record = GraphRecord("generate_loopy", carry_out, (), {"graph": graph, **counted}, name)
    record.group = proofs.group(f"graph {texts.digest(form)}")
    record.unkept = _unkept(record)
    return record, graph, aim


def _unkept(record: GraphRecord) -> str:
    """Return why code of a graph is not kept: a program whose numbers change at each step would fill the cache."""
    if proofs.find(record.digest, record.group) is not None:
        return ""
    facts = [proof.facts for proof in record.group.known.values()]
    kept = [one["numbers"] for one in facts if "numbers" in one]
    if len(kept) < _MOST:
        return ""
    changing = [sorted({*values}) for values in zip(*kept, strict=False) if len({*values}) > 1]
    here = f": {', '.join(changing[0])}" if changing else ""
    return (
        f"only {_MOST} graphs that differ in numbers alone are kept{here}; "
        "pass such a number as an argument of the compiled function, or in an array"
    )


def _record_of(program: Any) -> Any:
    """Return the record of a unit, or of that of an executor; None for any other unit."""
    unit = program.t_unit if type(program) is executor.Executor else program
    record = unmade.record_of(unit)
    return record if isinstance(record, GraphRecord) else None


def _binding(own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def bind_to_context(self: Any, context: Any, allocator: Any = None) -> Any:
        array = sys.modules["pyopencl.array"].Array
        is_on_device = all(isinstance(one, array) for one in self.bound_arguments.values())
        if _record_of(self.program) is None or not is_on_device:
            return own(self, context, allocator)
        return _executable(self.program, self.bound_arguments, self.target, context)

    return bind_to_context


def _executable(unit: Any, bound: Any, target: Any, context: Any) -> Any:
    kind = sys.modules["pytato.target.loopy"].BoundPyOpenCLExecutable
    bound = sys.modules["immutabledict"].immutabledict(bound)
    launcher = executor.Executor(unit, context, None)
    return kind(program=launcher, bound_arguments=bound, target=target, cl_context=context)


def _transforming(own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def with_transformed_translation_unit(self: Any, f: Any) -> Any:
        before = _record_of(self.program)
        record = before and _recorded(
            lambda: GraphRecord(
                "with_transformed_translation_unit",
                f,
                (self.program.t_unit,),
                {"f": transform.of_function(f)},
                before.name,
            ),
            "with_transformed_translation_unit",
        )
        if record is None:
            return own(self, f)
        record.group, record.unkept = before.group, before.unkept
        unit = unmade.answer(record)
        if type(unit) is not unmade.RecordedUnit:
            unit.executor(self.cl_context)  # raises the error of pytato's
        return _executable(unit, self.bound_arguments, self.target, self.cl_context)

    return with_transformed_translation_unit


def _launching(own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def __call__(
        self: Any, queue: Any, allocator: Any = None, wait_for: Any = None, **given: Any
    ) -> Any:
        record = _record_of(self.program)
        if record is None or not given.keys().isdisjoint(self.bound_arguments):
            return own(self, queue, allocator, wait_for, **given)
        names = record.facts.get("names")
        if names is None:
            names = [*recorder.make(record).default_entrypoint.arg_dict]
            recorder.learn(record, names=names)
        given = {**self.bound_arguments, **given}
        given = {name: given[name] for name in names if name in given}
        launched = self.program(queue, allocator=allocator, wait_for=wait_for, **given)
        record.group.write()  # a signal may end the process
        return launched

    return __call__
