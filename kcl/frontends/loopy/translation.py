"""Generates OpenCL C and an invoker from a TranslationUnit. Imported only on a miss."""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kcl.base import port, settings, spans
from kcl.code import Argument, Code, Invoker, ProgramText, dtype_text, layout_of
from kcl.errors import RecipeError, UnknownInput
from kcl.frontends import leave_out
from kcl.frontends.loopy import warned
from kcl.frontends.loopy.generating import quiet
from kcl.frontends.loopy.record import site
from kcl.generate import carrying, distributions
from kcl.generate.protocol import OpenArguments, Unit

if TYPE_CHECKING:
    import numpy as np

    from kcl.frontends.loopy.callables.content import Content

_CHANGED = "a callable changed what it reads while loopy ran it, which a hit would not do"
_ONCE = "loopy gave a warning that only the code behind it can give again"
# The names of launched kernels are read from the invoker, since loopy's device programs include called functions.
_LAUNCHED = re.compile(r"\b_lpy_cl_kernels\.(\w+)")
_LOOKED_UP = re.compile(r'get_or_register_dtype\("([^"]+)"\)')


class LoopyUnit(Unit):
    """The Unit for a TranslationUnit. Raises RecipeError unless it is for PyOpenCL and has one entry point."""

    front_end = "loopy"
    # True if the unit may contain code of packages.
    brings_code = True

    def __init__(self, unit: Any, recipe: str) -> None:
        from loopy import TranslationUnit
        from loopy.target.pyopencl import PyOpenCLTarget
        from loopy.target.pyopencl_execution import PyOpenCLExecutor

        if not isinstance(unit, TranslationUnit):
            returned = f"recipe {recipe!r} returned a loopy {type(unit).__name__}"
            raise RecipeError(f"{returned}; return a TranslationUnit{leave_out(unit)}")
        if not isinstance(unit.target, PyOpenCLTarget):
            raise RecipeError(
                f"recipe {recipe!r} returned a kernel for {type(unit.target).__name__}, not PyOpenCL"
            )
        if len(unit.entrypoints) != 1:
            raise RecipeError(
                f"recipe {recipe!r} returned {len(unit.entrypoints)} entry points; "
                "choose one with TranslationUnit.with_entrypoints"
            )
        (self._entry,) = unit.entrypoints
        # Used only to generate, for which it needs no context, and so keeps none alive.
        self._executor = PyOpenCLExecutor(None, unit, self._entry)
        self._options = unit[self._entry].options
        # The digest of the content when the key was computed; empty if the key has a record instead.
        self._digest = ""

    def _refusal(self) -> str:
        """Return why code of this unit must not be stored: its options make the generation do more than generate."""
        for name in ("edit_code", "write_wrapper"):
            if getattr(self._options, name):
                return f"loopy option {name} is set: generating prints or asks, which a hit would not do"
        return ""

    @property
    def packed(self) -> dict[str, list[tuple[Any, str]]]:
        """Arguments that are given as one object array, with (index, name) of the argument for each element."""
        controller = self._executor.packing_controller
        if controller is None:
            return {}
        return {name: list(parts.items()) for name, parts in controller.packing_info.items()}

    def open(self, dtypes: Mapping[str, np.dtype[Any]]) -> OpenArguments:
        """Return the arguments without a dtype, and the fewest of them from which the others can be inferred.

        Input arrays are always needed; another argument is if the dtypes cannot be inferred without it.
        """
        arguments = self._executor.separated_entry_knl.args
        names = tuple(argument.name for argument in arguments if argument.dtype is None)
        arrays = [name for name in names if self._is_input_array(name)]
        dtypes_given = {name: dtype for name, dtype in dtypes.items() if name in names}
        needed = {name: dtype for name, dtype in dtypes_given.items() if name in arrays}
        if len(dtypes_given) > len(needed) and self._inferred(needed) is None:
            needed = self._fewest(dtypes_given, arrays)
        return OpenArguments(
            names,
            tuple(name for name in names if name in needed or name in arrays),
            tuple(sorted(self._executor.input_array_names)),
            self.packed,
        )

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments of a call, with their dtypes as far as these are known."""
        return self._facts(self._executor.separated_entry_knl.args)

    def _facts(self, arguments: Iterable[Any]) -> tuple[Argument, ...]:
        return tuple(
            [
                Argument(a.name, type(a).__name__, _text(a.dtype), self._is_input_array(a.name))
                for a in arguments
            ]
        )

    def identity(self) -> str:
        """Return a digest of everything that decides the code; raise UnknownInput with the reason."""
        from kcl.frontends.loopy.callables.content import of_unit, unit_key

        counted = of_unit(self._executor.t_unit)
        self._digest = counted.digest
        return unit_key(counted)

    def _content(self) -> Content | None:
        """Return the present content of the unit; None if it cannot be known."""
        from kcl.frontends.loopy.callables.content import of_unit

        try:
            return of_unit(self._executor.t_unit)
        except UnknownInput:
            return None

    def refuse_if_forbidden(self, kernel: str) -> None:
        """Raise loopy's error for a miss if the user has set `LOOPY_ABORT_ON_CACHE_MISS`."""
        if getattr(sys.modules.get("loopy"), "ABORT_ON_CACHE_MISS", False):
            from pytools.persistent_dict import NoSuchEntryError

            raise NoSuchEntryError(
                f"no store has code for kernel {kernel!r}, and LOOPY_ABORT_ON_CACHE_MISS is set: "
                "run once without it to fill the cache"
            )

    def code(
        self, kernel: str, dtypes: Mapping[str, np.dtype[Any]], has_key: bool = True
    ) -> tuple[Code, str]:
        """Generate code for one choice of the open dtypes; return it, and why it must not be stored (empty if it may).

        Without a key nothing is stored, and loopy uses its own disk caches as the user set them.
        """
        with spans.span("generate", kernel, settings.GENERATOR), carrying(), quiet(has_key):
            if not has_key:
                return self._with_warnings(kernel, dtypes)[0], ""
            before = self._digest
            # Only code of packages can change its own content while loopy runs it.
            counted = self._content() if self.brings_code and not before else None
            if counted is not None and counted.parts:
                before = counted.digest
            generated, refusal = self._with_warnings(kernel, dtypes)
            if before and ((counted := self._content()) is None or counted.digest != before):
                refusal = _CHANGED
            refusal = self._refusal() or refusal
            if not refusal and (edited := distributions.changed()):
                refusal = f"files of {edited} changed as the program ran"
            return generated, refusal

    def _with_warnings(self, kernel: str, dtypes: Mapping[str, np.dtype[Any]]) -> tuple[Code, str]:
        """Generate code, with loopy's warnings stored in it so that a hit can repeat them.

        Returns the code, and why the warnings cannot be stored (empty if they can). Those that cannot are given now.
        """
        # None in a thread of kcl's own, which no line of the program has called.
        place = site()
        heard, facts = list[Any](), None
        try:
            with warned.hearing() as heard:
                generated = self.generate(kernel, dtypes)
            facts = warned.kept(heard)
        finally:
            if facts is None and place is not None:
                warned.give(heard, place)
        if facts is None:
            return generated, _ONCE
        return generated._replace(invoker=generated.invoker._replace(warned=facts)), ""

    def generate(self, kernel: str, dtypes: Mapping[str, np.dtype[Any]]) -> Code:
        """Generate code for one choice of the open dtypes."""
        from loopy.codegen import generate_code_v2
        from loopy.diagnostic import LoopyError

        try:
            typed = self._executor.get_typed_and_scheduled_translation_unit(
                self._loopy_dtypes(dtypes) or None
            )
            code = generate_code_v2(typed)
        except LoopyError as error:
            # If missing dtypes are the cause, the message names them and says what to do.
            words = self._lacking(kernel, dtypes)
            if words:
                raise type(error)(words) from error
            raise
        # Uncached, since an invoker from loopy's disk cache has no source.
        invoker = self._executor.get_invoker_uncached(typed, self._entry, code)
        source = _source_of(invoker)
        entry = typed[self._entry]
        names = {argument.name for argument in self._executor.separated_entry_knl.args}
        text = ProgramText(
            kernel=kernel,
            source=_edited(code.device_code(), entry.options),
            options=_option_list(entry.options.build_options),
            kernels=tuple(dict.fromkeys(_LAUNCHED.findall(source))),
        )
        if settings.read().dump:
            stages = {"unit.txt": str(self._executor.t_unit), "scheduled.txt": str(typed)}
            port("dump").note(text.source_digest, stages)
        return Code(
            text,
            Invoker(
                front_end="loopy",
                source=source,
                function=invoker.name,
                arguments=self._facts([a for a in entry.args if a.name in names]),
                inferred=self._types_found(entry),
                packed=self.packed,
                dtypes=_structures(source),
                shown=entry.options.write_code,
            ),
        )

    def follows(self, dtypes: Mapping[str, np.dtype[Any]], needed: tuple[str, ...]) -> bool:
        """Return True if loopy infers the same dtypes from the `needed` ones alone."""
        inferred = self._inferred({name: dtype for name, dtype in dtypes.items() if name in needed})
        return inferred is not None and all(
            inferred.get(name) == dtype_text(dtype) for name, dtype in dtypes.items()
        )

    def _lacking(self, kernel: str, dtypes: Mapping[str, np.dtype[Any]]) -> str:
        """Return an error message that names the inputs whose dtypes are missing; empty if none are."""
        from loopy import ArrayArg

        entry = self._executor.separated_entry_knl
        # loopy itself chooses a dtype for sizes.
        typed = dtypes.keys() | entry.all_params()
        inputs = [a for a in entry.args if not isinstance(a, ArrayArg) or a.is_input]
        lacking = [a.name for a in inputs if a.dtype is None and a.name not in typed]
        if not lacking or self._inferred(dtypes) is not None:
            return ""
        names = ", ".join(map(repr, lacking))
        example = f"{lacking[0]}=np.float32, in a call np.float32(2)"
        return f"kernel {kernel!r}: give the dtypes of {names}, which decide the code, such as {example}"

    def _is_input_array(self, name: str) -> bool:
        from loopy import ArrayArg

        argument = self._executor.separated_entry_knl.arg_dict[name]
        return bool(isinstance(argument, ArrayArg) and argument.is_input)

    def _fewest(
        self, dtypes: dict[str, np.dtype[Any]], arrays: list[str]
    ) -> dict[str, np.dtype[Any]]:
        needed = dict(dtypes)
        # Sorted, so that each process leaves the same ones out.
        for name in sorted(dtypes):
            fewer = {other: dtype for other, dtype in needed.items() if other != name}
            if name not in arrays and self._inferred(fewer) is not None:
                needed = fewer
        return needed

    def _inferred(self, dtypes: Mapping[str, np.dtype[Any]]) -> dict[str, str] | None:
        """Infer all dtypes from the given ones; None if these do not suffice."""
        from loopy.diagnostic import LoopyError
        from loopy.kernel.tools import add_dtypes
        from loopy.type_inference import infer_unknown_types

        unit, executor = self._executor.t_unit, self._executor
        if executor.sep_info:
            return None
        try:
            typed = infer_unknown_types(
                unit.with_kernel(add_dtypes(unit[self._entry], self._loopy_dtypes(dtypes))),
                expect_completion=True,
            )
        except (LoopyError, AssertionError):
            # loopy raises one of these if the dtypes do not suffice.
            return None
        return self._types_found(typed[self._entry])

    def _types_found(self, entry: Any) -> dict[str, str]:
        open_names = {a.name for a in self._executor.separated_entry_knl.args if a.dtype is None}
        return {
            a.name: dtype_text(a.dtype.numpy_dtype)
            for a in entry.args
            if a.name in open_names and hasattr(a.dtype, "numpy_dtype")
        }

    def _loopy_dtypes(self, dtypes: Mapping[str, np.dtype[Any]]) -> Any:
        from constantdict import constantdict
        from loopy.types import NumpyType

        return constantdict({name: NumpyType(dtype) for name, dtype in dtypes.items()})


def _edited(source: str, options: Any) -> str:
    """Let the user edit the OpenCL C if the unit's options ask for that, as loopy's executor does."""
    if options.edit_code:
        from pytools import invoke_editor

        source = invoke_editor(source, "code.cl")
    return source


def _source_of(invoker: Any) -> str:
    # loopy keeps no source of an invoker, but pytools has put it into `linecache`, for tracebacks.
    code = invoker.module.mod_globals["__code__"]
    return "".join(linecache.cache[code.co_filename][2])  # type: ignore[misc]


def _option_list(options: Any) -> tuple[str, ...]:
    if isinstance(options, str):
        import shlex

        return tuple(shlex.split(options))
    return tuple(options or ())


def _structures(invoker: str) -> list[tuple[str, Any]]:
    from pyopencl.tools import get_or_register_dtype

    return [
        (name, layout_of(get_or_register_dtype(name)))
        for name in sorted(set(_LOOKED_UP.findall(invoker)))
    ]


def _text(dtype: Any) -> str:
    return dtype_text(dtype.numpy_dtype) if hasattr(dtype, "numpy_dtype") else str(dtype or "")
