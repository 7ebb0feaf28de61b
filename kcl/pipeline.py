"""The line, in order: direct key, generator layer, recipe, program, launcher; and nothing else.

What only a miss needs is imported there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from threading import get_ident
from typing import TYPE_CHECKING, Any

from kcl import adapters, events, layers, rows
from kcl.declarations import NOTHING, Task, reached
from kcl.direct.reach import Reached
from kcl.entry import Entry, recorded_seconds
from kcl.errors import UnknownInput, WrongEntry
from kcl.events import Event
from kcl.frontends import Open
from kcl.generated import Generated, dtype_text, from_entry, instantiate
from kcl.history import kept
from kcl.key import Key, Part, encoding
from kcl.launch import MissingArguments, unpack
from kcl.namedtuple import NamedTuple
from kcl.rows import Base, Dtypes, Ready

if TYPE_CHECKING:
    from types import CodeType

    import numpy as np

    from kcl import frontends
    from kcl.flight import Flight
    from kcl.running import Outcome


_VERIFIED = "verified"
_REUSED = "same translation unit as before: generated code reused"


class Look(NamedTuple):
    """What a look-up found, or what was made instead; `entry` is the row that holds the code of a hit.

    `key` is that of the row that was found, missed or made in its place, None where there is none.
    """

    ready: Ready | None
    outcome: str
    reason: str
    size: int = 0
    entry: Entry | None = None
    key: Key | None = None


class Code(NamedTuple):
    """What was generated from a result, now or `reused`; `unit` is the key of the result, None where it has none.

    `fault` says why stored code of an equal result could not be used.
    """

    generated: Generated
    refused: str
    unit: Key | None
    reused: bool
    fault: str = ""


class Line:
    """One Kernel on the line: what is known so far. Thread-safe; the key is of the moment of the first look-up."""

    def __init__(self, task: Task) -> None:
        self.name = task.name
        self._task = task
        self._lock = threading.RLock()
        self._reached: Reached | None = None
        self._unknown = ""
        self._direct: Key | None = None
        self._result: frontends.Result | None = None
        self._moment: dict[tuple[str, str], str] = {}
        # What others wait for, until the thread that leads it seeks the program.
        self._flights: dict[int, list[Flight]] = {}
        self.base: Base | None = None

    def ready(self, values: dict[str, Any], call: bool) -> tuple[Ready, dict[str, np.dtype[Any]], Open]:
        """Return generated code for the dtypes among `values`, from the generator layer or by running the recipe.

        `values` are arguments by name, or dtypes in their place; the dtypes that were read and what is open come
        back too. Where `call` is true others wait for code that this thread made until it calls `land`. Raises
        MissingArguments where `call` is true and a required array is not there; the recipe's own error; RecipeError;
        CacheMiss.
        """
        started = time.perf_counter()
        found = self._ready(values, call, started)
        if found is None:
            try:
                found = self._ready(values, call, started, self._joined(values))
            except BaseException:
                self.land()
                raise
        assert found is not None
        return found

    def _ready(
        self, values: dict[str, Any], call: bool, started: float, meanwhile: str | None = None
    ) -> tuple[Ready, dict[str, np.dtype[Any]], Open] | None:
        """Look, and make what is not there; None for a miss until `meanwhile` says who may have made it meanwhile."""
        with self._lock:
            layer = layers.generator()
            look = self._find(layer, values)
            if self.base is not None and call:
                _require(self.base.open, values)
            digest = self._direct.digest if self._direct else ""
            if look.ready is None:
                layer.demand_hit(Event(layer.name, self.name, digest, look.outcome, look.reason, 0.0, 0), look.key)
            if meanwhile is None and look.outcome == "miss":
                return None  # to wait, if at all, without the lock
            if meanwhile is not None and look.ready is not None:
                look = look._replace(reason=meanwhile)
            try:
                look = self._completed(layer, values, call, look, _chosen(layer, digest))
            except BaseException as error:
                self.land()
                # The recipe or the generator failed: the look-up was made all the same, and is counted.
                if isinstance(error, WrongEntry):
                    look = look._replace(outcome="error", reason=str(error))
                seconds = time.perf_counter() - started
                events.emit(Event(layer.name, self.name, digest, look.outcome, look.reason, seconds, 0), look.key)
                raise
            if not (call and look.outcome == "miss" and look.size):
                self.land()
            self._report(layer, look, time.perf_counter() - started)
            assert look.ready is not None
            assert self.base is not None
            return look.ready, dtypes_of(unpack(self.base.open.packed, values)), self.base.open

    def wait(self, values: dict[str, Any]) -> None:
        """Wait until who makes the code for `values` has the lead for the program too, unless this thread makes it.

        The process that generates code so builds the program, and has the lead for the next kernel: the others import
        nothing that generates code.
        """
        if get_ident() not in self._flights and self._direct is not None:
            flight = layers.generator().join(self._joint(values), self.name)
            if flight is not None:
                flight.land()

    def land(self) -> None:
        """Let others go on with the code that this thread made, where they wait for it."""
        for flight in self._flights.pop(get_ident(), ()):  # no lock: its holder may wait for this thread
            flight.land()

    def direct_key(self) -> Key | None:
        """Return the direct key, None where it cannot be known; `why_unknown` says why."""
        with self._lock:
            if self._direct is None and not self._unknown:
                try:
                    self._reached = found = reached(self._task)
                    parts, body = found.parts, found.body
                    more = _environment_parts(*found.front_ends)
                    if self._task.declared is not NOTHING:
                        more = [*self._task.declared.parts, *more]
                    if more:
                        parts, body = (*parts, *more), body and body + encoding(more)
                    self._direct = Key(parts, body)
                except UnknownInput as error:
                    self._unknown = str(error)
            return self._direct

    @property
    def why_unknown(self) -> str:
        """Why there is no direct key; empty where there is one."""
        return self._unknown

    def inspect(self, values: dict[str, Any]) -> Look:
        """Return what a look-up would find now, without running or counting anything."""
        with self._lock:
            return self._find(layers.generator(), values)

    def place(self) -> rows.Place:
        """Return where the recipe stands, and the texts of its code; slow."""
        from kcl import running

        with self._lock:
            return running.place_of(self._reached)

    def _report(self, layer: layers.Layer, look: Look, seconds: float) -> None:
        digest = self._direct.digest if self._direct else ""
        entries, saved = [], 0.0
        if look.outcome == "hit" and look.entry is not None:
            entries, spared = [look.entry.key.digest], recorded_seconds(look.entry)
            # What verifies a hit runs the recipe.
            saved = spared - seconds if spared and look.reason != _VERIFIED else 0.0
        event = Event(layer.name, self.name, digest, look.outcome, look.reason, seconds, look.size, saved)
        events.emit(event, look.key, entries)

    def _find(self, layer: layers.Layer, values: dict[str, Any]) -> Look:
        """Look in the generator layer."""
        if all(layer.off(frozenset({kind})) for kind in ("loopy", "opencl")):
            return Look(None, "bypass", f"off: {layer.off()}")
        if not layer.off():
            kept.load()
        direct = self.direct_key()
        off = layer.off(self._reached.front_ends if self._reached else frozenset())
        if off:
            return Look(None, "bypass", f"off: {off}")
        if direct is None or self._reached is None:
            return Look(None, "bypass", self._unknown)
        row = layer.look_up(direct.digest, direct)
        if row.entry is None:
            return Look(None, row.outcome, row.reason, key=direct)
        try:
            return self._from_row(layer, direct, row, values)
        except Exception as error:  # a row of another kcl may be of any form
            return _unusable(layer, row.entry, error)

    def _from_row(self, layer: layers.Layer, direct: Key, row: layers.Found, values: dict[str, Any]) -> Look:
        assert row.entry is not None
        assert self._reached is not None
        directory = self._reached.directory
        self.base = base = self._as_of_now(rows.base_of(row.entry))
        if rows.belongs_elsewhere(row.entry, directory):
            return Look(None, "miss", "the stored code names the directory of another copy of the project", key=direct)
        if rows.is_whole(row.entry):
            return _readied(layer, row.entry, directory, row.size)
        dtypes = dtypes_of(unpack(base.open.packed, values))
        keys = rows.special_keys(direct, base, dtypes)
        for key in keys:
            found = layer.look_up(key.digest, key)
            elsewhere = found.entry is not None and rows.belongs_elsewhere(found.entry, directory)
            if found.entry is not None and not elsewhere and rows.fits(found.entry, base, dtypes):
                return _readied(layer, found.entry, directory, row.size + found.size)
            if found.outcome == "error":
                return Look(None, "error", found.reason, key=key)
        return Look(None, "miss", rows.difference(rows.base_of(row.entry), base, dtypes), key=keys[0])

    def _as_of_now(self, base: Base) -> Base:
        """Give everything that the recipe reads the content that it had at this Kernel's first look-up."""
        if not base.reads:
            return base
        from kcl import manifest

        assert self._reached is not None
        reads = []
        for read in base.reads:
            place = (read.base, read.path)
            if place not in self._moment:
                self._moment[place] = manifest.content(read, self._reached.directory)
            reads.append(read._replace(digest=self._moment[place]))
        return base._replace(reads=tuple(reads))

    def _joined(self, values: dict[str, Any]) -> str:
        """Take the lead for this code, or wait for who has it; say who may have made it. Other dtypes do not wait."""
        flight = layers.generator().join(self._joint(values), self.name)
        if flight is None:
            return ""
        self._flights.setdefault(get_ident(), []).append(flight)
        return f"{flight.by} generated it meanwhile"

    def _joint(self, values: dict[str, Any]) -> str:
        """Return the digest under which processes wait for the code for these dtypes."""
        assert self._direct is not None
        dtypes = sorted((name, dtype_text(dtype)) for name, dtype in dtypes_of(values).items())
        return Key([Part("direct key", self._direct.digest), *dtypes]).digest

    def _completed(self, layer: layers.Layer, values: dict[str, Any], call: bool, look: Look, check: bool) -> Look:
        """Make what was not found; under `check` compare what is there with what the recipe generates."""
        if look.ready is None:
            return self._make(layer, values, call, look, check)
        return self._verified(layer, values, look) if check else look

    def _make(self, layer: layers.Layer, values: dict[str, Any], call: bool, look: Look, check: bool) -> Look:
        """Run the recipe and generate, or take what was generated from an equal result."""
        started = time.perf_counter()
        ran, used = self._ran(values, call)
        off = look.reason if look.reason.startswith("off: ") else self._off(layer, ran.result)
        code = self._code(layer, ran, used, lone=bool(off))
        if code.fault:
            look = look._replace(outcome="error", reason=code.fault)
        refused = code.refused or off
        if check and not off and (code.reused or not (refused or look.outcome == "bypass")):
            wrong = self._wrong(code.generated, used)
            if wrong is not None:
                layer.fault("verify", wrong)
                look = look._replace(outcome="error", reason=str(wrong))
                refused = "" if code.reused else str(wrong)
                code = self._code(layer, ran, used, lone=True)
        if refused and look.outcome == "miss":
            look = look._replace(outcome="bypass", reason=refused)
        if code.reused:
            look = look._replace(reason=f"{look.reason}; {_REUSED}")
        key, size = self._store(layer, look, code, used, refused, time.perf_counter() - started)
        return look._replace(ready=_ready(code), size=size, key=key or look.key)

    def _verified(self, layer: layers.Layer, values: dict[str, Any], look: Look) -> Look:
        """Compare a hit with what the recipe generates; where it differs that is used, and takes the entry's place."""
        assert look.ready is not None
        assert look.entry is not None
        assert self.base is not None
        dtypes = dtypes_of(unpack(self.base.open.packed, values))
        used = {name: dtypes[name] for name in look.entry.metadata["chosen"]}
        _generated, code = from_entry(look.entry)
        wrong = self._wrong(look.ready.generated, used, code)
        if wrong is None:
            return look._replace(reason=_VERIFIED)
        layer.set_aside(look.entry.key.digest, look.entry.pack(), wrong)
        self.base = None
        look = self._make(layer, values, False, Look(None, "error", str(wrong), key=look.entry.key), False)
        return look._replace(reason=str(wrong))

    def _ran(self, values: dict[str, Any], call: bool) -> tuple[Outcome, Dtypes]:
        """Run the recipe, once a Kernel, and see which dtypes decide the code: (outcome, those given)."""
        from kcl import running

        if self._result is not None and self.base is not None:
            ran = running.Outcome(self._result, self.base.reads, "")
        else:
            ran = running.run(self._task, self._reached)
            self._moment.update({(read.base, read.path): read.digest for read in ran.reads})
            self._result = None if ran.refused else ran.result
        dtypes = dtypes_of(unpack(ran.result.packed, values))
        if self.base is None or self.base.reads != ran.reads:
            self.base = Base(ran.result.open(dtypes), ran.reads)
        if call:
            _require(self.base.open, values)
        used = {name: dtype for name, dtype in dtypes.items() if name in self.base.open.names}
        if ran.result.follows(used, self.base.open.needed):
            used = {name: dtype for name, dtype in used.items() if name in self.base.open.needed}
        return ran, used

    def _wrong(self, stored: Generated, used: Dtypes, code: CodeType | None = None) -> WrongEntry | None:
        from kcl.verify import recipes

        return recipes.check(self._task, self._reached, stored, used, code)

    def _off(self, layer: layers.Layer, result: frontends.Result) -> str:
        off = layer.off(frozenset({result.front_end}))
        return f"off: {off}" if off else ""

    def _code(self, layer: layers.Layer, ran: Outcome, used: Dtypes, lone: bool) -> Code:
        """Generate, or take what was generated from an equal result; `lone` code looks for no other."""
        from kcl import running

        identity = None if lone else running.identity(ran.result)
        unit, fault = None, ""
        if identity is not None:
            unit = rows.unit_key(identity, _environment_parts(ran.result.front_end), used)
            found, fault = rows.of_unit(layer, unit)
            if found is not None:
                return Code(found._replace(kernel=self.name), ran.refused, unit, True)
        generated, unfit, alone = running.generate(self._task, ran.result, used)
        return Code(generated, ran.refused or unfit, unit if alone else None, False, fault)

    def _store(
        self, layer: layers.Layer, look: Look, code: Code, used: Dtypes, refused: str, seconds: float
    ) -> tuple[Key | None, int]:
        """Publish code under the direct key, or where that is not known under the identity of the result alone."""
        direct, reached = self._direct, self._reached
        if not refused and look.outcome != "bypass" and direct is not None and reached is not None:
            from kcl import running

            assert self.base is not None
            place, made = running.place_of(reached), code.generated
            return rows.store(layer, direct, place, self.base, made, used, code.unit, seconds)
        if code.reused or code.unit is None:
            return None, 0
        return None, rows.store_unit(layer, code.unit, code.generated, seconds)


