"""Proofs: the records that an earlier run carried out without an error, with the warnings that loopy gave.

A record with a proof can wait until its result is needed: the call would raise nothing. Proofs lie in the generator
layer, a row for the calls in files of one name. The name only says where to look: a proof is of a record's digest, and
of everything beside the record that decides the outcome. A process that asked its units, and looked up no code, publishes
no proofs: there a call that waited would be carried out all the same.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from kcl.base import computed_once, events, process
from kcl.cache import layers
from kcl.cache.entry import Entry, origin
from kcl.cache.key import Key, Part
from kcl.code import WarningFact
from kcl.frontends.loopy import moment
from kcl.generate import distributions

# The proofs in a row, at most: the latest ones stay.
LIMIT = 4096


class Proof(NamedTuple):
    """What an earlier run learned of a call: whether loopy keeps arguments by reference, warnings, facts of the result."""

    keeps_arguments: bool
    warned: tuple[WarningFact, ...]
    facts: dict[str, Any]


_LOOPY = frozenset({"loopy"})


class KnownProofs(process.LockedState):
    """The proofs that this process read and made, by the digest of the record, and their groups by name.

    `are_used` is set once a unit has a key.
    """

    def __init__(self) -> None:
        super().__init__()
        self.proven: dict[str, Proof] = {}
        self.groups: dict[str, Group] = {}
        self.are_used = False

    def on_change(self) -> None:
        self.proven.clear()
        self.groups.clear()


class UnwrittenProofs:
    """The mark of a process with proofs to write at exit."""

    def at_exit(self) -> None:
        write()

    before_change = at_exit


_state = process.own(KnownProofs)
_unwritten = process.own(UnwrittenProofs)


class Group:
    """The proofs of the calls in one file. They are read again once the layer has new rows, and written if they grew."""

    def __init__(self, name: str) -> None:
        self._name = name
        # `Layer.moment` of the last read.
        self._read_at: object = None
        # The proofs that are still to be written.
        self.new: dict[str, Proof] = {}
        # True once this process carried out a call that no earlier run proved.
        self.has_new = False

    @computed_once
    def _key(self) -> Key:
        return Key((Part("proofs", self._name), *moment.shared()))

    def read(self) -> None:
        """Read the proofs of other runs, and again after rows came: from a run beside this one, or in a pack."""
        layer, proven = layers.generator(), _state().proven
        now = layer.moment()
        # Where no store has rows, no file of a generator is read for the key.
        if self._read_at == now or not (now or layer.stores[1:]):
            return
        self._read_at = now
        layers.generator().memory.pop(self._key.digest, None)
        for digest, (keeps, warned, facts) in _proven(self._stored()).items():
            # What this process proved itself is younger than the row.
            if digest not in proven:
                proven[digest] = Proof(keeps, tuple([WarningFact(*fact) for fact in warned]), facts)

    def _stored(self) -> Entry | None:
        return layers.generator().look_up(self._key.digest, self._key).entry

    def write(self) -> None:
        """Publish the new proofs, together with those that other processes have published since."""
        if not self.new:
            return
        with _state().lock:
            new, self.new = self.new, {}
        # The key may be made of the files as they are now, which prove nothing of the calls.
        key = self._key
        if distributions.changed():
            return
        # The layer remembers the row that it read: what other processes added since would be lost.
        layers.generator().memory.pop(key.digest, None)
        before = self._stored()
        merged = {
            **_proven(before),
            **{
                digest: [proof.keeps_arguments, [*map(list, proof.warned)], proof.facts]
                for digest, proof in new.items()
            },
        }
        about = {
            "kernel": self._name,
            "created": int(time.time()),
            "proven": dict(list(merged.items())[-LIMIT:]),
            **origin(before),
        }
        layers.generator().publish(key.digest, Entry(key, about, {}))


def _proven(entry: Entry | None) -> dict[str, Any]:
    proven = entry.metadata.get("proven") if entry is not None else None
    # The proofs are as this kcl writes them, since its format is in the key.
    return proven if type(proven) is dict else {}


def group(file: str) -> Group:
    """Return the group of the calls in a file, and in others of its name."""
    name, groups = file.rpartition("/")[2], _state().groups
    # `setdefault` keeps the first group that one of two threads made.
    return groups.get(name) or groups.setdefault(name, Group(name))


def find(digest: str, where: Group) -> Proof | None:
    """Return the proof that a record was carried out without an error; None if there is none."""
    if known(digest) is None:
        where.read()
    # A remote is asked once in a process, before a call is carried out for want of a proof.
    if known(digest) is None and layers.generator().pull_before_miss():
        where.read()
    return known(digest)


def known(digest: str) -> Proof | None:
    """Return the proof that this process has of a record, None for any other record."""
    return _state().proven.get(digest)


def add(digest: str, proof: Proof, where: Group) -> None:
    """Note that a record was carried out without an error."""
    _unwritten()
    _state().proven[digest] = where.new[digest] = proof
    where.has_new = True


def use() -> None:
    """Note that this process has a key of a unit: a later run needs the proofs."""
    _state().are_used = True


def write() -> None:
    """Publish the unpublished proofs of all groups if a unit has a key. Raises nothing unless `KCL_STRICT=fault`."""
    has_made = bool(events.total()["made"])
    # Where a program asked for its units, and for no code, a call that waited would be carried out all the same.
    if (has_made and not _state().are_used) or layers.generator().off(_LOOPY):
        return
    # The list is a copy: another thread may begin a group meanwhile.
    for group in list(_state().groups.values()):
        group.write()


def unproven() -> list[str]:
    """Return the names of the files with calls that this process carried out and no earlier run proved."""
    return sorted(name for name, group in _state().groups.items() if group.has_new)
