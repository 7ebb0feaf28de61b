"""A project of a user, run as whole processes: the folder `line` copied, with a cache of its own."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import time

from kcl.cache.entry import Entry
from kcl.cache.stores.directory import Directory
from kcl.cache.stores.sqlite import Rows
from kcl.drivers.pocl import client
from kcl.drivers.pocl.jobs import JobQueue

SUPPORT = pathlib.Path(__file__).parent
ROOT = SUPPORT.parents[1]
JOURNAL = ("kcl", os.path.join("kcl", "journal"))
X = 5050.0  # the sum of the input of most launches
NUMBERS = {
    "typed": 2 * X + 100,
    "untyped": 3 * X,
    "untyped float64": 4 * X,
    "untyped once more": 6 * X,
    "included": 10 * X + 100,
    "control": X,
    "body": 2 * X,
    "helped": 3 * X,
    "elsewhere": 4 * X,
    "closed": 5 * X,
    "defaulted": 6 * X,
    "from_global": 7 * X,
    "from_class": 8 * X,
    "parameter": 9 * X,
    "from_file": 12 * X,
    "optioned": 11 * X,
}
PROGRAMS = 15  # "untyped once more" is a second call


class Run:
    """What one process did."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code = done.returncode
        self.stderr = done.stderr
        self.said = json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {}

    def __repr__(self) -> str:
        return f"<Run {self.code}: {self.said.get('events')}\n{self.stderr}>"

    @property
    def numbers(self) -> dict[str, float]:
        """What the kernels computed, by launch."""
        return self.said["numbers"]

    def outcomes(self, layer: str) -> dict[str, list[str]]:
        """Return the outcomes of a layer by kernel, in order."""
        found: dict[str, list[str]] = {}
        for name, kernel, outcome, _reason in self.said["events"]:
            if name == layer:
                found.setdefault(kernel, []).append(outcome)
        return found

    def set(self, layer: str) -> set[str]:
        """Return which outcomes a layer had at all."""
        return {outcome for name, _kernel, outcome, _reason in self.said["events"] if name == layer}

    def reasons(self, layer: str) -> dict[str, str]:
        """Return the last reason of a layer by kernel."""
        events = self.said["events"]
        return {kernel: reason for name, kernel, _outcome, reason in events if name == layer}


class Project:
    """A copy of the folder `line` below `child.directory`, run in child processes; `pure` declares its recipes so."""

    def __init__(self, child, platform: str, pure: bool = False) -> None:
        self.child = child
        self.variables = {"DRIVER_PURE": "1"} if pure else {}
        self.platform = platform
        self.folder = child.directory / "project"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(SUPPORT / "projects" / "line", self.folder, ignore=ignored)

    @property
    def path(self) -> str:
        """The PYTHONPATH with which the driver can be imported."""
        return os.pathsep.join([str(self.folder), str(ROOT), str(SUPPORT)])

    def start(
        self, group="all", *, command=("driver.py",), cwd=None, options=(), warm=False, **variables
    ):
        """Run the driver, whatever its end; `warm` forbids compilation and loopy and demands hits."""
        if warm:
            variables = {"DRIVER_FORBIDS": "1", "KCL_STRICT": "hit", **variables}
        variables.setdefault("PYTHONPATH", os.pathsep.join([str(ROOT), str(SUPPORT)]))
        if command == ("driver.py",):
            command = (str(self.folder / "driver.py"),)
        words = (*options, *command, self.platform, group)
        return Run(self.child.python(*words, cwd=cwd or self.folder, **self.variables, **variables))

    def run(self, group="all", **keywords) -> Run:
        """Run the driver, which must end well."""
        run = self.start(group, **keywords)
        assert run.code == 0, f"the driver ended with {run.code}:\n{run.stderr}"
        return run

    def finish(self) -> None:
        """Wait until the helper has done its work and has ended: nothing below the cache changes by itself then."""
        kcl, end = str(self.child.cache / "kcl"), time.monotonic() + 120
        assert client.idle(kcl, 120)
        while JobQueue(kcl).has_helper():
            assert time.monotonic() < end, "the helper does not end"
            client.dismiss(kcl)

    @property
    def helpers(self) -> list[str]:
        """The command lines of living helpers of the project's cache."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line = (process / "cmdline").read_bytes().decode("utf-8", "replace")
                if "kcl.drivers.pocl.helper" in line and str(self.child.cache) in line:
                    found.append(line)
        return found

    def edit(self, file: str, before: str, after: str) -> None:
        """Replace a text that occurs once in a file of the project."""
        path = self.folder / file
        text = path.read_text()
        assert text.count(before) == 1, f"{before!r} occurs {text.count(before)} times in {file}"
        path.write_text(text.replace(before, after))

    @property
    def binaries(self) -> Directory:
        """The binary layer's store."""
        return Directory(self.child.cache / "pyopencl" / "kcl-binary-v1")

    @property
    def rows(self) -> Rows:
        """The generator layer's store."""
        return Rows(self.child.cache / "pytools")

    def binary_of(self, kernel: str) -> tuple[str, Entry]:
        """Return address and entry of a kernel's program."""
        ((address, entry),) = [
            pair for pair in _entries(self.binaries) if pair[1].metadata["kernel"] == kernel
        ]
        return address, entry

    def row_of(self, kernel: str) -> tuple[str, Entry]:
        """Return address and entry of the generated code of a kernel."""
        ((address, entry),) = self.rows_of(kernel)
        return address, entry

    def rows_of(self, kernel: str) -> list[tuple[str, Entry]]:
        """Return addresses and entries of the generated code of a kernel, one for each choice of dtypes."""
        found = [pair for pair in _entries(self.rows) if pair[1].metadata["kernel"] == kernel]
        return [pair for pair in found if "function" in pair[1].metadata]

    def own_files(self, journal: bool = True) -> dict[str, tuple[int, int, int]]:
        """Return inode, size and time of change of kcl's own files and folders below the cache.

        Without the journal that is what a run must leave as it is that finds everything.
        """
        found = {path: facts for path, facts in files(self.child.cache).items() if is_own(path)}
        for path in [] if journal else [*found]:
            if path in JOURNAL or os.path.dirname(path) == JOURNAL[1]:
                del found[path]
        return found

    @property
    def quarantined(self) -> list[str]:
        """Names of the files that were set aside."""
        folder = self.child.cache / "kcl" / "quarantine"
        return sorted(path.name for path in folder.glob("*") if path.suffix != ".txt")


def is_own(path: str) -> bool:
    """Tell whether a path below the cache belongs to kcl, not to one of the caches beside it."""
    is_row = os.path.basename(path).startswith("pdict-v5-kcl")
    return is_row or path.startswith(("kcl", os.path.join("pyopencl", "kcl")))


def files(folder: pathlib.Path) -> dict[str, tuple[int, int, int]]:
    """Return inode, size and time of change of everything below a folder."""
    found = {}
    for place, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = os.path.join(place, name)
            status = os.lstat(path)
            facts = (status.st_ino, status.st_size, status.st_mtime_ns)
            found[os.path.relpath(path, folder)] = facts
    return found


def _entries(store):
    for address in store.scan():
        blob = store.get(address)
        if blob is not None:
            yield address, Entry.unpack(blob)
