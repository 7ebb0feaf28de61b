"""Proofs: notes that an earlier run carried a recorded call out without an error, with the warnings that loopy gave.

A record with a proof can wait until its result is needed, since its call would raise no error. Proofs are stored in the
generator layer, in one row for all calls in files of the same name. The file's name only says where to look: a proof
belongs to a record's digest and to everything else that decides the outcome. A process that asks questions of its units
and looks up no code writes no proofs: the next such run would carry its calls out anyway.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from kcl.base import computed_once, events, process
from kcl.cache import layers
from kcl.cache.entry import Entry, origin
from kcl.cache.key import Key, Part
from kcl.frontends.loopy import moment
from kcl.generate import distributions

# The most proofs in a row; the latest ones are kept.
LIMIT = 4096


class WarningFact(NamedTuple):
    """A warning of loopy: module and name of its category, text, file and line. No file means the line of the call."""

    module: str
    category: str
    text: str
    file: str
    line: int


class Proof(NamedTuple):
    """What an earlier run found out about a call: whether loopy keeps arguments by reference, warnings, and facts."""

    keeps_arguments: bool
    warned: tuple[WarningFact, ...]
    facts: dict[str, Any]


_LOOPY = frozenset({"loopy"})


class KnownProofs(process.LockedState):
    """The proofs that this process has read or made, by record digest, and their groups by file name.

    `are_used` is True once a key of a unit was computed.
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
    """The state of a process that has proofs to write at exit."""

    def at_exit(self) -> None:
        write()

    before_change = at_exit


_state = process.own(KnownProofs)
_unwritten = process.own(UnwrittenProofs)


class Group:
    """The proofs of the calls in files of one name, which are stored in one row."""

    def __init__(self, name: str) -> None:
        self._name = name
        # `Layer.moment` of the last read.
        self._read_at: object = None
        self.known: dict[str, Proof] = {}
        # The proofs that are still to be written.
        self.new: dict[str, Proof] = {}
        # True once this process has carried out a call without a proof.
        self.has_new = False

    @computed_once
    def _key(self) -> Key:
        return Key((Part("proofs", self._name), *moment.shared()))

    def read(self) -> None:
        """Read the proofs of other runs; again only if the layer's file has changed since the last read."""
        layer, proven = layers.generator(), _state().proven
        now = layer.moment()
        # Without any rows the key is not needed, for which files of the generators would be read.
        if self._read_at == now or not (now or layer.stores[1:]):
            return
        self._read_at = now
        layers.generator().memory.pop(self._key.digest, None)
        for digest, (keeps, warned, facts) in _proven(self._stored()).items():
            # A proof of this process is newer than the row.
            if digest not in proven:
                proven[digest] = Proof(keeps, tuple([WarningFact(*fact) for fact in warned]), facts)
            self.known[digest] = proven[digest]

    def _stored(self) -> Entry | None:
        return layers.generator().look_up(self._key.digest, self._key).entry

    def write(self) -> None:
        """Store the new proofs, together with those that other processes have stored meanwhile."""
        if not self.new:
            return
        with _state().lock:
            new, self.new = self.new, {}
        # If files of the generators have changed, the key may be that of other files than the calls ran with.
        key = self._key
        if distributions.changed():
            return
        # Removed from memory, so that proofs that other processes have added are read.
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
    # Their form is known, since kcl's format is in the key.
    return proven if type(proven) is dict else {}


def group(file: str) -> Group:
    """Return the group of the calls in files with the name of this file."""
    name, groups = file.rpartition("/")[2], _state().groups
    # `setdefault`, since two threads may make the group.
    return groups.get(name) or groups.setdefault(name, Group(name))


def find(digest: str, where: Group) -> Proof | None:
    """Return the proof of a record, from this process, the layer, or a remote; None if there is none."""
    if known(digest) is None:
        where.read()
    # A remote is asked once in a process, before the first call without a proof is carried out.
    if known(digest) is None and layers.generator().pull_before_miss():
        where.read()
    return known(digest)


def known(digest: str) -> Proof | None:
    """Return the proof of a record that this process has already; None if there is none."""
    return _state().proven.get(digest)


def add(digest: str, proof: Proof, where: Group) -> None:
    """Add the proof of a record that was carried out, to be written later."""
    _unwritten()
    _state().proven[digest] = where.known[digest] = where.new[digest] = proof
    where.has_new = True


def use() -> None:
    """Note that a key of a unit was computed, so that later runs will need the proofs."""
    _state().are_used = True


def write() -> None:
    """Store the new proofs of all groups, if later runs need them. Raises nothing unless `KCL_STRICT=fault`."""
    has_made = bool(events.total()["made"])
    # If the program asks questions of its units and needs no code, proofs would spare nothing.
    if (has_made and not _state().are_used) or layers.generator().off(_LOOPY):
        return
    # Copied, since another thread may add a group meanwhile.
    for group in list(_state().groups.values()):
        group.write()


def unproven() -> list[str]:
    """Return the names of files with calls that this process had to carry out, since they had no proof."""
    return sorted(name for name, group in _state().groups.items() if group.has_new)
