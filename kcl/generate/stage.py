"""`Generate`, the first stage: from a recipe to code that is ready to launch, through the generator layer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl.base import events, port, process
from kcl.cache import layers
from kcl.cache.entry import Entry, recorded_seconds
from kcl.cache.key import Key, Part
from kcl.cache.lookup import Look, Searching, Stage
from kcl.code import Argument, Code, LaunchableCode, Packed, dtype_text, made_ready
from kcl.errors import UnknownInput
from kcl.generate import rows
from kcl.launch import Arguments, MissingArguments, unpack

if TYPE_CHECKING:
    import numpy as np

    from kcl.cache.layer import Layer
    from kcl.code import Dtypes, Generated
    from kcl.generate.evidence import Evidence
    from kcl.generate.protocol import OpenArguments, Result, Unit


class CallValues(NamedTuple):
    """The arguments of one call by name; a dtype may stand for an argument.

    Made by a call of a Kernel; ends in the first stage.

    With `launch` every required array must be given, and the code will be built at once.
    """

    values: Arguments
    launch: bool = False


class Generate(Stage[CallValues], process.LockedState):
    """The generator stage of one Kernel, with what is known of its result so far. Thread-safe.

    The key is computed at the first look-up. If the program can edit the unit, it is computed anew for each look-up.
    `is_mixed` is True once an edit has changed the key, so that the Kernel has code of more than one unit.
    """

    verb = "generated"
    unusable = "the stored code could not be used"

    def __init__(self, result: Result) -> None:
        super().__init__()
        # The open arguments and the front end; known once a row was read or the unit was made.
        self.base: OpenArguments | None = None
        self.front_end = ""
        self._result = result
        # Why there is no key.
        self._unknown = ""
        self._key: Key | None = None
        self._unit: Unit | None = None
        self.is_mixed = False

    @property
    def layer(self) -> Layer:
        """The generator layer."""
        return layers.generator()

    def key(self) -> Key | None:
        """Return the generator key; None if it cannot be known."""
        with self.lock:
            if self._key is None and not self._unknown:
                try:
                    self._key = self._result.key()
                    # Made again: without a key the library may have taken the unit from its own caches.
                    self._unit = None
                except UnknownInput as error:
                    self._unknown = str(error)
            return self._key

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments of the unit; none before it was made."""
        return () if self._unit is None else self._unit.arguments

    def evidence(self) -> Evidence:
        """Return the texts that explain a miss; slow."""
        with self.lock:
            return self._result.evidence()

    def choice(self, values: Arguments) -> tuple[Any, ...]:
        """Return the dtypes that a call gives for the open arguments; empty before these are known."""
        if self.base is None:
            return ()
        dtypes = dtypes_of(values, self.base.packed)
        return tuple([dtypes.get(name) for name in self.base.names])

    def is_stored(self) -> bool:
        """Return True if the layer holds a row of this kernel, for any dtypes."""
        key, layer = self.key(), self.layer
        off = key is None or layer.off(self._result.front_ends)
        return key is not None and not off and layer.look_up(key.digest, key).entry is not None

    def unstored(self, call: CallValues) -> Generated:
        """Make the result and generate code, past the layer; raises the errors of the recipe and of its front end."""
        with self.lock:
            return self._result.generate(self._made(call)[1])

    # the methods that the look-up calls

    def name(self, _call: CallValues) -> str:
        """The name of the kernel."""
        return self._result.name

    def begin(self, _call: CallValues) -> None:
        """If the program can have edited the unit, compute its key anew; forget what belongs to another content."""
        with self.lock:
            if not self._result.renew():
                return
            before, self._key, self._unknown = self._key, None, ""
            now = None if self.layer.off(self._result.front_ends) else self.key()
            if before is None or now is None or before.digest != now.digest:
                self.base, self._unit, self.is_mixed = None, None, True

    def off(self, _call: CallValues) -> str:
        """Return why the layer is off for the recipe; the front end of its result decides which switches apply."""
        # The key names the front end of the result. With the layer off no recipe runs for a key.
        if not self.layer.is_off_for_all(self._result.front_ends):
            self.key()
        return self.layer.off(self._result.front_ends)

    def guard(self, _call: CallValues) -> AbstractContextManager[object]:
        """Return the lock under which one thread at a time works on this Kernel."""
        return self.lock

    def lead_digest(self, call: CallValues, look: Look) -> str:
        """Return a digest of the key and the dtypes of a call, so that calls with other dtypes do not wait."""
        dtypes = sorted((name, dtype_text(dtype)) for name, dtype in dtypes_of(call.values).items())
        return Key([Part("generator key", look.digest), *dtypes]).digest

    def search(self, call: CallValues) -> Searching:
        """Look at the row under the generator key, then at the rows for the dtypes; see `kcl.generate.rows`.

        The address of a row is the digest of its key.
        """
        key = self.key()
        if key is None:
            return Look("bypass", self._unknown)
        look = yield from self._rows(key, call)
        if call.launch and self.base is not None:
            _require(self.base, call.values)
        return look._replace(digest=key.digest)

    def _rows(self, key: Key, call: CallValues) -> Searching:
        answer = yield key.digest, key
        entry, size = answer.entry, answer.size
        if entry is None:
            return Look(answer.outcome, answer.reason, key)
        self.base = base = rows.base_of(entry)
        self.front_end = entry.metadata["front_end"]
        if rows.is_whole(entry):
            return _hit(entry, size)
        dtypes = dtypes_of(call.values, base.packed)
        keys = rows.special_keys(key, base, dtypes)
        for special in keys:
            answer = yield special.digest, special
            entry = answer.entry
            if entry is not None and rows.fits(entry, base, dtypes):
                return _hit(entry, size + answer.size)
            if answer.outcome == "error":
                return Look("error", answer.reason, special)
        return Look("miss", rows.difference(base, dtypes), keys[0])

    def load(self, call: CallValues, look: Look) -> Look:
        """Make stored code ready to launch."""
        (entry,) = look.entries
        ready = rows.ready(entry)
        ready = self._of_this_run(ready._replace(code=self._named(ready.code)), call)
        if self.layer.options.dump:
            port("dump").note_code(ready.code)
        return look._replace(value=ready, reason=self._result.remark)

    def on_hit(self, call: CallValues, look: Look) -> Look:
        """Under `KCL_DUMP` generate the code of a hit again, so that the dump has all steps of the library."""
        # The remark was for this look-up only.
        self._result.remark = ""
        if not self.layer.options.dump:
            return look
        dtypes = dtypes_of(call.values, None if self.base is None else self.base.packed)
        try:
            # A pure recipe has not run yet.
            self._result.unit()
            self._result.generate(
                {name: dtypes[name] for name in look.entries[0].metadata["chosen"]}
            )
        except Exception as error:
            # The dump is incomplete, but the program has its code.
            events.logger().info("the dump of %s lacks its unit: %r", self._result.name, error)
            return look
        return look._replace(reason="generated again for KCL_DUMP", spared=0.0)

    def attempt(self, call: CallValues) -> str:
        """Generate code, and keep nothing."""
        return self.unstored(call)[1]

    def explain_error(self, error: BaseException) -> str:
        """Return "no code can be generated" with the error of the front end; empty for an interrupt."""
        words = f"no code can be generated: {type(error).__name__}: {error}".partition("\n")[0]
        return words if isinstance(error, Exception) else ""

    def make(self, call: CallValues, look: Look) -> Look:
        """Make the unit and generate code."""
        from kcl.generate import miss

        started = time.perf_counter()
        self._result.remark = ""
        unit, dtypes = self._made(call)
        assert self.base is not None
        code, look = miss.generate(
            self._result, unit, self.layer, self._key, self.base, dtypes, look, started
        )
        promised = call.launch and look.outcome == "miss" and bool(look.publish)
        ready = self._of_this_run(made_ready(code), call)
        return look._replace(value=ready, promised=promised)

    def texts(self, look: Look) -> Mapping[str, bytes]:
        """Return texts on the recipe and its calls; empty if there are none."""
        if look.outcome != "miss" or look.key is None:
            return {}
        from kcl.generate import miss

        return miss.described(self._result)

    # the steps of making

    def _made(self, call: CallValues) -> tuple[Unit, Dtypes]:
        """Return the unit, which is made once, and the dtypes of the call that decide the code."""
        if self._unit is None or self.base is None:
            self._unit = self._result.unit()
        unit = self._unit
        dtypes = dtypes_of(call.values, unit.packed)
        if self.base is None:
            self.base, self.front_end = unit.open(dtypes), unit.front_end
        if call.launch:
            _require(self.base, call.values)
        from kcl.generate import miss

        # Without a key no row is stored, so all dtypes of the call are used.
        return unit, miss.deciding(unit, self.base, dtypes, has_key=self._key is not None)

    def _of_this_run(self, ready: LaunchableCode, call: CallValues) -> LaunchableCode:
        """Return code with the build options of this run and the dtypes that the call chose."""
        options = self._result.options()
        if options not in (None, ready.code.text.options):
            code = ready.code.with_options(options)
            ready = ready._replace(code=code, digest=code.digest)
        return ready._replace(choice=self.choice(call.values))

    def _named(self, code: Code) -> Code:
        """Return stored code with the kernel's name in this program, since another program may have stored it."""
        return code._replace(text=code.text._replace(kernel=self._result.name))


