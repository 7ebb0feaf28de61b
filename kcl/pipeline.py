"""The line, in order: direct key, generator layer, recipe, program, launcher; and nothing else."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kcl import adapters, events, frontends, layers, manifest, observe, rows
from kcl.errors import DamagedEntry, UnknownInput
from kcl.events import Event
from kcl.frontends import Open
from kcl.generated import instantiate
from kcl.key import Key, Part
from kcl.launch import MissingArguments, unpack
from kcl.manifest import Read
from kcl.reach import Reached, reach
from kcl.rows import Base, Ready

if TYPE_CHECKING:
    import numpy as np


class Line:
    """One Kernel on the line: what is known so far. Thread-safe; the key is of the moment of the first look-up."""

    def __init__(self, name: str, function: Callable[..., object], arguments: dict[str, Any]) -> None:
        self.name = name
        self._function = function
        self._arguments = arguments
        self._lock = threading.RLock()
        self._reached: Reached | None = None
        self._unknown = ""
        self._direct: Key | None = None
        self._result: frontends.Result | None = None
        self._moment: dict[tuple[str, str], str] = {}
        self.base: Base | None = None

    def ready(self, values: dict[str, Any], call: bool) -> tuple[Ready, dict[str, np.dtype[Any]], Open]:
        """Return generated code for the dtypes among `values`, from the generator layer or by running the recipe.

        `values` are arguments by name, or dtypes in their place; the dtypes that were read and what is open come
        back too. Raises MissingArguments where `call` is true and a required array is not there; the recipe's own
        error; RecipeError; CacheMiss.
        """
        with self._lock:
            layer = layers.generator()
            started = time.perf_counter()
            found, outcome, reason, size = self._find(layer, values)
            if self.base is not None and call:
                _require(self.base.open, values)
            digest = self._direct.digest if self._direct else ""
            if found is None:
                layer.demand_hit(Event(layer.name, self.name, digest, outcome, reason, 0.0, 0))
                try:
                    found, refused, size = self._make(layer, values, call, outcome)
                except BaseException:
                    # The recipe or the generator failed: the look-up was made all the same, and is counted.
                    seconds = time.perf_counter() - started
                    events.emit(Event(layer.name, self.name, digest, outcome, reason, seconds, 0))
                    raise
                if refused and outcome != "bypass":
                    outcome, reason = "bypass", refused
            events.emit(Event(layer.name, self.name, digest, outcome, reason, time.perf_counter() - started, size))
            assert self.base is not None
            return found, dtypes_of(unpack(self.base.open.packed, values)), self.base.open

    def direct_key(self) -> Key | None:
        """Return the direct key, None where it cannot be known; `why_unknown` says why."""
        with self._lock:
            if self._direct is None and not self._unknown:
                try:
                    self._reached = reach(self._function, self._arguments)
                    self._direct = Key([*self._reached.parts, *_environment_parts(self._reached)])
                except UnknownInput as error:
                    self._unknown = str(error)
            return self._direct

    @property
    def why_unknown(self) -> str:
        """Why there is no direct key; empty where there is one."""
        return self._unknown

    def inspect(self, values: dict[str, Any]) -> tuple[Ready | None, str, str]:
        """Say what a look-up would find now, as (Ready, outcome, reason), without running or counting anything."""
        with self._lock:
            found, outcome, reason, _size = self._find(layers.generator(), values)
            return found, outcome, reason

    def _find(self, layer: layers.Layer, values: dict[str, Any]) -> tuple[Any, str, str, int]:
        """Look in the generator layer: (Ready or None, outcome, reason, bytes)."""
        if all(layer.off(frozenset({kind})) for kind in ("loopy", "opencl")):
            return None, "bypass", f"off: {layer.off()}", 0
        direct = self.direct_key()
        off = layer.off(self._reached.front_ends if self._reached else frozenset())
        if off:
            return None, "bypass", f"off: {off}", 0
        if direct is None or self._reached is None:
            return None, "bypass", self._unknown, 0
        row = layer.look_up(direct.digest, direct)
        if row.entry is None:
            return None, row.outcome, row.reason, 0
        try:
            return self._from_row(layer, direct, row, values)
        except (DamagedEntry, KeyError, TypeError, ValueError, SyntaxError) as error:
            layer.set_aside(direct.digest, row.entry.pack(), error)
            return None, "error", f"the stored code could not be used: {error}", 0

    def _from_row(
        self, layer: layers.Layer, direct: Key, row: layers.Found, values: dict[str, Any]
    ) -> tuple[Any, str, str, int]:
        assert row.entry is not None
        assert self._reached is not None
        directory = self._reached.directory
        self.base = base = self._as_of_now(rows.base_of(row.entry))
        if rows.belongs_elsewhere(row.entry, directory):
            return None, "miss", "the stored code names the directory of another copy of the project", 0
        if rows.is_whole(row.entry):
            return rows.ready(row.entry, directory), "hit", "", row.size
        dtypes = dtypes_of(unpack(base.open.packed, values))
        for key in rows.special_keys(direct, base, dtypes):
            found = layer.look_up(key.digest, key)
            elsewhere = found.entry is not None and rows.belongs_elsewhere(found.entry, directory)
            if found.entry is not None and not elsewhere and rows.fits(found.entry, base, dtypes):
                return rows.ready(found.entry, directory), "hit", "", row.size + found.size
            if found.outcome == "error":
                return None, "error", found.reason, 0
        return None, "miss", rows.difference(rows.base_of(row.entry), base, dtypes), 0

    def _as_of_now(self, base: Base) -> Base:
        """Give everything that the recipe reads the content that it had at this Kernel's first look-up."""
        assert self._reached is not None
        reads = []
        for read in base.reads:
            place = (read.base, read.path)
            if place not in self._moment:
                self._moment[place] = manifest.content(read, self._reached.directory)
            reads.append(read._replace(digest=self._moment[place]))
        return base._replace(reads=tuple(reads))

    def _make(self, layer: layers.Layer, values: dict[str, Any], call: bool, outcome: str) -> tuple[Ready, str, int]:
        """Run the recipe and generate: (Ready, why it is not stored, bytes)."""
        result, refused, reads = self._run()
        dtypes = dtypes_of(unpack(result.packed, values))
        if self.base is None or self.base.reads != reads:
            self.base = Base(result.open(dtypes), reads)
        if call:
            _require(self.base.open, values)
        used = {name: dtype for name, dtype in dtypes.items() if name in self.base.open.names}
        if result.follows(used, self.base.open.needed):
            used = {name: dtype for name, dtype in used.items() if name in self.base.open.needed}
        with observe.observing() as observed, _quiet(result.front_end):
            generated = result.generate(self.name, used)
        refused = refused or result.volatile or _seen_in_generating(observed)
        size = 0
        if not refused and outcome != "bypass" and self._direct is not None and self._reached is not None:
            if layer.off(frozenset({result.front_end})):
                refused = f"off: {layer.off(frozenset({result.front_end}))}"
            else:
                size = rows.store(layer, self._direct, self._place(), self.base, generated, used)
        return Ready(generated, instantiate(generated), generated.digest), refused, size

    def _run(self) -> tuple[frontends.Result, str, tuple[Read, ...]]:
        """Run the recipe once a Kernel; later dtypes are generated from the same result."""
        if self._result is not None and self.base is not None:
            return self._result, "", self.base.reads
        front_ends = self._reached.front_ends if self._reached else ()
        begin = time.time_ns()
        result, observed = self._watched("loopy" if "loopy" in front_ends else "")
        files = sorted({*observed.files, *result.reads})
        refused = observed.unknowable and f"the recipe {observed.unknowable} while it ran"
        if any(_touched_since(path, begin) for path in files):
            refused = refused or "a file that the recipe reads changed while it ran"
        directory, texts, _asked = self._place()
        reads = (
            *manifest.files(files, directory, texts.values()),
            *manifest.links(observed.links, directory, texts.values()),
            *manifest.variables(observed.variables),
            *([manifest.working_directory()] if observed.working_directory else []),
        )
        self._moment.update({(read.base, read.path): read.digest for read in reads})
        if not refused:
            self._result = result
        return result, refused, reads

    def _place(self) -> rows.Place:
        if self._reached is None:
            return rows.Place("", {}, False)
        return rows.Place(self._reached.directory, self._reached.texts(), self._reached.placed)

    def _watched(self, front_end: str) -> tuple[frontends.Result, observe.Observed]:
        with observe.observing() as observed, _quiet(front_end):
            value = self._function(**self._arguments)
        result = frontends.accept(value, self.name)
        if result.front_end == "loopy" and front_end != "loopy":
            # Nobody could tell that it would be loopy, and its own caches were on: what they returned is not kept.
            return self._watched("loopy")
        return result, observed


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


def _seen_in_generating(observed: observe.Observed) -> str:
    """Say what keeps a row from being stored: what the user's code, a preamble generator say, did meanwhile."""
    if observed.unknowable:
        return f"generating {observed.unknowable}"
    if observed.files:
        return f"generating read {os.path.basename(next(iter(observed.files)))}: read it in the recipe"
    return ""


def _environment_parts(reached: Reached) -> list[Part]:
    """Return what loopy itself reads from the environment while it generates."""
    if "opencl" in reached.front_ends and "loopy" not in reached.front_ends:
        return []
    return [Part("argument checks", "skipped")] if adapters.skips_argument_checks() else []


def _require(opened: Open, values: Mapping[str, Any]) -> None:
    missing = sorted(set(opened.required) - values.keys())
    if missing:
        raise MissingArguments(missing)


def _quiet(front_end: str) -> Any:
    if front_end != "loopy":
        return observe.nothing()
    with observe.unobserved():
        from kcl.frontends.loopy import quiet
    return quiet()


def _touched_since(path: str, begin: int) -> bool:
    try:
        return os.stat(path).st_mtime_ns > begin
    except OSError:
        return True
