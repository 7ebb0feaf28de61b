"""Generates the Python function that plays calls, from a recording of the invoker's steps.

The numbers of a signature (sizes, layouts, computed values) are global names of the function, so that one text serves
every signature: `_kcl_s0`, `_kcl_t0`, `_kcl_o0` are shape, strides and offset of the first array, `_kcl_v0` is the
first scalar of the signature, `_kcl_c0` the first computed value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kcl.launch.recording import AllocatedOutput, Allocation, Mark, NotPlayable, Recording, Step

# The attributes of a new array that do not depend on its layout, with the expressions for them.
_ATTRIBUTES = {
    "queue": "_kcl_queue",
    "context": "_kcl_context",
    "events": "[]",
    "allocator": "_kcl_default",
}


class Form(NamedTuple):
    """The form of the calls of a script.

    `names` are all arguments of the call. The layouts of `arrays` and the values of `deciding` are the signature.
    `passed` are the scalars that are only passed on; for those in `typed` the type must be the same in each call. `sizes`
    are the tuples of numbers in `deciding`. A `bound` script takes keywords, ignores events and returns the event only.
    """

    names: tuple[str, ...]
    arrays: tuple[str, ...]
    deciding: tuple[str, ...]
    passed: tuple[str, ...]
    sizes: tuple[str, ...]
    in_order: bool
    bound: bool
    typed: tuple[str, ...] = ()


class Script:
    """The Python function `launch` for calls of one form, and the values of one signature.

    `kernels` are the device kernels of its steps. `cells` are the values of `_kcl_c...`. `constants` are the arguments
    that no call changes, as (kernel, setter, items): they are set once for a signature.
    """

    def __init__(self, form: Form, recording: Recording) -> None:
        if any(name.startswith("_kcl") for name in form.names):
            raise NotPlayable("has an argument whose name begins with _kcl")
        made = [output.name for output in recording.made]
        if recording.written and not {*recording.written} <= {*recording.waited, *made}:
            raise NotPlayable("keeps events without waiting for them")
        self.form = form
        self.kernels = tuple([step.kernel for step in recording.steps])
        self.cells: list[Any] = []
        self.constants: list[tuple[str, str, tuple[Any, ...]]] = []
        self._lines: list[str] = []
        # The arrays whose events the function reads and replaces.
        self._managed = (
            [] if form.bound else [name for name in recording.waited if name in form.arrays]
        )
        self._write(recording)
        self.text = "\n".join(self._lines) + "\n"

    def _write(self, recording: Recording) -> None:
        first, *others = recording.steps
        self._head()
        self._add(1, "try:", "    try:")
        self._arguments()
        self._checks()
        for made in recording.made:
            self._allocation(made)
        self._waits()
        for number, step in enumerate(recording.steps):
            self._setting(number, step)
        self._enqueue(3, 0, first)
        self._add(2, "except _kcl_Exception:", f"    {self._to_invoker}")
        for number, step in enumerate(others, 1):
            self._enqueue(2, number, step)
        self._add(1, "finally:", "    _kcl_busy = False")
        self._marks(recording.written)
        self._add(1, f"return {self._result(recording.outputs)}")

    def _add(self, depth: int, *lines: str) -> None:
        self._lines += ["    " * depth + line for line in lines]

    def _head(self) -> None:
        """Write the head. A nested call, as from a signal handler, is refused: it would set the same kernel's arguments."""
        head, busy = "def launch(_kcl_queue, _kcl_allocator, _kcl_given):", "_kcl_busy"
        if self.form.bound:
            head = f"def launch(*, {', '.join(self.form.names)}):"
            busy = "_kcl_busy or _kcl_ident() != _kcl_thread"
        self._add(0, head, "    global _kcl_busy", f"    if {busy}:", f"        {self._to_invoker}")
        self._add(1, "_kcl_busy = True")

    @property
    def _to_invoker(self) -> str:
        """The statement that leaves the call to the invoker."""
        keywords = ", ".join(f"{name}={name}" for name in self.form.names)
        return f"return _kcl_slow({keywords})" if self.form.bound else "return None"

    def _arguments(self) -> None:
        """Take the arguments out of their dictionary."""
        if not self.form.bound:
            names = self.form.names
            taken = [f"{name} = _kcl_given[{name!r}]" for name in names]
            is_other = f"if _kcl_len(_kcl_given) != {len(names)}:"
            self._add(3, is_other, "    raise _kcl_NotPlayable", *taken)

    def _checks(self) -> None:
        """Write the comparison with the current signature; another signature is chosen, or the call is refused."""
        form = self.form
        kinds = [f"_kcl_type({name}) is _kcl_a{i}" for i, name in enumerate(form.arrays)]
        kinds += [
            f"({name}.dtype is _kcl_d{i} or {name}.dtype == _kcl_d{i})"
            for i, name in enumerate(form.arrays)
        ]
        same = [
            f"{name}.shape == _kcl_s{i} and {name}.strides == _kcl_t{i} and {name}.offset == _kcl_o{i}"
            for i, name in enumerate(form.arrays)
        ]
        # Types first: comparing an array with a number would launch a kernel.
        same += [
            f"_kcl_type({name}) is _kcl_y{i} and {name} == _kcl_v{i}"
            for i, name in enumerate(form.deciding)
        ]
        # 4.0 equals 4 and is no size.
        same += [f"{{*_kcl_map(_kcl_type, {name})}} == _kcl_whole" for name in form.sizes]
        kinds += [
            f"_kcl_type({name}) in _kcl_numbers" for name in form.passed if name not in form.typed
        ]
        kinds += [f"_kcl_type({name}) is _kcl_p{i}" for i, name in enumerate(form.typed)]
        signature = f"({_tuple(form.arrays)}), ({_tuple(form.deciding)})"
        self._add(3, f"if not ({' and '.join(kinds)}):", "    raise _kcl_NotPlayable")
        self._add(
            3, f"if not ({' and '.join(same)}):", f"    _kcl_choose(_kcl_globals(), {signature})"
        )

    def _allocation(self, made: AllocatedOutput) -> None:
        """Write the allocation of an output."""
        if self.form.bound:
            raise NotPlayable("allocates")
        if made.computed:
            attributes = _ATTRIBUTES | {
                name: self._cell(value) for name, value in made.computed.items()
            }
            attributes["base_data"] = f"_kcl_default({self._cell(made.size)})"
            setting = [f"    {made.name}.{name} = {text}" for name, text in attributes.items()]
            new = f"    {made.name} = _kcl_new(_kcl_Array)"
            self._add(3, "if _kcl_allocator is None:", new, *setting, "else:")
        else:
            self._add(3, "if _kcl_allocator is None:", "    _kcl_allocator = _kcl_default")
        values = [self._value(value) for value in made.positional]
        values += [f"{name}={self._value(value)}" for name, value in made.keywords.items()]
        self._add(4 if made.computed else 3, f"{made.name} = _kcl_Array({', '.join(values)})")

    def _waits(self) -> None:
        """Write the search for the events to wait for: none if the arrays carry only events of this in-order queue."""
        self._add(3, *(f"_kcl_e{i} = {name}.events" for i, name in enumerate(self._managed)))
        lists = [f"_kcl_e{i}" for i in range(len(self._managed))]
        if self._managed and self.form.in_order:
            unknown = [f"({e} and (_kcl_len({e}) != 1 or {e}[0] not in _kcl_own))" for e in lists]
            waits = f"    _kcl_w = _kcl_waits(_kcl_queue, ({_tuple(lists)}))"
            self._add(3, f"if {' or '.join(unknown)}:", waits, "else:", "    _kcl_w = None")
        elif self._managed:
            self._add(3, f"_kcl_w = [{', '.join('*' + e for e in lists)}]")

    def _setting(self, number: int, step: Step) -> None:
        """Write the setting of the arguments that vary between calls; collect the constant ones."""
        moving: dict[str, list[str]] = {}
        for index, (setter, items) in step.arguments.items():
            if any(isinstance(item, Mark) for item in items):
                texts = [item.text if isinstance(item, Mark) else repr(item) for item in items]
                moving.setdefault(setter, []).extend([str(index), *texts])
            else:
                self.constants.append((step.kernel, setter, (index, *items)))
        for setter, texts in moving.items():
            self._add(3, f"_kcl_k{number}{setter}(({_tuple(texts)}))")

    def _enqueue(self, depth: int, number: int, step: Step) -> None:
        wait = "None"
        if number:
            # On an out-of-order queue each step waits for the one before.
            wait = "None" if self.form.in_order else "[_kcl_evt]"
        elif self._managed:
            wait = "_kcl_w"
        sizes = ", ".join(self._cell(size) for size in step.sizes)
        flags = "".join(f", {flag!r}" for flag in step.flags)
        self._add(
            depth, f"_kcl_evt = _kcl_enqueue(_kcl_queue, _kcl_k{number}, {sizes}, {wait}{flags})"
        )

    def _marks(self, written: list[str]) -> None:
        """Write the statements that add the new event to the written arrays."""
        if self.form.bound or not written:
            return
        made = [name for name in written if name not in self._managed]
        managed = [name for name in written if name in self._managed]
        self._add(1, *(f"{name}.events.append(_kcl_evt)" for name in made))
        # On an in-order queue the last event implies the earlier ones, so it replaces them.
        if managed and self.form.in_order:
            add = [f"    {name}.add_event(_kcl_evt)" for name in managed]
            self._add(1, "try:", "    if _kcl_w is None:")
            for name in managed:
                events = f"_kcl_e{self._managed.index(name)}"
                self._add(
                    3,
                    f"if not {events}:",
                    f"    {events}.append(_kcl_evt)",
                    f"elif _kcl_len({events}) == 1 and {events}[0] in _kcl_own:",
                    f"    {events}[0] = _kcl_evt",
                    "else:",
                    f"    _kcl_leave({name}, _kcl_evt)",
                )
            self._add(2, "else:", *add)
            # Another thread emptied a list between the test and the assignment.
            self._add(1, "except _kcl_IndexError:", *add)
        else:
            self._add(1, *(f"{name}.add_event(_kcl_evt)" for name in managed))
        if self.form.in_order:
            trim = f"    _kcl_trim(_kcl_own, {bool(managed)})"
            self._add(
                1, "_kcl_own[_kcl_evt] = None", "if not _kcl_len(_kcl_own) & _kcl_mask:", trim
            )

    def _result(self, outputs: tuple[str, ...] | dict[str, str]) -> str:
        if self.form.bound:
            return "_kcl_evt"
        if isinstance(outputs, dict):
            return f"_kcl_evt, {{{', '.join(f'{key!r}: {name}' for key, name in outputs.items())}}}"
        return f"_kcl_evt, ({_tuple(outputs)})"

    def _value(self, value: Any) -> str:
        """Return the expression for a constructor's argument; a constant is stored as a value of the signature."""
        if isinstance(value, Mark):
            if value.text not in ("_kcl_queue", "_kcl_context", "_kcl_allocator"):
                raise NotPlayable("allocates by a value that differs from call to call")
            return value.text
        if isinstance(value, Allocation):
            return f"_kcl_allocator({self._cell(value.size)})"
        return self._cell(value)

    def _cell(self, value: Any) -> str:
        self.cells.append(value)
        return f"_kcl_c{len(self.cells) - 1}"


def _tuple(texts: Any) -> str:
    return "".join(f"{text}, " for text in texts)
