"""Candidates: this process runs the recipes and generates code without storing it; the arrays become files.

They lie in one folder of mode 0700, beside the caches of the children, and go away with the tuning. What a killed
process left is swept by a later tuning.
"""

from __future__ import annotations

import contextlib
import glob
import io
import os
import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from kcl.base import settings
from kcl.base.dtypes import dtype_text
from kcl.code import Code
from kcl.errors import UnknownInput
from kcl.generate.stage import dtypes_of
from kcl.handle import generated, line_of
from kcl.line import bindings_of
from kcl.tuning.child import ArrayFile, Arrays, CallForm, Question, Verdict
from kcl.tuning.race import Standing
from kcl.tuning.space import Choice, Skip
from kcl.tuning.table import code_digest

TunedKernel = Any  # kcl.tuning.tuned has the class, and imports the tuner
_PREFIX = "kcl-tune-"
_STALE_SECONDS = 86400.0
_MOST_BYTES = 1 << 30  # of arrays in files
_PLAIN = (
    int,
    float,
    complex,
    str,
    tuple,
    np.generic,
    type(None),
)  # values of arguments beside arrays


class Trial:
    """The code of one choice or of several, and what became of it.

    `codes` has the code for each form of the call where the choice is valid: "" is the call as it is. `digests` has the
    digest of each code as it runs: see `table.code_digest`. `program` is the digest of its program key, `standing` that
    of its last race. It is `ragged` if it has code for calls that are cut. `limit` are the seconds that it had, if it
    hangs. `needed` has the dtypes of the arguments that the code left open, and that decide it.
    """

    def __init__(self) -> None:
        self.codes: dict[str, Code] = {}
        self.digests: dict[str, str] = {}
        self.needed: dict[str, str] = {}
        self.program = ""
        self.limit = 0.0
        self.verdict = Verdict("")
        self.standing: Standing | None = None
        self.ragged = False


class TuningCandidate(NamedTuple):
    """A choice, and the trial of its code: choices with equal code share one."""

    choice: Choice
    trial: Trial

    @property
    def verdict(self) -> Verdict:
        """What became of it."""
        return self.trial.verdict

    @property
    def ratio(self) -> float | None:
        """Its time by that of the default, if it ran and computed the same."""
        return (
            self.trial.standing.ratio
            if self.trial.standing and self.verdict.outcome == "ok"
            else None
        )


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """Make the folder of a tuning; it goes away."""
    place = settings.temporary()
    for found in glob.glob(os.path.join(glob.escape(place), f"{_PREFIX}*")):
        with contextlib.suppress(OSError):
            status = os.lstat(found)
            if status.st_uid == os.getuid() and status.st_mtime < time.time() - _STALE_SECONDS:
                shutil.rmtree(found, ignore_errors=True)
    with tempfile.TemporaryDirectory(
        prefix=_PREFIX, dir=place, ignore_cleanup_errors=True
    ) as made:  # of mode 0700
        yield made


class _Call(NamedTuple):
    """A call: its arrays on the host, its other values, and its sizes."""

    arrays: Arrays
    values: dict[str, Any]
    sizes: dict[str, int]


