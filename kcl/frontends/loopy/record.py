"""Record: one call that a program made into loopy, with the records that its arguments come from.

The digest of a record is that of the function's name, of the exact text of each argument, and of the state of the
generators that the call would have met. An argument that comes from another record counts by that record's digest. A
record is carried out at most once; its result belongs to it.
"""

from __future__ import annotations

import copy
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from kcl.base import settings
from kcl.errors import UnknownInput
from kcl.frontends.loopy import texts
from kcl.frontends.loopy.moment import Moment
from kcl.frontends.loopy.plain import StandIn
from kcl.frontends.loopy.table import CONSTRUCTORS
from kcl.frontends.loopy.texts import ArgumentParts

_NOTHING = object()


class CallSite:
    """The place of a program's frame now: file, line, and `names`, its globals.

    The line is read at a request only: in a recipe of a thousand lines that takes longer than the record.
    """

    __slots__ = ("_code", "_instruction", "names")

    def __init__(self, frame: FrameType) -> None:
        self._code = frame.f_code
        self._instruction = frame.f_lasti
        self.names = frame.f_globals

    @property
    def file(self) -> str:
        """The file of the code, as Python names it."""
        return self._code.co_filename

    @property
    def line(self) -> int:
        """The line of the instruction; 0 where it has none."""
        lines = self._code.co_lines()
        return next(
            (line or 0 for start, end, line in lines if start <= self._instruction < end), 0
        )

    def __str__(self) -> str:
        return settings.place_of(self.file, self.line)


def site() -> CallSite | None:
    """Return the place of the innermost call outside of kcl; None where every call is kcl's."""
    frame: Any = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("kcl."):
        frame = frame.f_back
    return None if frame is None else CallSite(frame)


