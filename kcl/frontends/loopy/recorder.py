"""The recorder: the rule for when a record is carried out.

A record with a proof waits. Any other record is carried out at its call, so that an error is raised at the call. With
the generator layer off, the recorder records nothing. A failure in this module is a fault of kcl: the call is carried
out, and the run goes on.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kcl.base import events, settings, spans
from kcl.base.attended import below_kcl
from kcl.cache import layers
from kcl.errors import CacheFault, UnknownInput
from kcl.frontends.loopy import moment, proofs
from kcl.frontends.loopy.proofs import Group
from kcl.frontends.loopy.record import CallSite, Record
from kcl.frontends.loopy.table import CONSTRUCTORS
from kcl.generate.running import carrying as carrying
from kcl.generate.running import thread as thread

if TYPE_CHECKING:
    from kcl.generate.declarations import RecipeCall

_LOOPY = frozenset({"loopy"})
_UNIT = "loopy.translation_unit.TranslationUnit"


def group(call: RecipeCall) -> Group:
    """Return the proofs of a recipe's calls: they belong to the recipe's file."""
    return proofs.group(call.function.__code__.co_filename)


def is_on() -> bool:
    """Return True if calls are recorded in this thread now."""
    return not (thread.carrying or layers.generator().off(_LOOPY))


def in_recipe() -> bool:
    """Return True if this thread runs a recipe and records its calls."""
    return thread.call is not None and is_on()


def begin(record: Record) -> bool:
    """Let a record wait where a proof says that its call raises nothing, else carry it out; return True if it waits."""
    where, proof = _group(record), None
    try:
        proof = proofs.find(record.digest, where)
    except Exception as error:
        # Without a proof the call is carried out, which is always right.
        _fault(error)
    if proof is None:
        proof = _carried_out_unless_proven(record, where)
    if proof is None:
        return False
    record.wait(proof.keeps_arguments)
    record.facts = {**proof.facts}
    if proof.warned:
        from kcl.frontends.loopy import warned

        warned.again(proof.warned, record.place)
    return True


def _carried_out_unless_proven(record: Record, group: Group) -> proofs.Proof | None:
    """Carry a record out, which proves later records; where another thread was first, return its proof instead."""
    from kcl.frontends.loopy import warned

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


def _group(record: Record) -> Group:
    file = proofs.group(record.place.file) if thread.call is None else group(thread.call)
    return record.group or file


def learn(record: Record, **facts: Any) -> None:
    """Note facts of a result beside its proof, if it has one."""
    record.facts.update(facts)
    proof = proofs.known(record.digest)
    if proof is not None and not record.unkept:
        proofs.add(
            record.digest, proof._replace(facts={**proof.facts, **record.facts}), _group(record)
        )


def make(record: Record) -> Any:
    """Return the result of a record, carried out if it was not; raise the errors of loopy."""
    if record.is_made:
        return record.real()
    with alone():
        return record.made(_carry_out)


@contextmanager
def alone() -> Iterator[None]:
    """Let one thread at a time call loopy, without loopy's own caches."""
    from kcl import foreign

    loopy()
    with foreign.loopy_disk_caches_off():
        yield


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


def _carry_out(record: Record, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call loopy. Its warnings stay with the record: they are given at the call, not when a program asks."""
    from kcl.frontends.loopy import warned

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
    from kcl import foreign
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
    events.made(
        question if record.function == question else f"{question} of {record.function}",
        str(site() or "?"),
    )


def site() -> CallSite | None:
    """Return the place of the innermost call outside of kcl; None where every call is kcl's."""
    frame: Any = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("kcl."):
        frame = frame.f_back
    return None if frame is None else CallSite(frame)


def recorded(
    function: str, arguments: tuple[Any, ...], keywords: dict[str, Any], place: CallSite
) -> Record | None:
    """Return the record of a call; None where no key holds what it gives, and after a fault of kcl."""
    try:
        return Record(function, arguments, keywords, moment.now(), place)
    except Exception as error:
        refused(function, error, place)
        return None


def refused(function: str, error: Exception, place: CallSite | None) -> None:
    """Note why a call is carried out at once; report what is no reason but a fault."""
    events.made(f"{function}: {error}", str(place or "?"))
    if not isinstance(error, (UnknownInput, RecursionError)):
        _fault(error)


def _fault(error: Exception) -> None:
    """Say once that kcl could not record a call; raises CacheFault under `KCL_STRICT=fault`."""
    if isinstance(error, CacheFault):
        raise error
    layers.generator().fault("record a call of loopy", error)


def loopy(question: str = "") -> Any:
    """Return the real loopy, imported also where its own cache directory cannot be used.

    `question` is the program's question to loopy; without it kcl itself needs loopy.
    """
    package = loaded()
    if package is None:
        from kcl import foreign

        with carrying(), spans.span("import loopy"):
            foreign.import_anyway("loopy")
        # This waits for another thread that is importing it.
        importlib.import_module("loopy")
        package = loaded()
        # A line that names a class needs no store: the table of layers answers, and opens none.
        off = layers.off(settings.GENERATOR, "loopy")
        # If the program has asked before, that question explains the import.
        if question and not (off or thread.carrying or events.total()["made"]):
            events.made(question, str(site() or "?"))
    if question and not thread.carrying:
        thread.asked = True
    return package


def _original(name: str) -> Any:
    """Return loopy's own object of a dotted name, as its import gave it; None if another package made it."""
    from kcl.frontends.loopy import insides

    method = name.removeprefix("TranslationUnit.")
    if not insides.is_off():
        return insides.original("loopy" if method == name else _UNIT, method)
    value = loaded()
    for part in name.split("."):
        value = getattr(value, part, None)
    value = below_kcl(value)
    return value if str(getattr(value, "__module__", "")).startswith("loopy") else None


def loaded() -> Any:
    """Return the real loopy if it is imported, else None."""
    package = sys.modules.get("loopy")
    # This is its last name: without it a thread is still importing the package.
    return package if hasattr(package, "set_default_target") else None


def own(name: str) -> Any:
    """Return loopy's own object of a dotted name, whatever the program put in its place."""
    value: Any = loopy()
    original = _original(name)
    if original is not None:
        return original
    for part in name.split("."):
        value = getattr(value, part)
    return below_kcl(value)


def is_own(name: str, value: Any) -> bool:
    """Return True if a value is loopy's own object of a name of the table, or kcl's function in its place."""
    return value is not None and below_kcl(value) is _original(name)


def is_replaced(method: str) -> bool:
    """Return True if the program put something else in the place of a method of loopy's unit."""
    unit = own("TranslationUnit") if loaded() is not None else None
    return unit is not None and not is_own(f"TranslationUnit.{method}", vars(unit).get(method))
