"""The Python of a hot call: a recording written out with the names of its arguments.

The numbers of a signature (sizes, layouts, computed values) are global names of the function, so that one text serves
every signature: `_kcl_s0`, `_kcl_t0`, `_kcl_o0` are shape, strides and offset of the first array, `_kcl_v0` is the
first scalar that decides, `_kcl_c0` the first size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kcl.launch.recording import AllocatedOutput, Allocation, Mark, NotPlayable, Recording, Step


class Form(NamedTuple):
    """The form of the calls of a script.

    `names` are all given arguments. The layouts of `arrays` and the values of `deciding` are the signature. `passed`
    are the numbers that are handed on; of those in `typed` the type decides. `sizes` are the tuples of numbers in
    `deciding`. A `bound` script takes keywords, ignores events and returns the event only.
    """

    names: tuple[str, ...]
    arrays: tuple[str, ...]
    deciding: tuple[str, ...]
    passed: tuple[str, ...]
    sizes: tuple[str, ...]
    in_order: bool
    bound: bool
    typed: tuple[str, ...] = ()


class Script(NamedTuple):
    """The text, its kernels, and the values of one signature.

    These are the values of `_kcl_c…`, and the constant arguments, as (kernel, setter, items).
    """

    text: str
    kernels: tuple[str, ...]
    cells: tuple[Any, ...]
    constants: tuple[tuple[str, str, tuple[Any, ...]], ...]


def script(form: Form, recording: Recording) -> Script:
    """Write the function `launch` for calls of this form."""
    return _Writer(form, recording).script()


class _Writer:
    def __init__(self, form: Form, recording: Recording) -> None:
        self.form = form
        self.recording = recording
        self.lines: list[str] = []
        self.cells: list[Any] = []
        self.constants: list[tuple[str, str, tuple[Any, ...]]] = []
        if any(name.startswith("_kcl") for name in form.names):
            raise NotPlayable("has a name of ours")
        self.managed = (
            [name for name in recording.waited if name in form.arrays] if not form.bound else []
        )
        if recording.written and not {*recording.written} <= {
            *recording.waited,
            *(output.name for output in recording.made),
        }:
            raise NotPlayable("keeps events without waiting for them")

    def script(self) -> Script:
        self.head()
        self(1, "try:", "    try:")
        self.arguments()
        self.checks()
        for made in self.recording.made:
            self.allocation(made)
        self.waits()
        for number, step in enumerate(self.recording.steps):
            self.setting(number, step)
        self.enqueue(3, 0, self.recording.steps[0])
        self(2, "except _kcl_Exception:", f"    {self.otherwise}")
        for number, step in enumerate(self.recording.steps[1:], 1):
            self.enqueue(2, number, step)
        self(1, "finally:", "    _kcl_busy = False")
        self.marks()
        self(1, f"return {self.result()}")
        kernels = tuple(step.kernel for step in self.recording.steps)
        text = "\n".join(self.lines) + "\n"
        return Script(text, kernels, tuple(self.cells), tuple(self.constants))

    def __call__(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def head(self) -> None:
        """Write the head; a nested call (of an allocator, a signal handler) would set the same kernel's arguments."""
        form = self.form
        keywords = ", ".join(form.names)
        self(
            0,
            f"def launch(*, {keywords}):"
            if form.bound
            else "def launch(_kcl_queue, _kcl_allocator, _kcl_given):",
        )
        busy = "_kcl_busy or _kcl_ident() != _kcl_thread" if form.bound else "_kcl_busy"
        self(1, "global _kcl_busy", f"if {busy}:", f"    {self.otherwise}", "_kcl_busy = True")

    @property
    def otherwise(self) -> str:
        """Leave the call to the invoker."""
        keywords = ", ".join(f"{name}={name}" for name in self.form.names)
        return f"return _kcl_slow({keywords})" if self.form.bound else "return None"

    def arguments(self) -> None:
        """Take the arguments out of their dictionary."""
        if not self.form.bound:
            self(
                3,
                f"if _kcl_len(_kcl_given) != {len(self.form.names)}:",
                "    raise _kcl_NotPlayable",
            )
            self(3, *(f"{name} = _kcl_given[{name!r}]" for name in self.form.names))

    def checks(self) -> None:
        """Compare with the current signature; choose another signature, or raise."""
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
        # Equal numbers may be of other types.
        same += [f"{{*_kcl_map(_kcl_type, {name})}} == _kcl_whole" for name in form.sizes]
        kinds += [
            f"_kcl_type({name}) in _kcl_numbers" for name in form.passed if name not in form.typed
        ]
        kinds += [f"_kcl_type({name}) is _kcl_p{i}" for i, name in enumerate(form.typed)]
        self(3, f"if not ({' and '.join(kinds)}):", "    raise _kcl_NotPlayable")
        self(3, f"if not ({' and '.join(same)}):")
        self(4, f"_kcl_choose(_kcl_globals(), ({_tuple(form.arrays)}), ({_tuple(form.deciding)}))")

    def allocation(self, made: AllocatedOutput) -> None:
        """Allocate an output."""
        if self.form.bound:
            raise NotPlayable("allocates")
        if made.found:
            attributes = {
                "queue": "_kcl_queue",
                "context": "_kcl_context",
                "events": "[]",
                "allocator": "_kcl_default",
            }
            attributes |= {name: self.cell(value) for name, value in made.found.items()}
            attributes["base_data"] = f"_kcl_default({self.cell(made.size)})"
            self(3, "if _kcl_allocator is None:", f"    {made.name} = _kcl_new(_kcl_Array)")
            self(4, *(f"{made.name}.{name} = {text}" for name, text in attributes.items()))
            self(3, "else:")
        else:
            self(3, "if _kcl_allocator is None:", "    _kcl_allocator = _kcl_default")
        values = [self.value(value) for value in made.positional]
        values += [f"{name}={self.value(value)}" for name, value in made.keywords.items()]
        self(4 if made.found else 3, f"{made.name} = _kcl_Array({', '.join(values)})")

    def waits(self) -> None:
        """Find the events to wait for: none, where the arrays carry events of the same in-order queue only."""
        self(3, *(f"_kcl_e{i} = {name}.events" for i, name in enumerate(self.managed)))
        lists = [f"_kcl_e{i}" for i in range(len(self.managed))]
        if self.managed and self.form.in_order:
            unknown = [f"({e} and (_kcl_len({e}) != 1 or {e}[0] not in _kcl_own))" for e in lists]
            self(
                3,
                f"if {' or '.join(unknown)}:",
                f"    _kcl_w = _kcl_waits(_kcl_queue, ({_tuple(lists)}))",
            )
            self(3, "else:", "    _kcl_w = None")
        elif self.managed:
            self(3, f"_kcl_w = [{', '.join('*' + e for e in lists)}]")

    def setting(self, number: int, step: Step) -> None:
        """Set the arguments of a kernel that vary between calls; note the constant ones."""
        moving: dict[str, list[str]] = {}
        for index, (setter, items) in step.arguments.items():
            if any(isinstance(item, Mark) for item in items):
                texts = [item.text if isinstance(item, Mark) else repr(item) for item in items]
                moving.setdefault(setter, []).extend([str(index), *texts])
            else:
                self.constants.append((step.kernel, setter, (index, *items)))
        for setter, texts in moving.items():
            self(3, f"_kcl_k{number}{setter}(({_tuple(texts)}))")

    def enqueue(self, depth: int, number: int, step: Step) -> None:
        wait = (
            ("_kcl_w" if self.managed else "None")
            if number == 0
            else "None"
            if self.form.in_order
            else "[_kcl_evt]"
        )
        sizes = ", ".join(self.cell(size) for size in step.sizes)
        flags = "".join(f", {flag!r}" for flag in step.flags)
        self(depth, f"_kcl_evt = _kcl_enqueue(_kcl_queue, _kcl_k{number}, {sizes}, {wait}{flags})")

    def marks(self) -> None:
        """Leave the event on the written arrays."""
        if self.form.bound or not self.recording.written:
            return
        made = [name for name in self.recording.written if name not in self.managed]
        managed = [name for name in self.recording.written if name in self.managed]
        self(1, *(f"{name}.events.append(_kcl_evt)" for name in made))
        # Of a queue in order the last event stands for all: it takes the place of the others.
        if managed and self.form.in_order:
            add = [f"    {name}.add_event(_kcl_evt)" for name in managed]
            self(1, "try:", "    if _kcl_w is None:")
            for name in managed:
                events = f"_kcl_e{self.managed.index(name)}"
                self(3, f"if not {events}:", f"    {events}.append(_kcl_evt)")
                is_own = f"_kcl_len({events}) == 1 and {events}[0] in _kcl_own"
                self(3, f"elif {is_own}:", f"    {events}[0] = _kcl_evt")
                self(3, "else:", f"    _kcl_leave({name}, _kcl_evt)")
            self(2, "else:", *add)
            # Another thread has emptied a list.
            self(1, "except _kcl_IndexError:", *add)
        else:
            self(1, *(f"{name}.add_event(_kcl_evt)" for name in managed))
        if self.form.in_order:
            self(1, "_kcl_own[_kcl_evt] = None")
            self(
                1,
                "if not _kcl_len(_kcl_own) & _kcl_mask:",
                f"    _kcl_trim(_kcl_own, {bool(managed)})",
            )

    def result(self) -> str:
        outputs = self.recording.outputs
        if self.form.bound:
            return "_kcl_evt"
        if isinstance(outputs, dict):
            return f"_kcl_evt, {{{', '.join(f'{key!r}: {name}' for key, name in outputs.items())}}}"
        return f"_kcl_evt, ({_tuple(outputs)})"

    def value(self, value: Any) -> str:
        """Write a constructor's argument: a constant is one of the signature."""
        if isinstance(value, Mark):
            if value.text not in ("_kcl_queue", "_kcl_context", "_kcl_allocator"):
                raise NotPlayable("allocates by what is not known")
            return value.text
        return (
            f"_kcl_allocator({self.cell(value.size)})"
            if isinstance(value, Allocation)
            else self.cell(value)
        )

    def cell(self, value: Any) -> str:
        self.cells.append(value)
        return f"_kcl_c{len(self.cells) - 1}"


def _tuple(texts: Any) -> str:
    return "".join(f"{text}, " for text in texts)
