"""Carries records out with loopy itself, and gets loopy's own objects for questions of the program.

A warm start of recipes, in which proofs replace carrying out, does not import this module.
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
from kcl.frontends.loopy.record import Keywords, Positional, Record, site
from kcl.frontends.loopy.table import CONSTRUCTORS
from kcl.generate import carrying, thread

_UNIT = "loopy.translation_unit.TranslationUnit"
_EXECUTION = "loopy.target.pyopencl_execution"


def make(record: Record) -> Any:
    """Return the result of a record; it is carried out if it was not. Raises loopy's errors."""
    if record.is_made:
        return record.real()
    with alone():
        return record.made(_carry_out)


def prove(record: Record, group: Group) -> proofs.Proof | None:
    """Carry a record out and write its proof. If another thread has a proof already, return that instead."""
    try:
        with alone():
            # Another thread may have carried out an equal record while this one waited.
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
        # Outside of the lock, since a filter may turn a warning into an error.
        warned.give(record.heard, record.place)


def handed_out(record: Record) -> Any:
    """Return a record's result to a program that may change it. First all units that share parts of it are made."""
    made = make(record)
    if record.function not in CONSTRUCTORS:
        expose(record)
    return made


def expose(record: Record) -> None:
    """Carry out all records whose units share parts with this one's, before the program may change them."""
    for other in record.expose():
        try:
            make(other)
        except Exception:
            # The error is raised when the program uses that record.
            continue


@contextmanager
def alone() -> Iterator[None]:
    """Let one thread at a time into the block, in which loopy's own disk caches are off."""
    loopy()
    with foreign.loopy_disk_caches_off():
        yield


def _carry_out(record: Record, arguments: Positional, keywords: Keywords) -> Any:
    """Call loopy. Its warnings are collected in the record, to be given at the line of the recorded call."""
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
    """For a record that waited, restore the state of its call: unchanged generators, and loopy's variable."""
    from kcl.frontends.loopy import insides

    if not record.waits:
        yield
        return
    with (
        insides.as_imported() as is_as_called,
        foreign.variables({moment.SKIP: record.moment.skips}),
    ):
        if not is_as_called:
            # The result is not what the digest stands for. From now on the record counts by its content.
            record.expose()
        yield


def asked(record: Record, question: str) -> None:
    """Count a question of the program that only loopy's own object can answer."""
    if thread.carrying:
        return
    thread.asked = True
    events.count_question(
        question if record.function == question else f"{question} of {record.function}",
        str(site() or "?"),
    )


def loopy(question: str = "") -> Any:
    """Import and return loopy, even if its cache directory is not usable.

    `question` is the question of the program that needs loopy; empty if kcl itself needs it.
    """
    package = moment.loaded()
    if package is None:
        with carrying(), spans.span("import loopy"):
            foreign.import_anyway("loopy")
        # Waits if another thread is importing it.
        importlib.import_module("loopy")
        package = moment.loaded()
        # Asked without opening the layer, which the program may not need.
        off = layers.off(settings.GENERATOR, "loopy")
        # Only the first question explains the import.
        if question and not (off or thread.carrying or events.total()["made"]):
            events.count_question(question, str(site() or "?"))
    if question and not thread.carrying:
        thread.asked = True
    return package


def _original(name: str) -> Any:
    """Return the object that a dotted name had after loopy's import; None if that was another package's."""
    from kcl.frontends.loopy import insides

    method = name.removeprefix("TranslationUnit.")
    value = moment.loaded()
    # While kcl replaces functions at the end of loopy's import there is no baseline yet.
    if not (insides.is_off() or is_being_imported(value)):
        return insides.original("loopy" if method == name else _UNIT, method)
    for part in name.split("."):
        value = getattr(value, part, None)
    value = unwrap(value)
    return value if str(getattr(value, "__module__", "")).startswith("loopy") else None


def own(name: str) -> Any:
    """Return loopy's original object of a dotted name, even if the program has replaced it."""
    value: Any = loopy()
    original = _original(name)
    if original is not None:
        return original
    for part in name.split("."):
        value = getattr(value, part)
    return unwrap(value)


def is_own(name: str, value: Any) -> bool:
    """Return True if a value is loopy's original object of this name, or kcl's function in place of it."""
    return value is not None and unwrap(value) is _original(name)


def is_replaced(method: str) -> bool:
    """Return True if the program has replaced a method of loopy's TranslationUnit, or the launch of its executor."""
    unit = own("TranslationUnit") if moment.loaded() is not None else None
    if unit is None:
        return False
    execution = sys.modules.get(_EXECUTION)
    # Another thread may be importing the module.
    executor = getattr(execution, "PyOpenCLExecutor", None)
    launch = unwrap(executor.__call__) if executor else None
    is_theirs = launch is None or getattr(launch, "__globals__", None) is vars(execution)
    return not (is_theirs and is_own(f"TranslationUnit.{method}", vars(unit).get(method)))
