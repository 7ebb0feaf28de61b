"""Candidates: a forked child runs the recipes and generates code, nothing is stored; the arrays become files.

They lie in one folder of mode 0700, beside the caches of the children, and go away with the tuning. What a killed
process left is swept by a later tuning.
"""

from __future__ import annotations

import contextlib
import gc
import glob
import io
import os
import re
import shutil
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from multiprocessing import Pipe, current_process, get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

from kcl import drivers
from kcl.base import process, settings
from kcl.choices.tuning import inputs
from kcl.choices.tuning.child import ArrayFile, CallForm, Question, Tolerance
from kcl.choices.tuning.race import Standing
from kcl.choices.tuning.space import Choice, Skip, describe
from kcl.choices.tuning.table import code_digest
from kcl.code import Code, dtype_text
from kcl.drivers.child import MEMORY, OPEN, Answerer, ChildFault, Verdict, answer, limit
from kcl.errors import UnknownInput
from kcl.generate.stage import CallValues, dtypes_of
from kcl.line import bindings_of

# `kcl.choices.tuning.chooser` has the class, and imports the tuner, which imports this module.
ByTable = Any
_PREFIX = "kcl-tune-"
LIMIT_SECONDS = 30.0  # of one candidate
# A generation may take this many times what that of the default took.
_SLOW = 5.0
_TOO_MUCH = "takes too much memory"
# A younger folder may have no lock yet.
_YOUNG_SECONDS = 60.0
# Outcomes that end a child: the next question goes to a new one. Another moment may have another outcome.
DEATHS = ("crashes", "hangs", _TOO_MUCH)
_MOST_BYTES = 1 << 30  # of arrays in files
# Values of arguments beside arrays.
_PLAIN = (int, float, complex, str, tuple, np.generic, type(None))


class Trial:
    """The code of one choice or of several, and what became of it.

    `codes` has the code for each form of the call where the choice is valid: "" is the call as it is. `digests` has the
    digest of each code as it runs: see `table.code_digest`. `program` is the digest of its program key, `standing` that
    of its last race. It is `ragged` if it has code for calls that are cut. `limit` is the number of seconds that it had,
    if it hangs. `needed` has the dtypes of the arguments that the code left open, and that decide it.
    """

    def __init__(self, verdict: Verdict = OPEN) -> None:
        self.codes: dict[str, Code] = {}
        self.digests: dict[str, str] = {}
        self.needed: dict[str, str] = {}
        self.program = ""
        self.limit = 0.0
        self.verdict = verdict
        self.standing: Standing | None = None
        self.ragged = False

    @property
    def ratio(self) -> float | None:
        """Its time by that of the default, if it ran and computed the same."""
        return self.standing.ratio if self.standing and self.verdict.outcome == "ok" else None


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """Within the block, keep a folder for a tuning; remove first what killed tunings left.

    The lock of the folder is free once the tuning and its children have ended.
    """
    root = settings.temporary()
    for path in glob.glob(os.path.join(glob.escape(root), f"{_PREFIX}*")):
        # Another tuning may sweep the same folder, or hold its lock.
        with suppress(OSError):
            status = os.lstat(path)
            if status.st_uid == os.getuid() and status.st_mtime < time.time() - _YOUNG_SECONDS:
                with _hold_lock(path):
                    shutil.rmtree(path, ignore_errors=True)
    # `tempfile` makes the folder with mode 0700.
    made = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=root, ignore_cleanup_errors=True)
    with made as path, _hold_lock(path):
        yield path


@contextlib.contextmanager
def _hold_lock(place: str) -> Iterator[None]:
    """Hold the lock of a folder; raises `OSError` if another process holds it."""
    # A link in the place of the folder is not followed.
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        process.lock(descriptor)
        yield
    finally:
        os.close(descriptor)


class Generator(Answerer):
    """A forked child that generates code: it has the recipes of `__main__` and closures, and calls no OpenCL."""

    def __init__(self, files: CandidateFiles) -> None:
        self._files = files
        self.pipe, end = Pipe()
        self.process = get_context("fork").Process(target=self._serve, args=(end,), daemon=True)
        with end, warnings.catch_warnings():
            # Python warns of a fork beside other threads.
            warnings.simplefilter("ignore")
            self.process.start()

    def end(self) -> int:
        """End the child, whatever it does."""
        self.pipe.close()
        self.process.kill()
        self.process.join()
        return self.process.exitcode or 0

    def _serve(self, pipe: Connection) -> None:
        # The parent's end is closed here, so that this child sees when the parent ends.
        self.pipe.close()
        # Ctrl-C is for the parent.
        os.setsid()
        # Objects of OpenCL stay: the child's collector leaves them alone.
        gc.freeze()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        # What a recipe prints goes nowhere.
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        limit(0)
        answer(pipe, self._files)


