"""Makes the candidates of a tuning: generates their code, in a forked child, and writes the call's arrays to files.

The code is not stored. The files lie in a folder of mode 0700, with the caches of the children, which is removed at the
end. A later tuning removes the folders of killed processes.
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

# The class of `kcl.choices.tuning.chooser`, which imports this module by way of the tuner.
ByTable = Any
_PREFIX = "kcl-tune-"
LIMIT_SECONDS = 30.0  # for one candidate
# Generating a candidate may take this many times as long as generating the default.
_SLOW = 5.0
_TOO_MUCH = "takes too much memory"
# A younger folder may not be locked yet.
_YOUNG_SECONDS = 60.0
# Outcomes that end the child. They may be different at another time.
DEATHS = ("crashes", "hangs", _TOO_MUCH)
_MOST_BYTES = 1 << 30  # of arrays in files
# The types of arguments other than arrays.
_PLAIN = (int, float, complex, str, tuple, np.generic, type(None))


class Trial:
    """A candidate: the code of one choice, or of several choices with equal code, and what was found out about it.

    `codes` has the code for each form of the call for which the choice is valid; "" is the call itself. `digests` has their
    digests (see `table.code_digest`). `program` is the digest of the program key. `standing` is that of the last race.
    `ragged` is True if it has code for all cut calls. `limit` is the time in seconds after which it counted as hanging.
    `needed` has the dtypes of open arguments that decide the code.
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
        """Its time divided by that of the default; None unless it ran and its results are right."""
        return self.standing.ratio if self.standing and self.verdict.outcome == "ok" else None


@contextlib.contextmanager
def folder() -> Iterator[str]:
    """Make a folder for a tuning, which is removed after the block. First remove folders of killed tunings.

    A folder is locked as long as the tuning or one of its children runs.
    """
    root = settings.temporary()
    for path in glob.glob(os.path.join(glob.escape(root), f"{_PREFIX}*")):
        # Another tuning may just be removing the folder, or still use it.
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
    # O_NOFOLLOW, so that a link in place of the folder is refused.
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        process.lock(descriptor)
        yield
    finally:
        os.close(descriptor)


class Generator(Answerer):
    """A forked child that generates code. Forked, so that it has the recipes of `__main__`. It calls no OpenCL."""

    def __init__(self, files: CandidateFiles) -> None:
        self._files = files
        self.pipe, end = Pipe()
        self.process = get_context("fork").Process(target=self._serve, args=(end,), daemon=True)
        with end, warnings.catch_warnings():
            # Newer versions of Python warn about a fork while other threads run.
            warnings.simplefilter("ignore")
            self.process.start()

    def end(self) -> int:
        """Kill the child and return its exit status."""
        self.pipe.close()
        self.process.kill()
        self.process.join()
        return self.process.exitcode or 0

    def _serve(self, pipe: Connection) -> None:
        # Close the inherited parent's end, so that reading fails when the parent ends.
        self.pipe.close()
        # A new session, so that Ctrl-C only reaches the parent.
        os.setsid()
        # Frozen, so that the child's collector does not release OpenCL objects of the parent.
        gc.freeze()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        # Discard what recipes print.
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        limit(0)
        answer(pipe, self._files)


class CandidateFiles:
    """Makes the candidates of one tuning, and the files with the arrays of its call. Raises TypeError for bad arguments.

    `calls` has the forms of the call by name. `start` is the choice without tuning, `default` its trial; other choices get
    code only for the forms that the default runs on. `seconds(least)` returns the time that generating a candidate may
    take. If the driver allows forks, code is generated in a forked child.
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
            # multiprocessing allows a daemon no children.
            is_daemon = current_process().daemon
            can_fork = hasattr(os, "fork") and drivers.of(queue.context).may_fork
            self._may_fork = can_fork and not is_daemon

    def close(self) -> None:
        """Kill the generating child; the next candidate gets a new one."""
        if self._generator is not None:
            self._generator.end()
        self._generator = None

    def question(self, places: Any, tolerance: Tolerance) -> Question:
        """Write the arrays to files, and return the Question that the children get first."""
        paths, forms = dict[int, str](), dict[str, CallForm]()
        for form, call in self.calls.items():
            files = {}
            # A cut call uses parts of the arrays of the whole call, so these files serve it too.
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
        """Return remarks on what results were not compared on: forms left out, and integer arrays with equal elements."""
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
        """Generate the code of a choice, for each form of the call for which the choice is valid.

        Choices with equal code share a trial.
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
        """Return the call `base` with some arguments replaced."""
        values = {name: value for name, value in arguments.items() if isinstance(value, _PLAIN)}
        arrays = {
            name: _to_host(self.queue, name, value)
            for name, value in arguments.items()
            if name not in values
        }
        arrays, values = {**base.arrays, **arrays}, {**base.values, **values}
        return CallForm(arrays, values, self.chooser.sizes_of({**values, **arrays}))

    def _forms(self) -> list[str]:
        """Return the forms of the call on which the default runs; all of them before that is known."""
        return list(self._trials[0].codes if self._trials else self.calls)

    def _generate_in_child(self, choice: Choice) -> Trial:
        """Generate the code of a choice in the forked child."""
        self._generator = self._generator or Generator(self)
        seconds = self.seconds(_SLOW * self._took)
        try:
            trial: Trial = self._generator.ask(seconds, "generate", choice)
        except ChildFault as fault:
            words = f"{fault.verdict.detail}, while generating"
            trial = Trial(fault.verdict._replace(detail=words))
        # The child is dead, or its memory is exhausted: the next candidate gets a new one.
        if trial.verdict.outcome in DEATHS:
            self.close()
        trial.limit = seconds
        return trial

    def generate(self, choice: Choice) -> Trial:
        """Return a trial with the code of a choice, or with the verdict why there is none. Output of loopy is discarded."""
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
        """Generate the code of a choice for one form; add the dtypes that decide it to `needed`."""
        generate = self.chooser.line_at(choice, call.sizes).generate
        values = {**call.values, **call.arrays}
        code: Code = generate.unstored(CallValues(values))
        base, dtypes = generate.base, dtypes_of(values)
        for name in base.needed if base is not None else ():
            needed[name] = dtype_text(dtypes[name]) if name in dtypes else ""
        return code


def _to_host(queue: cl.CommandQueue, name: str, array: Any) -> np.ndarray[Any, Any]:
    """Return an argument as an array on the host; raises TypeError if it is no contiguous array of numbers."""
    host = array.get(queue=queue) if isinstance(array, cl_array.Array) else array
    if not isinstance(host, np.ndarray) or host.dtype.hasobject or not host.flags.forc:
        raise TypeError(
            f"tune takes contiguous arrays of numbers, and numbers; {name!r} is of {type(array).__name__}: "
            "give a numpy array, or a pyopencl.array.Array"
        )
    return host


def _cuts(chooser: ByTable, whole: CallForm) -> Iterator[tuple[str, CallForm]]:
    """Yield, for each size, the call in which this size is less by one.

    All axes are cut that are as long as the size, or as an axis in its expression; so are scalars of that value.
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
        # If the expression is more than an axis, the size may not be less by one: then there is no such call.
        if sizes[name] == whole.sizes[name] - 1:
            yield f"{name} = {sizes[name]}", CallForm(arrays, values, sizes)
