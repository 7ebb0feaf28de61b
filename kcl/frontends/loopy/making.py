"""Making: a record is carried out with loopy itself, and loopy's own objects answer what a program asks.

Proofs stand for the results in a warm start, which makes nothing. A warm start of recipes does without this module.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kcl import foreign
from kcl.base import events, is_being_imported, settings, spans, unwrap
from kcl.cache import layers
from kcl.frontends.loopy import moment, proofs, warned
from kcl.frontends.loopy.proofs import Group
from kcl.frontends.loopy.record import Record, site
from kcl.frontends.loopy.table import CONSTRUCTORS
from kcl.generate import carrying, thread

_UNIT = "loopy.translation_unit.TranslationUnit"
_EXECUTION = "loopy.target.pyopencl_execution"


def make(record: Record) -> Any:
    """Return the result of a record, carried out if it was not; raise the errors of loopy."""
    if record.is_made:
        return record.real()
    with alone():
        return record.made(_carry_out)


def prove(record: Record, group: Group) -> proofs.Proof | None:
    """Carry a record out, which proves later records; where another thread was first, return its proof instead."""
    try:
        with alone():
            # Another thread may have carried an equal record out while this one waited for its turn.
            earlier = proofs.known(record.digest)
            if earlier is None:
                record.made(_carry_out)
                warned_facts = warned.kept(record.heard)
                if (
                    warned_facts is not None
                    and record.keeps_arguments is not None
                    and not record.unkept
                ):
                    proof = proofs.Proof(record.keeps_arguments, warned_facts, {**record.facts})
                    proofs.add(record.digest, proof, group)
            return earlier
    finally:
        # The warnings are given here, outside of the lock: a filter may turn one into an error.
        warned.give(record.heard, record.place)


def handed_out(record: Record) -> Any:
    """Return a record's result, for a program that may change it: all units that share parts of it were made before."""
    made = make(record)
    if record.function not in CONSTRUCTORS:
        expose(record)
    return made


def expose(record: Record) -> None:
    """Carry out what shares parts with a record, before a program changes them."""
    for other in record.expose():
        try:
            make(other)
        except Exception:
            # The call for the record raises the error.
            continue


@contextmanager
def alone() -> Iterator[None]:
    """Let one thread at a time call loopy, without loopy's own caches."""
    loopy()
    with foreign.loopy_disk_caches_off():
        yield


def _carry_out(record: Record, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call loopy. Its warnings stay with the record: they are given at the call, not when a program asks."""
    function = record.call or own(record.function)
    thread.carried += 1
    with (
        _as_called(record),
        carrying(),
        spans.span("make", record.function),
        warned.hearing() as record.heard,
    ):
        return function(*arguments, **keywords)


@contextmanager
def _as_called(record: Record) -> Iterator[None]:
    """For a record that waited, let the generators be as at the call, and the variable that loopy reads in it."""
    from kcl.frontends.loopy import insides

    if not record.waits:
        yield
        return
    with insides.as_imported(), foreign.variables({moment.SKIP: record.moment.skips}):
        yield


def asked(record: Record, question: str) -> None:
    """Note a question of a program that only loopy's own object can answer."""
    if thread.carrying:
        return
    thread.asked = True
    events.count_question(
        question if record.function == question else f"{question} of {record.function}",
        str(site() or "?"),
    )


def loopy(question: str = "") -> Any:
    """Return the real loopy, imported also where its own cache directory cannot be used.

    `question` is the program's question to loopy; without it kcl itself needs loopy.
    """
    package = moment.loaded()
    if package is None:
        with carrying(), spans.span("import loopy"):
            foreign.import_anyway("loopy")
        # This waits for another thread that is importing it.
        importlib.import_module("loopy")
        package = moment.loaded()
        # A line that names a class needs no store: the table of layers answers, and opens none.
        off = layers.off(settings.GENERATOR, "loopy")
        # If the program has asked before, that question explains the import.
        if question and not (off or thread.carrying or events.total()["made"]):
            events.count_question(question, str(site() or "?"))
    if question and not thread.carrying:
        thread.asked = True
    return package


def _original(name: str) -> Any:
    """Return loopy's own object of a dotted name, as its import gave it; None if another package made it."""
    from kcl.frontends.loopy import insides

    method = name.removeprefix("TranslationUnit.")
    value = moment.loaded()
    # kcl puts its functions into loopy as the code of that has run: the import has not ended, and no baseline is there.
    if not (insides.is_off() or is_being_imported(value)):
        return insides.original("loopy" if method == name else _UNIT, method)
    for part in name.split("."):
        value = getattr(value, part, None)
    value = unwrap(value)
    return value if str(getattr(value, "__module__", "")).startswith("loopy") else None


def own(name: str) -> Any:
    """Return loopy's own object of a dotted name, whatever the program put in its place."""
    value: Any = loopy()
    original = _original(name)
    if original is not None:
        return original
    for part in name.split("."):
        value = getattr(value, part)
    return unwrap(value)


def is_own(name: str, value: Any) -> bool:
    """Return True if a value is loopy's own object of a name of the table, or kcl's function in its place."""
    return value is not None and unwrap(value) is _original(name)


def is_replaced(method: str) -> bool:
    """Return True if the program put something else in the place of a method of loopy's unit, or of its launch."""
    unit = own("TranslationUnit") if moment.loaded() is not None else None
    if unit is None:
        return False
    execution = sys.modules.get(_EXECUTION)
    launch = unwrap(execution.PyOpenCLExecutor.__call__) if execution else None
    is_theirs = launch is None or getattr(launch, "__globals__", None) is vars(execution)
    return not (is_theirs and is_own(f"TranslationUnit.{method}", vars(unit).get(method)))
