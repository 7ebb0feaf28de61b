"""The recorder: the rule for when a record is carried out.

A record with a proof waits. Any other record is carried out at its call, so that an error is raised at the call:
`kcl.frontends.loopy.making` does that. With the generator layer off, the recorder records nothing. A failure in this
module is a fault of kcl: the call is carried out, and the run goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcl.base import events
from kcl.cache import layers
from kcl.errors import CacheFault, UnknownInput
from kcl.frontends.loopy import moment, proofs
from kcl.frontends.loopy.proofs import Group
from kcl.frontends.loopy.record import CallSite, Keywords, Positional, Record
from kcl.generate import thread as thread

if TYPE_CHECKING:
    from kcl.generate.declarations import RecipeCall

_LOOPY = frozenset({"loopy"})


def group(call: RecipeCall) -> Group:
    """Return the proofs of a recipe's calls: they belong to the file of the function that runs."""
    return proofs.group(call.function.__code__.co_filename)


def is_on() -> bool:
    """Return True if calls are recorded in this thread now."""
    return not (thread.carrying or layers.generator().off(_LOOPY))


def in_recipe() -> bool:
    """Return True if this thread runs a recipe and records its calls."""
    return thread.call is not None and is_on()


def begin(record: Record) -> bool:
    """Let a record wait where a proof says that its call raises nothing, else carry it out; return True if it waits."""
    where, proof = _group_of(record), None
    try:
        proof = proofs.find(record.digest, where)
    except Exception as error:
        # Without a proof the call is carried out, which is always right.
        _fault(error)
    if proof is None:
        from kcl.frontends.loopy import making

        proof = making.prove(record, where)
    if proof is None:
        return False
    record.wait(proof.keeps_arguments)
    record.facts = {**proof.facts}
    if proof.warned:
        from kcl.frontends.loopy import warned

        warned.again(proof.warned, record.place)
    return True


def _group_of(record: Record) -> Group:
    own: Group | None = record.group
    file = record.place.file
    return own or (proofs.group(file) if thread.call is None else group(thread.call))


def learn(record: Record, **facts: Any) -> None:
    """Note facts of a result beside its proof, if it has one."""
    record.facts.update(facts)
    proof = proofs.known(record.digest)
    if proof is not None and not record.unkept:
        proofs.add(
            record.digest, proof._replace(facts={**proof.facts, **record.facts}), _group_of(record)
        )


def recorded(
    function: str, arguments: Positional, keywords: Keywords, place: CallSite
) -> Record | None:
    """Return the record of a call; None where no key holds what it gives, and after a fault of kcl."""
    try:
        return Record(function, arguments, keywords, moment.now(), place)
    except Exception as error:
        refused(function, error, place)
        return None


def refused(function: str, error: Exception, place: CallSite | None) -> None:
    """Note why a call is carried out at once; report what is no reason but a fault."""
    events.count_question(f"{function}: {error}", str(place or "?"))
    if not isinstance(error, (UnknownInput, RecursionError)):
        _fault(error)


def _fault(error: Exception) -> None:
    """Say once that kcl could not record a call; raises CacheFault under `KCL_STRICT=fault`."""
    if isinstance(error, CacheFault):
        raise error
    layers.generator().fault("record a call of loopy", error)
