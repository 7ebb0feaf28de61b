"""The Result for loopy: a recorded unit is keyed by its record, a unit of loopy's own by its content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kcl.cache.key import Key, Part
from kcl.errors import UnknownInput
from kcl.frontends.loopy import imports, moment, proofs, recorder, unmade
from kcl.frontends.loopy.record import site
from kcl.generate.protocol import FrontEnd, Result

if TYPE_CHECKING:
    import numpy as np

    from kcl.code import Code
    from kcl.frontends.loopy.record import Record
    from kcl.frontends.loopy.translation import LoopyUnit
    from kcl.generate.declarations import RecipeCall
    from kcl.generate.evidence import Evidence

_CHANGED = "what loopy keeps by reference changed after the call"
_HANDED_OUT = "parts that it shares are in the program's hands"


class LoopyResult(Result):
    """A loopy unit with its key. The caller makes sure that one thread at a time uses it."""

    front_ends = frozenset({"loopy"})

    def __init__(
        self,
        value: Any,
        name: str,
        call: RecipeCall | None = None,
        entrypoint: str | None = None,
        is_new: bool = False,
    ) -> None:
        self.name = name
        self._call = call
        self._value = value
        self._entry = entrypoint
        # True until the first `renew`, if the key was computed just before: nothing can have edited the unit.
        self._is_new = is_new
        # The record of the unit when the key was computed.
        self._record: Record | None = None
        self._unit: LoopyUnit | None = None
        self._key: Key | None = None
        # The state of the process when the key was computed, and why there is no key.
        self._moment: moment.Moment | None = None
        self._unknown = ""

    @classmethod
    def of_record(cls, record: Record, entrypoint: str | None) -> LoopyResult:
        """Return the Result of a unit that was recorded outside of recipes."""
        return cls(unmade.new(record), entrypoint or record.kernel(), entrypoint=entrypoint)

    @classmethod
    def of_unit(cls, unit: Any, entrypoint: str) -> LoopyResult:
        """Return the Result of a unit of loopy's own that the program launches now."""
        entry = None if unit.entrypoints == {entrypoint} else entrypoint
        return cls(unit, entrypoint, entrypoint=entry, is_new=True)

    def renew(self) -> bool:
        """Forget the key if the program may have edited the unit or the generators; return True if it was forgotten."""
        before, self._is_new = self._is_new, False
        record = unmade.record_of(self._value)
        is_edited = not before and (record is None or record.changed())
        if not is_edited and self._moment is not None and moment.stands(self._moment):
            return False
        # Also dropped if there was no key, since loopy may have taken it from its own caches then.
        self._unit = None if is_edited or self._key is None else self._unit
        self._key, self._moment, self._unknown = None, None, ""
        return True

    def key(self) -> Key:
        """Return the key; raises RecipeError, or UnknownInput."""
        if self._unknown:
            raise UnknownInput(self._unknown)
        if self._key is None:
            record = unmade.record_of(self._value)
            if record is not None and record.changed():
                from kcl.frontends.loopy import making

                making.asked(record, _HANDED_OUT if record.exposed else _CHANGED)
                self._value = making.make(record)
            self._record = unmade.record_of(self._value)
            self._moment = moment.now()
            try:
                self._key = Key(self._parts(self._moment))
            except UnknownInput as error:
                self._unknown = str(error)
                raise
            proofs.use()
        return self._key

    def _parts(self, now: moment.Moment) -> list[Part]:
        # First, since it raises for a unit without a key: then no files of generators are read.
        beside = self._own_parts(now)
        parts = moment.parts()
        if self._call is not None:
            parts += self._call.declared.parts
        if self._entry is not None:
            parts.append(Part("entry point", self._entry))
        return [*parts, *beside]

    def _own_parts(self, now: moment.Moment) -> list[Part]:
        """Return the key parts of this unit: the digest of its record, or its identity."""
        record = self._record
        if record is not None and not record.finds_unit:
            structured = record.depends_on(now.structures)
            return [*moment.state(now, structured), Part("record", record.digest)]
        return [*moment.state(now), Part("unit", self._identity(record))]

    def _identity(self, record: Record | None) -> str:
        """Return the identity of the unit. If the record's proof has it, the unit need not be made."""
        now = self._moment
        if record is not None and record.unkept:
            raise UnknownInput(record.unkept)
        if record is None or self._entry is not None or record.moment != now:
            return self.unit().identity()
        if "unit" not in record.facts:
            recorder.learn(record, unit=self.unit().identity())
        return str(record.facts["unit"])

    def unit(self) -> LoopyUnit:
        """Return the unit as a LoopyUnit; its record is carried out if there is one."""
        if self._unit is None:
            record, unit = unmade.record_of(self._value), _made(self._value)
            if self._entry is not None:
                unit = unit.with_entrypoints(self._entry)
            self._unit = FRONT_END.hold(unit, self.name)
            # A recorded unit can only have code of packages if arguments are compared again.
            self._unit.brings_code = record is None or record.may_change
        return self._unit

    def generate(self, dtypes: Mapping[str, np.dtype[Any]]) -> tuple[Code, str]:
        """Generate code; return it, and why it must not be stored (empty if it may)."""
        # Asked before loopy generates, which may itself change objects that it keeps.
        changed = self._record is not None and self._record.changed()
        has_key = self._key is not None
        generated, refused = self.unit().code(self.name, dtypes, has_key)
        if changed:
            return generated, f"{_CHANGED}, and after the key"
        stands = self._moment is None or moment.stands(self._moment)
        return generated, refused or ("" if stands else moment.CHANGED)

    def prove(self) -> None:
        """Write the proofs of this process's calls, without which later runs could not use the row."""
        proofs.write()

    def evidence(self) -> Evidence:
        """Return the texts of recipe and record, which explain a later miss; slow."""
        from kcl.frontends.loopy import description
        from kcl.generate import evidence

        record = unmade.record_of(self._value)
        described = (
            evidence.of_one_call("a unit that loopy made", [])
            if record is None
            else description.listing(record, description.parameters)
        )
        return evidence.of_result(described, self._call, self._key)