def dtypes_of(values: Mapping[str, Any]) -> dict[str, np.dtype[Any]]:
    """Read dtypes from arrays, numpy scalars, dtypes, types and names of types; anything else says nothing."""
    import numpy as np

    found = {}
    for name, value in values.items():
        if isinstance(value, (type, str, np.dtype)):
            found[name] = np.dtype(value)
        elif hasattr(value, "dtype"):
            found[name] = value.dtype
    return found


def _chosen(layer: layers.Layer, digest: str) -> bool:
    if not layer.verify:
        return False
    from kcl.verify import recipes

    return recipes.chosen(layer.verify, digest)


def _readied(layer: layers.Layer, entry: Entry, directory: str, size: int) -> Look:
    """Make stored code ready to launch; whatever that raises, the row is set aside and the code is made anew."""
    try:
        return Look(rows.ready(entry, directory), "hit", "", size, entry)
    except Exception as error:
        return _unusable(layer, entry, error)


def _unusable(layer: layers.Layer, entry: Entry, error: Exception) -> Look:
    layer.set_aside(entry.key.digest, entry.pack(), error)
    return Look(None, "error", f"the stored code could not be used: {error}", key=entry.key)


def _ready(code: Code) -> Ready:
    return Ready(code.generated, instantiate(code.generated), code.generated.digest)


def _environment_parts(*front_ends: str) -> list[Part]:
    """Return what loopy itself reads from the environment while it generates."""
    if "opencl" in front_ends and "loopy" not in front_ends:
        return []
    return [Part("argument checks", "skipped")] if adapters.skips_argument_checks() else []


def _require(opened: Open, values: Mapping[str, Any]) -> None:
    missing = sorted(set(opened.required) - values.keys())
    if missing:
        raise MissingArguments(missing)