class CandidateFiles:
    """Makes the candidates of one tuning, and the files of its call. Raises TypeError for other arguments.

    `calls` has the forms of the call by name. `start` is the choice that runs untuned, and `default` its trial: the others
    get code for those forms that it keeps.
    `seconds` returns the seconds that the generation of one may take, in a forked child where the driver allows that. It
    gets a time that would do.
    """

    def __init__(
        self, chooser: ByTable, queue: cl.CommandQueue, arguments: Mapping[str, Any], folder: str
    ) -> None:
        self.chooser, self.queue, self.folder = chooser, queue, folder
        self.seconds: Callable[..., float] = lambda least=0.0: max(least, LIMIT_SECONDS)
        self._generator: Generator | None = None
        self._may_fork = False
        self._trials = list[Trial]()
        self._took = 0.0  # seconds of the generation of the default
        whole = self._call(CallForm({}, {}, {}), arguments)
        self.sizes, self.nbytes, self.calls = whole.sizes, whole.nbytes, {"": whole}
        for at, case in enumerate(chooser.space.cases):
            self.calls[f"cases[{at}]"] = self._call(whole, case)
        self.calls |= _cuts(chooser, whole)
        self.start = chooser.default_at(self.sizes)
        self.default = trial = self.trial(self.start)
        if not trial.verdict.outcome:
            code = trial.codes[""]
            for form, names in inputs.find_drawn(code, *whole[:3]).items():
                self.calls[form], trial.codes[form] = whole._replace(drawn=names), code
            # multiprocessing gives a daemon no child of its own.
            is_daemon = current_process().daemon
            can_fork = hasattr(os, "fork") and drivers.of(queue.context).may_fork
            self._may_fork = can_fork and not is_daemon

    def close(self) -> None:
        """End the child that generates; the next question goes to another one."""
        if self._generator is not None:
            self._generator.end()
        self._generator = None

    def question(self, places: Any, tolerance: Tolerance) -> Question:
        """Write the arrays; return what the children have to know."""
        paths, forms = dict[int, str](), dict[str, CallForm]()
        for form, call in self.calls.items():
            files = {}
            # The arrays of a call that is cut are parts of the arrays of the whole call.
            for name, array in self.calls["" if inputs.is_cut(form) else form].arrays.items():
                # An array that several calls share is written once.
                if id(array) not in paths:
                    is_made_up = self.nbytes > _MOST_BYTES and array.dtype.kind in "fc"
                    path = os.path.join(self.folder, f"array-{len(paths)}.npy")
                    paths[id(array)] = "" if is_made_up else path
                    if not is_made_up:
                        np.save(path, array, allow_pickle=False)
                order: Any = "F" if np.isfortran(array) else "C"
                shape = call.arrays[name].shape
                files[name] = ArrayFile(paths[id(array)], shape, array.dtype, order)
            forms[form] = call._replace(arrays=files)
        space = self.chooser.space
        tolerance = space.tolerance if tolerance is None else tolerance
        return Question(places, forms, tolerance, None if space.compare is None else ())

    def notes(self, left: Mapping[str, Verdict]) -> list[str]:
        """Return what results were not compared on: forms that are left out, and equal integers."""
        lines = [
            f"nothing is compared{inputs.place(form)}: the default {': '.join(verdict)}"
            for form, verdict in left.items()
        ]
        code, arrays = self.default.codes[""], self.calls[""].arrays
        return lines + [
            f"all elements of {name} are {arrays[name].flat[0]}: kcl.space(cases=[{{{name!r}: ...}}]) compares others"
            for name in inputs.find_constant(code, arrays)
        ]

    def trial(self, choice: Choice) -> Trial:
        """Generate the code of a choice, for the call and for each form of it where the choice is valid.

        Choices with equal code share one trial.
        """
        if self._trials and describe(choice) == describe(self.start):
            return self.default
        began = time.monotonic()
        trial = self._generate_in_child(choice) if self._may_fork else self.generate(choice)
        self._took = self._took or time.monotonic() - began
        if trial.verdict.outcome:
            return trial
        build = bindings_of(self.queue).build
        with suppress(UnknownInput):
            trial.program = build.slots(trial.codes[""].text)[0].key.digest
        for form, code in trial.codes.items():
            trial.digests[form] = code_digest(build, code, build.headers_digest(code.text))
        drawn = [form for form in self._forms() if self.calls[form].drawn]
        trial.codes |= dict.fromkeys(drawn, trial.codes[""])
        cuts = {form for form in self._forms() if inputs.is_cut(form)}
        trial.ragged = bool(cuts) and trial.codes.keys() >= cuts
        same = next((earlier for earlier in self._trials if earlier.codes == trial.codes), None)
        self._trials += [] if same else [trial]
        return same or trial

    def _call(self, base: CallForm, arguments: Mapping[str, Any]) -> CallForm:
        """Return the call with some arguments of `base` replaced by these."""
        values = {name: value for name, value in arguments.items() if isinstance(value, _PLAIN)}
        arrays = {
            name: _to_host(self.queue, name, value)
            for name, value in arguments.items()
            if name not in values
        }
        arrays, values = {**base.arrays, **arrays}, {**base.values, **values}
        return CallForm(arrays, values, self.chooser.sizes_of({**values, **arrays}))

    def _forms(self) -> list[str]:
        """Return the forms of the call at which the default runs, as far as that is known."""
        return list(self._trials[0].codes if self._trials else self.calls)

    def _generate_in_child(self, choice: Choice) -> Trial:
        """Return what a child makes of a choice."""
        self._generator = self._generator or Generator(self)
        seconds = self.seconds(_SLOW * self._took)
        try:
            trial: Trial = self._generator.ask(seconds, "generate", choice)
        except ChildFault as fault:
            words = f"{fault.verdict.detail}, while generating"
            trial = Trial(fault.verdict._replace(detail=words))
        # The next question goes to a new child.
        if trial.verdict.outcome in DEATHS:
            self.close()
        trial.limit = seconds
        return trial

    def generate(self, choice: Choice) -> Trial:
        """Return the code of a choice, or why there is none; what loopy prints of a failure is caught."""
        trial, whole = Trial(), {**self.chooser.given, **choice}
        calls = {form: self.calls[form] for form in self._forms() if not self.calls[form].drawn}
        try:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for form, call in calls.items():
                    if not form or not self.chooser.space.refusal(whole, call.sizes):
                        trial.codes[form] = self._generate_code(trial.needed, choice, call)
        except Skip as error:
            return Trial(Verdict("skipped", str(error)))
        except MemoryError:
            return Trial(Verdict(_TOO_MUCH, f"{MEMORY >> 30} GiB, while generating"))
        except Exception as error:
            words = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            return Trial(Verdict("raises", words[:200]))
        return trial

    def _generate_code(self, needed: dict[str, str], choice: Choice, call: CallForm) -> Code:
        """Return the code of a choice; add the dtypes that it needs."""
        generate = self.chooser.line_at(choice, call.sizes).generate
        values = {**call.values, **call.arrays}
        code: Code = generate.unstored(CallValues(values))[0]
        base, dtypes = generate.base, dtypes_of(values)
        for name in base.needed if base is not None else ():
            needed[name] = dtype_text(dtypes[name]) if name in dtypes else ""
        return code