class Record(StandIn):
    """One call into loopy: a function's name, its arguments and its place. Thread-safe.

    In the arguments of another record it stands for its result.
    """

    # What carries the record out; None for loopy's own function.
    call: Callable[..., Any] | None = None
    # The group that has its proof; None for that of the file.
    group: Any = None
    # True if the key of its code has the identity of the unit in place of the digest.
    finds_unit = False
    # The reason why no proof and no code of it is kept.
    unkept = ""
    # The contents by which a call counts beside its arguments.
    described: tuple[Any, ...] = ()

    def __init__(
        self,
        function: str,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        moment: Moment,
        place: CallSite,
    ) -> None:
        """Take the arguments as they are now; raise UnknownInput if an argument has no exact text."""
        self.function = function
        self.place = place
        self.moment = moment
        parts = ArgumentParts()
        self._take(arguments, keywords, parts)
        # The records that the arguments come from, in their order.
        self.inputs = parts.inputs
        # Objects in the arguments that count again at the look-up, with their contents at the call.
        self.rechecked = parts.rechecked
        # True if something counts again at the look-up, here or in a record before.
        self.may_change = bool(self.rechecked) or any(record.may_change for record in self.inputs)
        # The program's own arguments, until the record waits for a call that keeps none of them.
        self.own_arguments: tuple[tuple[Any, ...], dict[str, Any]] | None = (arguments, keywords)
        # True if loopy keeps arguments by reference: then these are their contents at the call. None if loopy keeps a
        # container that is not the program's. No content of that can be given back, so no proof is written.
        self.keeps_arguments: bool | None = False
        self.contents: list[Any] = []
        # True if a proof stands for the call, which is carried out when its result is needed.
        self.waits = False
        # True if a program holds parts of the unit and may change them.
        self.exposed = False
        self.dependents: list[weakref.ref[Record]] = []
        # What the proof has of the result.
        self.facts: dict[str, Any] = {}
        self._made: Any = _NOTHING
        # The warnings that loopy gave as the record was carried out.
        self.heard: list[Any] = []
        # The kernels of launches of the unit, by what decides them.
        self.kernels: dict[Any, Any] = {}
        # This comes once the record is whole: another thread may expose an input just then, and with it this one.
        for record in self.inputs:
            record.dependents.append(weakref.ref(self, record.dependents.remove))
        # An input that was exposed before it knew this record did not tell it.
        if any(record.exposed for record in self.inputs):
            self.exposed = True

    def _take(
        self, arguments: tuple[Any, ...], keywords: dict[str, Any], parts: ArgumentParts
    ) -> None:
        """Copy the arguments, and digest the function, the state of the generators, and the texts of the arguments."""
        taken = [texts.take(value, parts) for value in arguments]
        named = {name: texts.take(keywords[name], parts) for name in sorted(keywords)}
        self.arguments = tuple([copied for _text, copied in taken])
        self.keywords = {name: copied for name, (_text, copied) in named.items()}
        # The texts of the arguments by position, then the name and the text of each other one.
        self.texts = [text for text, _copied in taken]
        for name, (text, _copied) in named.items():
            self.texts += name, text
        # True if a structure may be in it. An object may lead to one, unless it is a dtype without fields.
        self.structured = (
            any(map(_fields, (*arguments, *keywords.values())))
            or any(_fields(thing) != () for thing, _content in parts.rechecked)
            or any(record.structured for record in parts.inputs)
        )
        state, structures = "", self.moment.structures
        if self.moment.skips:
            state = "argument checks skipped"
        if structures and (self.structured or self._names(structures)):
            state += f"; structures {structures}"
        self.digest = texts.digest([self.function, state, str(len(arguments)), *self.texts])

    def __deepcopy__(self, memo: dict[int, Any]) -> Record:
        # A program may copy a unit while another thread asks it. The record is shared by both.
        return self

    def twin(self) -> Record | None:
        """Return a record of the same calls whose result shares nothing with that of this one, for a copy.

        None if something of it may have changed since its call, or may change.
        """
        twins: dict[int, Record] = {}
        for record in ordered(self, lambda record: record.inputs):
            if record.exposed or record.may_change or type(record) is not Record:
                return None
            twin = twins[id(record)] = copy.copy(record)
            twin.inputs = [twins[id(other)] for other in record.inputs]
            twin.arguments, twin.keywords = texts.mapped(
                (record.arguments, record.keywords), lambda value: twins.get(id(value), value)
            )
            # Its calls keep no arguments, and raised no error before.
            vars(twin).update(
                own_arguments=None, waits=True, _made=_NOTHING, dependents=[], kernels={}
            )
        return twins[id(self)]

    @property
    def is_made(self) -> bool:
        """Whether the record was carried out."""
        return self._made is not _NOTHING

    def text(self) -> str:
        """Return the reference to this record."""
        return f"<{self.digest}>"

    def real(self) -> Any:
        """Return the result of the call, which was carried out before."""
        if self._made is _NOTHING:
            raise RuntimeError(f"loopy.{self.function} is asked for before it was carried out")
        return self._made

    def made(self, carry_out: Callable[[Record, tuple[Any, ...], dict[str, Any]], Any]) -> Any:
        """Return the result of the call; `carry_out` calls loopy, once. Raises the errors of loopy.

        The caller makes sure that one thread at a time carries records out.
        """
        for record in ordered(
            self, lambda other: [unmade for unmade in other.inputs if not unmade.is_made]
        ):
            # The last one is this record, which may be made already.
            if record._made is _NOTHING:
                record._made = record._carried_out(carry_out)
        return self._made

    def _carried_out(
        self, carry_out: Callable[[Record, tuple[Any, ...], dict[str, Any]], Any]
    ) -> Any:
        """Call loopy with the program's own arguments. Note which of them loopy keeps by reference.

        Only a container in which something stands for loopy's objects is a copy. loopy keeps those to which more
        references lead after the call: the program may change them later, and the unit changes with them.
        """
        from kcl.frontends.loopy import keeping

        # Without the program's own arguments, which no call keeps then, the copies are as good.
        arguments = self.own_arguments or (self.arguments, self.keywords)
        passed = texts.mapped(arguments, texts.real)
        made_before = [record.real() for record in self.inputs]
        contents = keeping.hold(arguments)
        references = keeping.ReferenceCount((arguments, passed), made_before)
        with keeping.as_of_call(self._all_contents()), references:
            made = carry_out(self, *passed)
        if references.grown and not self.keeps_arguments:
            own = {*map(id, keeping.keepable(arguments))}
            self.contents, self.may_change = contents, True
            self.keeps_arguments = references.grown <= own or None
            self.exposed = self.exposed or self.keeps_arguments is None
        return made

    def wait(self, keeps_arguments: bool) -> None:
        """Wait; loopy is known to keep arguments by reference, or to keep none."""
        self.waits = True
        if not keeps_arguments:
            self.own_arguments = None
            return
        from kcl.frontends.loopy import keeping

        self.contents, self.may_change = keeping.hold(self.own_arguments), True
        self.keeps_arguments = True

    def _all_contents(self) -> list[Any]:
        """List the contents that loopy keeps of the arguments of this call, and of those that led here."""
        return [content for record in ordered(self, _changing) for content in record.contents]

    def changed(self) -> bool:
        """Return True if the digest may no longer describe the unit, for a key.

        A program holds parts of the unit, or an object in the arguments has changed since the call: of this record, or
        of one before it.
        """
        if self.exposed:
            return True
        return any(content.is_changed() for content in self._all_contents()) or any(
            _text(thing) != counted.exact()
            for record in ordered(self, _changing)
            for thing, counted in record.rechecked
        )

    def kernel(self) -> str:
        """Name the kernel: as the call that made it does, else as loopy does."""
        record = self
        while record.function not in ("make_kernel", "make_function"):
            if not record.inputs:
                return "loopy_kernel"
            if record.function == "fuse_kernels":
                return "_and_".join([other.kernel() for other in record.inputs])
            record = record.inputs[0]
        return str(record.keywords.get("name") or "loopy_kernel")

    def is_spoiled(self) -> bool:
        """Return True if the digest may no longer describe the unit, for a call that gets it now.

        Numbers in arrays, and callables, count at the look-up alone: loopy does not read them before.
        """
        return self.exposed or any(
            content.is_changed(in_place=True) for content in self._all_contents()
        )

    def depends_on(self, structures: tuple[tuple[str, str], ...]) -> bool:
        """Return True if structures, registered with these names by now, may decide the code of the result."""
        records = ordered(self, lambda record: record.inputs) if structures else []
        return bool(records) and (
            self.structured or any(record._names(structures) for record in records)
        )

    def _names(self, structures: tuple[tuple[str, str], ...]) -> bool:
        return any(name in text for name, _dtype in structures for text in self.texts)

    def is_like(self, other: Record) -> bool:
        """Return True if two records surely have equal results."""
        return self.digest == other.digest and not (self.exposed or other.exposed)

    def hand_out(self) -> None:
        """Let go what a program may let go while it keeps a unit that was made of this result: nothing of loopy's."""

    def expose(self) -> list[Record]:
        """Note that a program may change parts of this result, which units made of it and units before it share.

        Returns the records among them that wait: they must be carried out before the program changes a part.
        From now on all of them count by their content.
        """
        unmade: list[Record] = []
        waiting = [self]
        while waiting:
            record = waiting.pop()
            if record.exposed or (record.function in CONSTRUCTORS and record is not self):
                continue
            record.exposed = True
            if not record.is_made:
                unmade.append(record)
            # The list of dependents is a copy: one that is let go removes itself.
            waiting += [*record.inputs, *filter(None, [link() for link in list(record.dependents)])]
        return unmade


