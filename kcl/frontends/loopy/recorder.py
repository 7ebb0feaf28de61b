"""The recorder: decides whether a recorded call waits or is carried out at once.

A record with a proof waits. Any other is carried out at its call, so that an error is raised there
(`kcl.frontends.loopy.making`). With the generator layer off nothing is recorded. If recording fails, the call is carried
out, and the run goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcl.base import events
from kcl.cache import layers
from kcl.errors import CacheFault, UnknownInput
from kcl.frontends.loopy import moment, proofs
from kcl.frontends.loopy.proofs import Group
from kcl.frontends.loopy.record import CallSite, Record
from kcl.generate import thread as thread

if TYPE_CHECKING:
    from kcl.generate.declarations import RecipeCall

_LOOPY = frozenset({"loopy"})


def group(call: RecipeCall) -> Group:
    """Return the group with the proofs of a recipe's calls: that of the file of its function."""
    return proofs.group(call.function.__code__.co_filename)


def is_on() -> bool:
    """Return True if calls of this thread are recorded now."""
    return not (thread.carrying or layers.generator().off(_LOOPY))


def in_recipe() -> bool:
    """Return True if this thread is running a recipe whose calls are recorded."""
    return thread.call is not None and is_on()


def begin(record: Record) -> bool:
    """Let a record wait if it has a proof, else carry it out; return True if it waits."""
    where, proof = _group_of(record), None
    try:
        proof = proofs.find(record.digest, where)
    except Exception as error:
        # The call is carried out then, which is always right.
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
    """Add facts on a result to its record, and to its proof if it has one."""
    record.facts.update(facts)
    proof = proofs.known(record.digest)
    if proof is not None and not record.unkept:
        proofs.add(
            record.digest, proof._replace(facts={**proof.facts, **record.facts}), _group_of(record)
        )


def recorded(
    function: str, arguments: tuple[Any, ...], keywords: dict[str, Any], place: CallSite
) -> Record | None:
    """Return the record of a call; None if an argument has no exact text, or after a fault of kcl."""
    try:
        return Record(function, arguments, keywords, moment.now(), place)
    except Exception as error:
        refused(function, error, place)
        return None


def refused(function: str, error: Exception, place: CallSite | None) -> None:
    """Count the reason why a call is not recorded; report it if it is a fault of kcl."""
    events.count_question(f"{function}: {error}", str(place or "?"))
    if not isinstance(error, (UnknownInput, RecursionError)):
        _fault(error)


def _fault(error: Exception) -> None:
    """Warn once that kcl could not record a call; raises CacheFault under `KCL_STRICT=fault`."""
    if isinstance(error, CacheFault):
        raise error
    layers.generator().fault("record a call of loopy", error)