def _to_host(queue: cl.CommandQueue, name: str, array: Any) -> np.ndarray[Any, Any]:
    """Return an array on the host; it is read only."""
    host = array.get(queue=queue) if isinstance(array, cl_array.Array) else array
    if not isinstance(host, np.ndarray) or host.dtype.hasobject or not host.flags.forc:
        raise TypeError(
            f"tune takes contiguous arrays of numbers, and numbers; {name!r} is of {type(array).__name__}: "
            "give a numpy array, or a pyopencl.array.Array"
        )
    return host


def _cuts(chooser: ByTable, whole: CallForm) -> Iterator[tuple[str, CallForm]]:
    """Yield for each size the call in which it is less by one.

    An axis is cut if it is as long as an axis that the size names, or as the size itself. So is a scalar of that value.
    """
    for name, text in chooser.sizes.texts.items():
        axes = re.findall(r"(\w+)\.shape\[(-?\d+)\]", text)
        # An axis with one element or none cannot be cut.
        extents = {
            whole.sizes[name],
            *(whole.arrays[array].shape[int(axis)] for array, axis in axes),
        } - {0, 1}
        arrays = {
            key: array[tuple(slice(extent - (extent in extents)) for extent in array.shape)]
            for key, array in whole.arrays.items()
        }
        values = {
            key: type(value)(value - 1) if type(value) is not bool and value in extents else value
            for key, value in whole.values.items()
        }
        sizes = chooser.sizes_of({**values, **arrays})
        # A text may make more of an axis than its extent. Such a size is not cut.
        if sizes[name] == whole.sizes[name] - 1:
            yield f"{name} = {sizes[name]}", CallForm(arrays, values, sizes)