class CandidateFiles:
    """Makes the candidates of one tuning, and the files of its call. Raises TypeError for other arguments.

    `default` is the candidate that runs untuned; the others get code for those forms of the call that its trial keeps.
    """

    def __init__(
        self, kernel: TunedKernel, queue: cl.CommandQueue, arguments: Mapping[str, Any], folder: str
    ) -> None:
        self.kernel, self.queue, self.folder = kernel, queue, folder
        values = {name: one for name, one in arguments.items() if isinstance(one, _PLAIN)}
        arrays = {
            name: _host(queue, name, one) for name, one in arguments.items() if name not in values
        }
        whole = _Call(arrays, values, kernel.sizes_of(arguments))
        self.sizes, self._calls, self._trials = (
            whole.sizes,
            {"": whole, **dict(_cuts(kernel, whole))},
            list[Trial](),
        )
        self.default = self.candidate(kernel.default_at(self.sizes))

    def question(self, places: Any, tolerance: float | None, seconds: float) -> Question:
        """Write the arrays; return what the children have to know."""
        arrays, files = self._calls[""].arrays, {}
        is_much = sum(array.nbytes for array in arrays.values()) > _MOST_BYTES
        for number, (name, array) in enumerate(arrays.items()):
            path = (
                ""
                if is_much and array.dtype.kind in "fc"
                else os.path.join(self.folder, f"array-{number}.npy")
            )
            if path:
                np.save(path, array, allow_pickle=False)
            files[name] = ArrayFile(
                path, array.shape, array.dtype, "F" if np.isfortran(array) else "C"
            )
        forms = {
            form: CallForm({name: array.shape for name, array in call.arrays.items()}, call.values)
            for form, call in self._calls.items()
        }
        return Question(places, files, forms, tolerance, seconds)

    def candidate(self, choice: Choice, refusal: str = "") -> TuningCandidate:
        """Generate the code of a choice, for the call and for each form of it where the choice is valid."""
        trial, whole = Trial(), {**self.kernel.given, **choice}
        os.utime(self.folder)  # as long as candidates are made nobody sweeps it
        try:
            for form in [] if refusal else self._forms():
                if not form or not self.kernel.space.refusal(whole, self._calls[form].sizes):
                    trial.codes[form] = self._generated(trial, choice, self._calls[form])
            trial.verdict = Verdict("not valid" if refusal else "", refusal)
        except Skip as error:
            trial.verdict = Verdict("skipped", str(error))
        except Exception as error:
            words = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            trial.verdict = Verdict("raises", words[:200])
        if trial.verdict.outcome:
            trial.codes.clear()
            return TuningCandidate(choice, trial)
        build = bindings_of(self.queue).build
        for form, code in trial.codes.items():
            trial.digests[form] = code_digest(build, code, build.headers_digest(code.text))
        trial.ragged = len(self._forms()) == len(trial.codes) > 1
        known = next((one for one in self._trials if one.codes == trial.codes), None)
        self._trials += [] if known else [trial]
        return TuningCandidate(choice, known or trial)

    def sizes_at(self, form: str) -> dict[str, int]:
        """Return the sizes of a form of the call."""
        return self._calls[form].sizes

    def _forms(self) -> list[str]:
        """Return the forms of the call at which the default runs, as far as that is known."""
        return list(self._trials[0].codes if self._trials else self._calls)

    def _generated(self, trial: Trial, choice: Choice, call: _Call) -> Code:
        """Return the code of a choice; what loopy prints of a failure is caught."""
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kernel, given = (
                self.kernel.kernel_at(choice, call.sizes),
                {**call.values, **call.arrays},
            )
            code = generated(kernel, given)
        base, dtypes = line_of(kernel).generate.base, dtypes_of(given)
        for name in base.needed if base is not None else ():
            trial.needed[name] = dtype_text(dtypes[name]) if name in dtypes else ""
        with contextlib.suppress(UnknownInput):
            trial.program = (
                trial.program or bindings_of(self.queue).build.slots(code.text)[0].key.digest
            )
        return code


def _host(queue: cl.CommandQueue, name: str, array: Any) -> np.ndarray[Any, Any]:
    """Return an array on the host; it is read only."""
    found = array.get(queue=queue) if isinstance(array, cl_array.Array) else array
    if not isinstance(found, np.ndarray) or found.dtype.hasobject or not found.flags.forc:
        raise TypeError(
            f"tune takes contiguous arrays of numbers, and numbers; {name!r} is of {type(array).__name__}: "
            "give a numpy array, or a pyopencl.array.Array"
        )
    return found


def _cuts(kernel: TunedKernel, whole: _Call) -> Iterator[tuple[str, _Call]]:
    """Yield for each size the call in which it is less by one.

    An axis is cut if its extent is that of an axis in the text of the size, or the size itself; and so is a number.
    """
    for name, text in kernel.size_texts.items():
        axes = re.findall(r"(\w+)\.shape\[(-?\d+)\]", text)
        extents = {
            whole.sizes[name],
            *(whole.arrays[array].shape[int(axis)] for array, axis in axes),
        } - {0, 1}
        arrays = {
            one: array[tuple(slice(extent - (extent in extents)) for extent in array.shape)]
            for one, array in whole.arrays.items()
        }
        values = {
            one: type(value)(value - 1) if type(value) is not bool and value in extents else value
            for one, value in whole.values.items()
        }
        sizes = kernel.sizes_of({**values, **arrays})
        if sizes[name] == whole.sizes[name] - 1:
            yield f"{name} = {sizes[name]}", _Call(arrays, values, sizes)