def _made(unit: Any) -> Any:
    """Return loopy's own object for a recipe's return value; its record is carried out."""
    record = unmade.record_of(unit)
    if record is None:
        return unmade.real_of(unit)
    from kcl.frontends.loopy import making

    return making.make(record)


class LoopyFrontEnd(FrontEnd):
    """The front end of loopy."""

    def accept(self, value: Any, call: RecipeCall) -> LoopyResult:
        """Return a recipe's return value as a Result; raises RecipeError if it is no translation unit."""
        if type(value) is not unmade.RecordedUnit:
            # Raises a clear error unless it is a unit of loopy's own.
            self.hold(value, call.name)
        return LoopyResult(value, call.name, call)

    def hold(self, value: Any, recipe: str) -> LoopyUnit:
        """Return a translation unit as a LoopyUnit; raises RecipeError for anything else."""
        from kcl.frontends.loopy.translation import LoopyUnit

        return LoopyUnit(_made(value), recipe)

    def begin(self) -> None:
        """Have calls of the next recipe recorded even if its module has imported loopy itself."""
        imports.watch()

    def end(self, call: RecipeCall) -> None:
        """Write the proofs of a recipe's calls."""
        recorder.group(call).write()

    def missing(self, kernel: str, names: list[str]) -> Exception:
        """Return the error that loopy's executor raises if input arrays are missing."""
        from loopy.diagnostic import LoopyError

        error: Exception = LoopyError(
            f"Kernel {kernel}() missing required array input arguments: {', '.join(names)}. "
            "If this is a surprise, maybe you need to add is_input=False to your argument."
        )
        return error

    def warn_again(self, facts: tuple[tuple[str, str, str, str, int], ...]) -> None:
        """Repeat the warnings of the code generation at the line of the launch; the user's filters apply."""
        from kcl.frontends.loopy import warned

        place = site()
        if place is not None:
            warned.again(tuple([proofs.WarningFact(*fact) for fact in facts]), place)


FRONT_END = LoopyFrontEnd()
