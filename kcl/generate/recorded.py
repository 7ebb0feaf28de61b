"""The inputs of the code of a recipe that runs in every process: its result, and the record behind that.

The recipe runs once, at the first look-up. A recorded unit is keyed on its record, a unit of loopy's own on its
content, a kcl.Source on its text and declarations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcl.base import settings, spans
from kcl.cache.key import Key, Part
from kcl.errors import UnknownInput
from kcl.generate import frontends
from kcl.record import beside, imports, recorder, unmade
from kcl.record.declarations import Evidence, RecipeCall
from kcl.record.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    import numpy as np

    from kcl.code import Code
    from kcl.generate.frontends import loopy, opencl  # noqa: F401  # for tools that collect what is imported
    from kcl.generate.walked import WalkedOrigin

    Origin: TypeAlias = "RecordedOrigin | WalkedOrigin"

_CHANGED = "what loopy keeps by reference changed after the call"
_HANDED_OUT = "parts that it shares are in the program's hands"
_NOTHING = object()


class RecordedOrigin:
    """The result of a recipe, and its key. The caller makes sure that one thread at a time uses it."""

    def __init__(self, task: RecipeCall | None) -> None:
        self.name = "" if task is None else task.name
        self.remark = ""  # the reason in the event of the next look-up, if that hits
        self._task = task
        self._value: Any = _NOTHING
        self._record: Record | None = None  # behind the value, when the key was made
        self._entry: str | None = None
        self._result: frontends.Result | None = None
        self._key: Key | None = None
        self._is_plain = False  # the recipe ran unrecorded, with loopy's own caches
        self._is_new = False  # the first look-up finds the unit as it was when the key was made
        self._moment: beside.Moment | None = None  # of the key
        self._unknown = ""  # why there is no key at that moment

    @classmethod
    def of_record(cls, record: Record, entrypoint: str | None) -> RecordedOrigin:
        """Return the origin of a unit that was recorded outside of recipes."""
        made = cls(None)
        made._value = unmade.new(record)
        made._entry = entrypoint
        made.name = entrypoint or record.kernel()
        return made

    @classmethod
    def of_unit(cls, unit: Any, entrypoint: str) -> RecordedOrigin:
        """Return the origin of a unit of loopy's own that a program launches now."""
        made = cls(None)
        made._value = unit
        made._entry = None if unit.entrypoints == {entrypoint} else entrypoint
        made.name = entrypoint
        made._is_new = True
        return made

    @property
    def front_ends(self) -> frozenset[str]:
        """The front end of the recipe's result; empty before the recipe ran."""
        if self._value is _NOTHING:
            return frozenset()
        return frozenset({self._row.name})

    @property
    def _row(self) -> frontends.FrontEndRow:
        """The row of the front end; a recorded unit has loopy's."""
        return frontends.row_of(self._value) or frontends.TABLE[0]

    def renew(self) -> bool:
        """Forget the key if a program can have edited the unit or the generators since; return True if it did."""
        before, self._is_new = self._is_new, False
        if self._value is _NOTHING or not self._row.uses_loopy:
            return False
        record = unmade.record_of(self._value)
        is_edited = not before and (record is None or record.changed())
        if not is_edited and self._moment is not None and self._stands():
            return False
        # A result that was made without a key may come from loopy's own caches.
        self._result = None if is_edited or self._key is None else self._result
        self._key, self._moment, self._unknown = None, None, ""
        return True

    def key(self) -> Key:
        """Return the key of the recipe's result; raises the recipe's own error, RecipeError, or UnknownInput."""
        if self._unknown:
            raise UnknownInput(self._unknown)
        if self._key is None:
            if self._is_plain:
                self._value, self._result, self._is_plain = _NOTHING, None, False
            if self._value is _NOTHING:
                self._value = self._returned()
            record = unmade.record_of(self._value)
            if record is not None and record.changed():
                recorder.asked(record, _HANDED_OUT if record.exposed else _CHANGED)
                self._value = recorder.make(record)
            self._record = unmade.record_of(self._value)
            self._moment = beside.now() if self._row.uses_loopy else beside.Moment()
            try:
                self._key = Key(self._parts(self._moment))
            except UnknownInput as error:
                self._unknown = str(error)
                raise
        return self._key

    def _stands(self) -> bool:
        """Return True if the state of the generators is that of the key."""
        try:
            return self._moment is None or beside.now() == self._moment
        except UnknownInput:
            return False

    def _returned(self) -> Any:
        """Run the recipe, and record its calls."""
        assert self._task is not None
        imports.watch()
        before = recorder.thread.carried
        with (
            spans.span("record", self.name, settings.GENERATOR),
            recorder.recording(self._task.function),
        ):
            value = self._task.run()
        carried = recorder.thread.carried - before
        if carried:
            self.remark = f"{carried} call(s) of loopy carried out: no earlier run proved them"
        if type(value) is not unmade.RecordedUnit:
            frontends.accept(unmade.real_of(value), self.name)  # an error that names the result
        return value

    def _parts(self, moment: beside.Moment) -> list[Part]:
        parts: list[Part] = []
        version = None if self._task is None else self._task.declared.version
        if version is not None:
            parts.append(Part("declared version", version))
        if self._entry is not None:
            parts.append(Part("entry point", self._entry))
        record = unmade.record_of(self._value)
        if not self._row.uses_loopy:
            return [*beside.parts(False), *parts, Part("source", self._accepted().identity())]
        parts = [*beside.parts(True), *beside.switches(), *parts]
        if record is not None:
            return [
                *parts,
                *beside.state(moment, record.counts(moment.structures)),
                Part("record", record.digest),
            ]
        return [*parts, *beside.state(moment), Part("unit", self._accepted().identity())]

    def outcome(self) -> frontends.Result:
        """Return the result held by its front end; carry the record out, or run a recipe unrecorded."""
        if self._value is _NOTHING:
            assert self._task is not None
            with recorder.carrying():
                self._value = self._task.run()
            self._is_plain = self._row.uses_loopy
        return self._accepted()

    def _accepted(self) -> frontends.Result:
        if self._result is None:
            record = unmade.record_of(self._value)
            value = unmade.real_of(self._value) if record is None else recorder.make(record)
            if self._entry is not None:
                value = value.with_entrypoints(self._entry)
            self._result = frontends.accept(value, self.name)
        return self._result

    def generate(self, dtypes: Mapping[str, np.dtype[Any]]) -> tuple[Code, str]:
        """Generate code: (Code, why it must not be stored)."""
        from kcl.generate import miss

        changed = self._record is not None and self._record.changed()
        has_key = self._key is not None
        generated, refused = miss.generate(self.name, self._accepted(), dtypes, has_key)
        if changed:
            return generated, f"{_CHANGED}, and after the key"
        stands = not self._row.uses_loopy or self._stands()
        return generated, refused or ("" if stands else "the generators were changed after the key")

    def anew(self, dtypes: Mapping[str, np.dtype[Any]]) -> Code:
        """Generate code from the record or the result again, for verification."""
        return self.generate(dtypes)[0]

    def place(self) -> Evidence:
        """Return the texts that explain a later miss: the recipe's and the record's; slow."""
        from kcl.record import description

        return description.place(unmade.record_of(self._value), self._value, self._task, self._key)

    def options(self) -> tuple[str, ...] | None:
        """Return the recipe's options: no key holds the paths in them. loopy's options are part of the code."""
        return None if self._row.uses_loopy else self._accepted().options