def _text(value: Any) -> str | None:
    """Return the text of a value as it is now; None if it has none any more."""
    try:
        return texts.take(value, ArgumentParts())[0]
    except UnknownInput:
        return None


def _changing(record: Record) -> list[Record]:
    return [other for other in record.inputs if other.may_change]


def _fields(value: Any) -> Any:
    """Return the fields of a dtype or an array, () if it has none; None for another value, which is not asked."""
    numpy: Any = sys.modules.get("numpy")
    is_numpys = numpy is not None and issubclass(
        type(value), (numpy.dtype, numpy.ndarray, numpy.generic)
    )
    dtype = getattr(value, "dtype", value) if is_numpys else None
    return None if dtype is None else dtype.names or dtype.subdtype or ()


def ordered(record: Record, inputs: Callable[[Record], list[Record]]) -> list[Record]:
    """List a record and the records that it comes from, as `inputs` gives those of each: inputs first, itself last."""
    listed: dict[int, Record] = {}
    # A list in place of recursion: a record may have thousands of calls behind it.
    waiting = [(record, False)]
    while waiting:
        next_record, ready = waiting.pop()
        if id(next_record) in listed:
            continue
        if ready:
            listed[id(next_record)] = next_record
            continue
        waiting.append((next_record, True))
        waiting += [(other, False) for other in reversed(inputs(next_record))]
    return list(listed.values())