def dtypes_of(values: Arguments, packed: Packed | None = None) -> dict[str, np.dtype[Any]]:
    """Return the dtypes of arrays, numpy scalars, dtypes, types and names of types; other values are skipped.

    The arrays in a `packed` argument are treated one by one.
    """
    import numpy as np

    dtypes = {}
    for name, value in (unpack(packed, dict(values)) if packed else values).items():
        if isinstance(value, (type, str, np.dtype)):
            dtypes[name] = np.dtype(value)
        # Arrays of other packages may have dtypes that are not numpy's.
        elif isinstance(getattr(value, "dtype", None), np.dtype):
            dtypes[name] = value.dtype
    return dtypes


def _hit(entry: Entry, size: int) -> Look:
    slots, spared = ((entry.key.digest, entry.key),), recorded_seconds(entry)
    return Look("hit", "", entry.key, slots=slots, entries=(entry,), size=size, spared=spared)


def _require(opened: OpenArguments, values: Arguments) -> None:
    missing = sorted(
        name
        for name in opened.required
        if name not in values
        or (name in opened.names and name not in opened.packed and _is_no_array(values[name]))
    )
    if missing:
        raise MissingArguments(missing)


def _is_no_array(value: Any) -> bool:
    """Return True if a value is no array although one is needed. None is left to the front end's library."""
    return value is not None and not hasattr(value, "dtype")
