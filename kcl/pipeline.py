"""The line, in order: generator key, generator layer, recipe or record, program, launcher; and nothing else.

What only a miss needs is imported there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from threading import get_ident
from typing import TYPE_CHECKING, Any

from kcl import events, layers, rows
from kcl.entry import Entry, recorded_seconds
from kcl.errors import CacheMiss, UnknownInput, WrongEntry
from kcl.events import Event
from kcl.frontends import Open
from kcl.generated import Generated, dtype_text, from_entry, show
from kcl.key import Key, Part
from kcl.launch import MissingArguments, unpack
from kcl.namedtuple import NamedTuple
from kcl.origins import Origin
from kcl.record import proofs
from kcl.rows import Base, Dtypes, Outcome, Place, Ready

if TYPE_CHECKING:
    from types import CodeType

    import numpy as np

    from kcl import frontends
    from kcl.flight import Flight


_VERIFIED = "verified"
_SLOW = 0.05  # seconds of a recipe of which `kcl.advice` has something to say
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

    def __init__(self, origin: Origin) -> None:
        self.name = origin.name
        self._origin = origin
        self._lock = threading.RLock()
        self._unknown = ""
        self._key: Key | None = None
        self._outcome: Outcome | None = None
        # What others wait for, until the thread that leads it seeks the program.
        self._flights: dict[int, list[Flight]] = {}
        self.base: Base | None = None

    def ready(self, values: dict[str, Any], call: bool) -> tuple[Ready, dict[str, np.dtype[Any]], Open]:
        """Return generated code for the dtypes among `values`, from the generator layer or made now.

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
            look = Look(None, "miss", "the recipe raised an error")
            try:
                look = self._find(layer, values)
                if self.base is not None and call:
                    _require(self.base.open, values)
                if look.ready is None:
                    layer.demand_hit(self._event(layer, look), look.key, lambda: self._texts(look))
                if meanwhile is None and look.outcome == "miss":
                    return None  # to wait, if at all, without the lock
                if meanwhile is not None and look.ready is not None:
                    look = look._replace(reason=meanwhile)
                look = self._completed(layer, values, call, look, _chosen(layer, self._digest))
            except (CacheMiss, MissingArguments):
                self.land()
                raise
            except BaseException as error:
                self.land()
                # The recipe or the generator failed: the look-up was made all the same, and is counted.
                if isinstance(error, WrongEntry):
                    look = look._replace(outcome="error", reason=str(error))
                seconds = time.perf_counter() - started
                events.emit(self._event(layer, look, seconds), look.key, texts=self._texts(look))
                raise
            if not (call and look.outcome == "miss" and look.size):
                self.land()
            self._report(layer, look, time.perf_counter() - started)
            assert look.ready is not None
            show(look.ready.generated)
            if look.outcome == "hit" and self._origin.own_seconds > _SLOW:
                from kcl import advice

                advice.on_slow_recipe(self.name, self._origin.own_seconds)
            assert look.ready is not None
            assert self.base is not None
            return look.ready, dtypes_of(unpack(self.base.open.packed, values)), self.base.open

    def wait(self, values: dict[str, Any]) -> None:
        """Wait until who makes the code for `values` has the lead for the program too, unless this thread makes it.

        The process that generates code so builds the program, and has the lead for the next kernel: the others import
        nothing that generates code.
        """
        if get_ident() not in self._flights and self._key is not None:
            flight = layers.generator().join(self._joint(values), self.name)
            if flight is not None:
                flight.land()

    def land(self) -> None:
        """Let others go on with the code that this thread made, where they wait for it."""
        for flight in self._flights.pop(get_ident(), ()):  # no lock: its holder may wait for this thread
            flight.land()

    def generator_key(self) -> Key | None:
        """Return the generator key, None where it cannot be known; `why_unknown` says why."""
        with self._lock:
            if self._key is None and not self._unknown:
                try:
                    self._key = self._origin.key()
                except UnknownInput as error:
                    self._unknown = str(error)
            return self._key

    @property
    def why_unknown(self) -> str:
        """Why there is no generator key; empty where there is one."""
        return self._unknown

    def inspect(self, values: dict[str, Any]) -> Look:
        """Return what a look-up would find now, without counting anything."""
        with self._lock:
            return self._find(layers.generator(), values)

    def is_stored(self) -> bool:
        """Tell whether the generator layer holds a row of this kernel."""
        key, layer = self.generator_key(), layers.generator()
        return key is not None and not layer.off() and layer.look_up(key.digest, key).entry is not None

    def place(self) -> Place:
        """Return where the recipe stands, and the texts of its code; slow."""
        with self._lock:
            return self._origin.place()

    def _texts(self, look: Look) -> dict[str, bytes]:
        """Return what explains a miss that stores no row; nothing where it cannot be described."""
        if look.outcome != "miss" or look.key is None:
            return {}
        try:
            return rows.texts(self._origin.place())
        except Exception as error:
            events.logger().info("the miss of %s cannot be described: %r", self.name, error)
            return {}

    @property
    def _digest(self) -> str:
        return self._key.digest if self._key else ""

    def _event(self, layer: layers.Layer, look: Look, seconds: float = 0.0) -> Event:
        return Event(layer.name, self.name, self._digest, look.outcome, look.reason, seconds, 0)

    def _report(self, layer: layers.Layer, look: Look, seconds: float) -> None:
        entries, saved = [], 0.0
        if look.outcome == "hit" and look.entry is not None:
            entries, spared = [look.entry.key.digest], recorded_seconds(look.entry)
            # What verifies a hit generates.
            saved = spared - seconds if spared and look.reason != _VERIFIED else 0.0
        event = self._event(layer, look, seconds)._replace(bytes=look.size, saved=saved)
        events.emit(event, look.key, entries)

    def _find(self, layer: layers.Layer, values: dict[str, Any]) -> Look:
        """Look in the generator layer."""
        if all(layer.off(frozenset({kind})) for kind in ("loopy", "opencl")):
            return Look(None, "bypass", f"off: {layer.off()}")
        key = self._key or self.generator_key()
        off = layer.off(self._origin.front_ends)
        if off:
            return Look(None, "bypass", f"off: {off}")
        if key is None:
            return Look(None, "bypass", self._unknown)
        row = layer.look_up(key.digest, key)
        if row.entry is None:
            return Look(None, row.outcome, row.reason, key=key)
        try:
            return self._from_row(layer, key, row, values)
        except Exception as error:  # a row of another kcl may be of any form
            return _unusable(layer, row.entry, error)

    def _from_row(self, layer: layers.Layer, key: Key, row: layers.Found, values: dict[str, Any]) -> Look:
        assert row.entry is not None
        directory = self._origin.directory
        self.base = base = self._origin.as_of_now(rows.base_of(row.entry))
        if rows.belongs_elsewhere(row.entry, directory):
            return Look(None, "miss", "the stored code names the directory of another copy of the project", key=key)
        if rows.is_whole(row.entry):
            return self._readied(layer, row.entry, directory, row.size)
        dtypes = dtypes_of(unpack(base.open.packed, values))
        keys = rows.special_keys(key, base, dtypes)
        for special in keys:
            found = layer.look_up(special.digest, special)
            elsewhere = found.entry is not None and rows.belongs_elsewhere(found.entry, directory)
            if found.entry is not None and not elsewhere and rows.fits(found.entry, base, dtypes):
                return self._readied(layer, found.entry, directory, row.size + found.size)
            if found.outcome == "error":
                return Look(None, "error", found.reason, key=special)
        return Look(None, "miss", rows.difference(rows.base_of(row.entry), base, dtypes), key=keys[0])

    def _readied(self, layer: layers.Layer, entry: Entry, directory: str, size: int) -> Look:
        """Make stored code ready to launch; whatever that raises, the row is set aside and the code is made anew."""
        try:
            return Look(self._origin.adapted(rows.ready(entry, directory)), "hit", self._origin.remark, size, entry)
        except Exception as error:
            return _unusable(layer, entry, error)

    def _joined(self, values: dict[str, Any]) -> str:
        """Take the lead for this code, or wait for who has it; say who may have made it. Other dtypes do not wait."""
        flight = layers.generator().join(self._joint(values), self.name)
        if flight is None:
            return ""
        self._flights.setdefault(get_ident(), []).append(flight)
        return f"{flight.by} generated it meanwhile"

    def _joint(self, values: dict[str, Any]) -> str:
        """Return the digest under which processes wait for the code for these dtypes."""
        assert self._key is not None
        dtypes = sorted((name, dtype_text(dtype)) for name, dtype in dtypes_of(values).items())
        return Key([Part("generator key", self._key.digest), *dtypes]).digest

    def _completed(self, layer: layers.Layer, values: dict[str, Any], call: bool, look: Look, check: bool) -> Look:
        """Make what was not found; under `check` compare what is there with what the recipe generates."""
        if look.ready is None:
            return self._make(layer, values, call, look, check)
        return self._verified(layer, values, look) if check else look

    def _make(self, layer: layers.Layer, values: dict[str, Any], call: bool, look: Look, check: bool) -> Look:
        """Make the result and generate, or take what was generated from an equal result."""
        started = time.perf_counter()
        made, used = self._made(values, call)
        off = look.reason if look.reason.startswith("off: ") else self._off(layer, made.result)
        code = self._code(layer, made, used, lone=bool(off))
        if code.fault:
            look = look._replace(outcome="error", reason=code.fault)
        refused = code.refused or off
        if check and not off and (code.reused or not (refused or look.outcome == "bypass")):
            wrong = self._wrong(code.generated, used)
            if wrong is not None:
                layer.fault("verify", wrong)
                look = look._replace(outcome="error", reason=str(wrong))
                refused = "" if code.reused else str(wrong)
                code = self._code(layer, made, used, lone=True)
        if refused and look.outcome == "miss":
            look = look._replace(outcome="bypass", reason=refused)
        if code.reused:
            look = look._replace(reason=f"{look.reason}; {_REUSED}")
        key, size = self._store(layer, look, code, used, refused, time.perf_counter() - started)
        ready = self._origin.adapted(rows.made_ready(code.generated))
        return look._replace(ready=ready, size=size, key=key or look.key)

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

    def _made(self, values: dict[str, Any], call: bool) -> tuple[Outcome, Dtypes]:
        """Make the result, once a Kernel, and see which dtypes decide the code: (outcome, those given)."""
        if self._outcome is not None and self.base is not None:
            made = self._outcome._replace(reads=self.base.reads)
        else:
            made = self._origin.outcome()
            self._outcome = None if made.refused else made
        dtypes = dtypes_of(unpack(made.result.packed, values))
        if self.base is None or self.base.reads != made.reads:
            self.base = Base(made.result.open(dtypes), made.reads)
        if call:
            _require(self.base.open, values)
        used = {name: dtype for name, dtype in dtypes.items() if name in self.base.open.names}
        if made.result.follows(used, self.base.open.needed):
            used = {name: dtype for name, dtype in used.items() if name in self.base.open.needed}
        return made, used

    def _wrong(self, stored: Generated, used: Dtypes, code: CodeType | None = None) -> WrongEntry | None:
        from kcl.verify import recipes

        return recipes.check(self.name, self._origin.anew, stored, used, code)

    def _off(self, layer: layers.Layer, result: frontends.Result) -> str:
        off = layer.off(frozenset({result.front_end}))
        return f"off: {off}" if off else ""

    def _code(self, layer: layers.Layer, made: Outcome, used: Dtypes, lone: bool) -> Code:
        """Generate, or take what was generated from an equal result; `lone` code looks for no other."""
        from kcl import running

        unit = None if lone else running.unit_key(made.result, used)
        fault = ""
        if unit is not None:
            found, fault = rows.of_unit(layer, unit)
            if found is not None:
                return Code(found._replace(kernel=self.name), made.refused, unit, True)
        generated, unfit, alone = self._origin.generate(used)
        return Code(generated, made.refused or unfit, unit if alone else None, False, fault)

    def _store(
        self, layer: layers.Layer, look: Look, code: Code, used: Dtypes, refused: str, seconds: float
    ) -> tuple[Key | None, int]:
        """Publish code under the generator key, or where that is not known under the identity of the result alone."""
        if not refused and look.outcome != "bypass" and self._key is not None:
            assert self.base is not None
            proofs.write()
            place = self._origin.place()
            key, size = rows.store(layer, self._key, place, self.base, code.generated, used, code.unit, seconds)
            if self._origin.recipe and place.record is not None:
                from kcl.history import restless

                places = list(
                    dict.fromkeys([self._key.digest, key.digest, code.unit.digest if code.unit else key.digest])
                )
                restless.missed(self._origin.recipe, self.name, places, place.texts, place.record)
            return key, size
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


def _unusable(layer: layers.Layer, entry: Entry, error: Exception) -> Look:
    layer.set_aside(entry.key.digest, entry.pack(), error)
    return Look(None, "error", f"the stored code could not be used: {error}", key=entry.key)


def _require(opened: Open, values: Mapping[str, Any]) -> None:
    missing = sorted(set(opened.required) - values.keys())
    if missing:
        raise MissingArguments(missing)
