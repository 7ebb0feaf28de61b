"""Candidates: this process runs the recipes and generates code without storing it; code and arrays become files.

They lie in one folder of mode 0700, beside the caches of the children, and go away with the tuning. What a killed
process left is swept by a later tuning.
"""

from __future__ import annotations

import contextlib
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
from kcl.cache.key import Key, Part
from kcl.errors import UnknownInput
from kcl.generate import rows
from kcl.handle import generated
from kcl.line import bindings_of
from kcl.tuning.child import ArrayFile, Arrays, Question, Verdict
from kcl.tuning.race import Standing
from kcl.tuning.space import Choice, Skip

TunedKernel = Any  # kcl.tuning.tuned has the class, and imports the tuner
_PREFIX = "kcl-tune-"
_STALE_SECONDS = 86400.0
_MOST_BYTES = 1 << 30  # of arrays in files
_PLAIN = (int, float, complex, str, tuple, np.generic, type(None))  # values of arguments beside arrays


class TuningCandidate:
    """A choice and what became of it.

    `paths` are the files of its code, for the call as it is ("") and for each cut where the choice is valid. `program`
    is the digest of its program key, `standing` that of its last race. It is `ragged` if it was compared at every cut.
    """

    def __init__(self, choice: Choice, verdict: Verdict) -> None:
        self.choice, self.verdict = choice, verdict
        self.paths: dict[str, str] = {}
        self.program = ""
        self.standing: Standing | None = None
        self.ragged = False

    @property
    def code(self) -> tuple[str, ...]:
        """The files: candidates with the same ones have equal code."""
        return tuple(self.paths.values())

    @property
    def ratio(self) -> float | None:
        """Its time by that of the default, if it ran and computed the same."""
        return self.standing.ratio if self.standing and self.verdict.outcome == "ok" else None


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """Make the folder of a tuning; it goes away."""
    place, oldest = settings.temporary(), time.time() - _STALE_SECONDS
    for found in os.scandir(place):
        with contextlib.suppress(OSError):
            status = found.stat(follow_symlinks=False)
            if found.name.startswith(_PREFIX) and status.st_uid == os.getuid() and status.st_mtime < oldest:
                shutil.rmtree(found.path, ignore_errors=True)
    made = tempfile.mkdtemp(prefix=_PREFIX, dir=place)  # its mode is 0700
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


class _Form(NamedTuple):
    """A call: its arrays on the host, its other values, and its sizes."""

    arrays: Arrays
    values: dict[str, Any]
    sizes: dict[str, int]


class CandidateFiles:
    """Makes the candidates of one tuning, and the files of its call. Raises TypeError for other arguments."""

    def __init__(self, kernel: TunedKernel, queue: cl.CommandQueue, arguments: Mapping[str, Any], folder: str) -> None:
        self.kernel, self.queue, self.folder = kernel, queue, folder
        values = {name: one for name, one in arguments.items() if isinstance(one, _PLAIN)}
        arrays = {name: _host(queue, name, one) for name, one in arguments.items() if name not in values}
        whole = _Form(arrays, values, kernel.sizes_of(arguments))
        self._forms = {"": whole, **dict(_cuts(kernel, whole))}

    def question(self, places: Any, tolerance: float | None, seconds: float) -> Question:
        """Write the arrays; return what the children have to know."""
        whole, *cuts = self._forms.values()
        is_much = sum(array.nbytes for array in whole.arrays.values()) > _MOST_BYTES
        files = {}
        for number, (name, array) in enumerate(whole.arrays.items()):
            path = "" if is_much and array.dtype.kind in "fc" else os.path.join(self.folder, f"array-{number}.npy")
            if path:
                np.save(path, array, allow_pickle=False)
            files[name] = ArrayFile(path, array.shape, array.dtype, "F" if np.isfortran(array) else "C")
        changes = [({name: array.shape for name, array in cut.arrays.items()}, cut.values) for cut in cuts]
        return Question(
            places, files, whole.values, dict(zip(list(self._forms)[1:], changes, strict=True)), tolerance, seconds
        )

    def candidate(self, choice: Choice, refusal: str = "") -> TuningCandidate:
        """Generate the code of a choice, for the call and for each cut where the choice is valid."""
        found = TuningCandidate(choice, Verdict("not valid" if refusal else "", refusal))
        try:
            for cut, form in self._forms.items():
                if not refusal and (not cut or self.kernel.space.is_valid({**self.kernel.given, **choice}, form.sizes)):
                    found.paths[cut] = self._written(found, form)
        except Skip as error:
            found.verdict = Verdict("skipped", str(error))
        except Exception as error:
            found.verdict = Verdict(
                "raises", f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"[:200]
            )
        if found.verdict.outcome:
            found.paths.clear()
        return found

    def _written(self, found: TuningCandidate, form: _Form) -> str:
        """Write the code under its digest, so equal code is one file; what loopy prints of a failure is caught.

        A file that is there stays as it is: a child may be reading it.
        """
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = generated(self.kernel.kernel_at(found.choice, form.sizes), {**form.values, **form.arrays})
        with contextlib.suppress(UnknownInput):
            found.program = found.program or bindings_of(self.queue).build.slots(code.text)[0].key.digest
        key = Key([Part("candidate", code.digest)])
        path = os.path.join(self.folder, key.digest)
        if not os.path.exists(path):
            with open(path, "wb") as stream:
                stream.write(rows.to_entry(code, key, {}).pack(in_pieces=False))
        return path


def _host(queue: cl.CommandQueue, name: str, array: Any) -> np.ndarray[Any, Any]:
    """Return an array on the host; it is read only."""
    found = array.get(queue=queue) if isinstance(array, cl_array.Array) else array
    if not isinstance(found, np.ndarray) or found.dtype.hasobject or not found.flags.forc:
        raise TypeError(f"tune takes contiguous arrays of numbers, and numbers; {name!r} is of {type(array).__name__}")
    return found


def _cuts(kernel: TunedKernel, whole: _Form) -> Iterator[tuple[str, _Form]]:
    """Yield for each size the call in which it is less by one.

    An axis is cut if its extent is that of an axis in the text of the size, or the size itself; and so is a number.
    """
    for name, text in kernel.size_texts.items():
        axes = re.findall(r"(\w+)\.shape\[(-?\d+)\]", text)
        extents = {whole.sizes[name], *(whole.arrays[array].shape[int(axis)] for array, axis in axes)} - {0, 1}
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
            yield f"{name} = {sizes[name]}", _Form(arrays, values, sizes)
