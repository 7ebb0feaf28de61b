"""`Record`: one call of loopy by a program, with the records that its arguments came from.

Its digest covers the function's name, the exact text of each argument, and the state of the process at the call
(`Moment`). The text of an argument that is the result of another record is that record's digest. A record is carried out
at most once, and keeps its result.
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
from kcl.generate.protocol import Structures

# The arguments of a call: by position, and by name.
Positional = tuple[Any, ...]
Keywords = dict[str, Any]
_NOTHING = object()


class CallSite:
    """The place of a call in the program: file, line, and `names`, the globals there.

    The line is computed only when it is read, since that may take longer than recording the call.
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
        """The line of the call; 0 if it is unknown."""
        lines = self._code.co_lines()
        return next(
            (line or 0 for start, end, line in lines if start <= self._instruction < end), 0
        )

    def __str__(self) -> str:
        return settings.place_of(self.file, self.line)


def site() -> CallSite | None:
    """Return the place of the innermost frame outside of kcl; None if there is none."""
    frame: Any = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("kcl."):
        frame = frame.f_back
    return None if frame is None else CallSite(frame)


class Record(StandIn):
    """One call of loopy: a function's name, its arguments and its place. Thread-safe.

    In the arguments of another record it stands for its result.
    """

    # The function that carries the record out; None for loopy's own.
    call: Callable[..., Any] | None = None
    # The group with its proof; None for that of the call's file.
    group: Any = None
    # True if the key has the identity of the unit in place of the record's digest.
    finds_unit = False
    # Why neither a proof nor code of it may be stored.
    unkept = ""
    # Further contents that decide the call, beside its arguments.
    described: tuple[Any, ...] = ()

    def __init__(
        self,
        function: str,
        arguments: Positional,
        keywords: Keywords,
        moment: Moment,
        place: CallSite,
    ) -> None:
        """Record the present arguments; raise UnknownInput if one has no exact text."""
        self.function = function
        self.place = place
        self.moment = moment
        parts = ArgumentParts()
        self._take(arguments, keywords, parts)
        # The records that the arguments come from, in their order.
        self.inputs = parts.inputs
        # Objects in the arguments whose content must be the same at the look-up, with that content.
        self.rechecked = parts.rechecked
        # True if something must be compared at the look-up, here or in an input.
        self.may_change = bool(self.rechecked) or any(record.may_change for record in self.inputs)
        # The program's own arguments; dropped once it is known that loopy keeps none of them.
        self.own_arguments: tuple[Positional, Keywords] | None = (arguments, keywords)
        # True if loopy keeps arguments by reference: `contents` has what they held at the call. None if loopy keeps a copy
        # made by kcl: its content cannot be given back, so there is no proof.
        self.keeps_arguments: bool | None = False
        self.contents: list[Any] = []
        # True if a proof stands for the call, which is carried out when its result is needed.
        self.waits = False
        # True if the program has parts of the unit, which it may change.
        self.exposed = False
        self.dependents: list[weakref.ref[Record]] = []
        # Facts on the result, which are stored with the proof.
        self.facts: dict[str, Any] = {}
        self._made: Any = _NOTHING
        # The warnings that loopy gave when the record was carried out.
        self.heard: list[Any] = []
        # The Kernels of launches of the unit, by (entry point, moment, variables).
        self.kernels: dict[Any, Any] = {}
        # Done last, since from here on another thread may expose an input, and this record with it.
        for record in self.inputs:
            record.dependents.append(weakref.ref(self, record.dependents.remove))
        # An input may have been exposed before it knew this record.
        if any(record.exposed for record in self.inputs):
            self.exposed = True

    def _take(self, arguments: Positional, keywords: Keywords, parts: ArgumentParts) -> None:
        """Copy the arguments and compute the texts and the digest."""
        taken = [texts.take(value, parts) for value in arguments]
        named = {name: texts.take(keywords[name], parts) for name in sorted(keywords)}
        self.arguments = tuple([copied for _text, copied in taken])
        self.keywords = {name: copied for name, (_text, copied) in named.items()}
        # The texts of positional arguments, then name and text of each keyword.
        self.texts = [text for text, _copied in taken]
        for name, (text, _copied) in named.items():
            self.texts += name, text
        # True if an argument may contain a dtype with fields.
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
        # Not copied, so that copies of a unit share the record, also while another thread asks a question.
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
        """True if the record was carried out."""
        return self._made is not _NOTHING

    def text(self) -> str:
        """Return the reference to this record."""
        return f"<{self.digest}>"

    def real(self) -> Any:
        """Return the result of the call, which must have been carried out."""
        if self._made is _NOTHING:
            raise RuntimeError(f"loopy.{self.function} is asked for before it was carried out")
        return self._made

    def made(self, carry_out: Callable[..., Any]) -> Any:
        """Return the result of the call; `carry_out(record, arguments, keywords)` calls loopy, once.

        Raises the errors of loopy.
        The caller makes sure that one thread at a time carries records out.
        """
        for record in ordered(
            self, lambda other: [unmade for unmade in other.inputs if not unmade.is_made]
        ):
            # The last one is this record, which may have been carried out already.
            if record._made is _NOTHING:
                record._made = record._carried_out(carry_out)
        return self._made

    def _carried_out(self, carry_out: Callable[..., Any]) -> Any:
        """Call loopy with the program's own arguments, and find out which of them it keeps by reference.

        These are the objects to which more references lead after the call. If the program changes one later, the unit
        changes with it. A container is copied only if it has stand-ins inside, which loopy's own objects must replace.
        """
        from kcl.frontends.loopy import keeping

        # They were dropped if loopy keeps none of them: then the copies will do.
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
        """Put off carrying the call out. `keeps_arguments`: as an earlier run found, loopy keeps arguments by reference."""
        self.waits = True
        if not keeps_arguments:
            self.own_arguments = None
            return
        from kcl.frontends.loopy import keeping

        self.contents, self.may_change = keeping.hold(self.own_arguments), True
        self.keeps_arguments = True

    def _all_contents(self) -> list[Any]:
        """List the saved contents of arguments that loopy keeps, of this record and of its inputs."""
        return [content for record in ordered(self, _changing) for content in record.contents]

    def changed(self) -> bool:
        """Return True if the digest may no longer describe the unit, so that it must not go into a key.

        That is so if the program has parts of the unit, or if an object in the arguments, of this record or its inputs, has
        changed since the call.
        """
        if self.exposed:
            return True
        return any(content.is_changed() for content in self._all_contents()) or any(
            _text(thing) != counted.exact()
            for record in ordered(self, _changing)
            for thing, counted in record.rechecked
        )

    def kernel(self) -> str:
        """Return the kernel's name: the one given in the call that made it, else loopy's default."""
        record = self
        while record.function not in ("make_kernel", "make_function"):
            if not record.inputs:
                return "loopy_kernel"
            if record.function == "fuse_kernels":
                return "_and_".join([other.kernel() for other in record.inputs])
            record = record.inputs[0]
        return str(record.keywords.get("name") or "loopy_kernel")

    def is_spoiled(self) -> bool:
        """Return True if the digest may no longer describe the unit, so that a further call must not be recorded.

        Unlike `changed` it leaves out numbers in arrays and callables, which loopy reads only when it generates.
        """
        return self.exposed or any(
            content.is_changed(in_place=True) for content in self._all_contents()
        )

    def depends_on(self, structures: Structures) -> bool:
        """Return True if the code may depend on these registered structures."""
        records = ordered(self, lambda record: record.inputs) if structures else []
        return bool(records) and (
            self.structured or any(record._names(structures) for record in records)
        )

    def _names(self, structures: Structures) -> bool:
        return any(name in text for name, _dtype in structures for text in self.texts)

    def is_like(self, other: Record) -> bool:
        """Return True if two records surely have equal results."""
        return self.digest == other.digest and not (self.exposed or other.exposed)

    def hand_out(self) -> None:
        """Drop references that the program could have dropped; a record of loopy has none."""

    def expose(self) -> list[Record]:
        """Note that the program may change parts of this result, which it shares with its inputs and dependents.

        From now on all of these are keyed by their content. Returns those that were not carried out yet: that must be done
        before the program changes a part.
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
            # The dependents are copied, since a collected one removes itself.
            waiting += [*record.inputs, *filter(None, [link() for link in list(record.dependents)])]
        return unmade


def _text(value: Any) -> str | None:
    """Return the present text of a value; None if it has none any more."""
    try:
        return texts.take(value, ArgumentParts())[0]
    except UnknownInput:
        return None


def _changing(record: Record) -> list[Record]:
    return [other for other in record.inputs if other.may_change]


def _fields(value: Any) -> Any:
    """Return the fields of numpy's dtype or array, () if it has none; None for a value of another kind."""
    numpy: Any = sys.modules.get("numpy")
    is_numpys = numpy is not None and issubclass(
        type(value), (numpy.dtype, numpy.ndarray, numpy.generic)
    )
    dtype = getattr(value, "dtype", value) if is_numpys else None
    return None if dtype is None else dtype.names or dtype.subdtype or ()


def ordered(record: Record, inputs: Callable[[Record], list[Record]]) -> list[Record]:
    """List a record and all records that it depends on by `inputs(record)`, each after its inputs, itself last."""
    listed: dict[int, Record] = {}
    # A list and no recursion, since a record may depend on thousands of calls.
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
