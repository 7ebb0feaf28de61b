"""Rows of the matrix with real launches on PoCL: in this process, or in a forked one where a signal may come.

`launch` is the oracle: the kernel's numbers are those it would have without a cache, and nothing is raised.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import pathlib
import pickle
import random
import shutil
import signal
import socket
import sqlite3
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pyopencl as cl
from faults_files import ERRORS, failing
from faults_rows import BAD
from faults_stores import Case, Unavailable, begun, damage, ended, flipped, forked, mounted

import kcl
from kcl.base import process

SOURCE = (
    "kernel void scaled(global float *x) {{ x[get_global_id(0)] = {0} * x[get_global_id(0)] + 1; }}"
)
GIVEN = np.arange(64, dtype=np.float32)
POCL, INTEL = "Portable Computing Language", "Intel(R) OpenCL"
PATIENCE = 20.0  # seconds for a run: a compilation on a machine with much else to do, and a second


@kcl.kernel
def scaled(number):
    """x = number * x + 1."""
    arguments = [kcl.Array("x", np.float32, "(64,)", "inout")]
    return kcl.Source(
        SOURCE.format(number), entry="scaled", arguments=arguments, global_size="(64,)"
    )


def new_context(names: tuple[str, ...] = (INTEL, POCL)) -> cl.Context:
    """Return a new context on the first of these platforms that is here; Intel's needs it alive beside a queue."""
    platforms = {platform.name: platform for platform in cl.get_platforms()}
    for name in names:
        if name in platforms:
            return cl.Context(platforms[name].get_devices()[:1])
    raise Unavailable(f"no platform of {names}")


def launch(numbers: tuple[int, ...] = (3,), names: tuple[str, ...] = (INTEL, POCL)) -> str:
    """Launch as a new process would; returns the outcomes by layer, and begins with "wrong" for a wrong number.

    Intel's driver hands out a binary at once, so a run with it publishes; on PoCL a helper does, see `heal`.
    """
    process.reset()
    said: list[str] = []
    kcl.add_hook(lambda event: said.append(f"{event.layer} {event.outcome}"))
    context = new_context(names)
    here = cl.CommandQueue(context)
    for number in numbers:
        _event, (found,) = scaled(number)(here, x=GIVEN.copy())
        if not np.array_equal(found, number * GIVEN + 1):
            return "wrong number"
    process.before_change()  # what a process writes as it ends
    return ", ".join(said)


def launch_by_hand() -> str:
    """Launch with pyopencl alone, and PoCL's cache."""
    return _launched_by_hand(lambda context: cl.Program(context, SOURCE.format(3)))


def launch_from_file() -> str:
    """Launch with pyopencl alone, from a file with the binary, as programs without kcl keep it."""
    path = pathlib.Path(os.environ["XDG_CACHE_HOME"], "binary")

    def program(context: cl.Context) -> cl.Program:
        if not path.exists():
            path.write_bytes(
                cl.Program(context, SOURCE.format(3)).build().get_info(cl.program_info.BINARIES)[0]
            )
        return cl.Program(context, context.devices, [path.read_bytes()])

    return _launched_by_hand(program)


def _launched_by_hand(program: Callable[[cl.Context], cl.Program]) -> str:
    context = new_context((POCL,))
    here = cl.CommandQueue(context)
    kernel = cl.Kernel(program(context).build(), "scaled")
    held = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=GIVEN)
    kernel(here, GIVEN.shape, None, held)
    found = np.empty_like(GIVEN)
    cl.enqueue_copy(here, found, held)
    return "right" if np.array_equal(found, 3 * GIVEN + 1) else "wrong number"


def on_pocl() -> str:
    """Launch on PoCL."""
    return launch(names=(POCL,))


def healed(work: Callable[[], str] = launch) -> str:
    """Launch, and wait until a helper has completed the entries where the driver needs one."""
    os.environ["KCL_PROMOTE"] = "exit"
    try:
        said = work()
        kcl.flush()
    finally:
        os.environ["KCL_PROMOTE"] = "off"
    return said


HITS = "generator hit, binary hit"


class Caches:
    """A copy of filled caches for each case; PoCL's own lies beside them and stays."""

    def __init__(self, folder: pathlib.Path, work: Callable[[], str] = launch) -> None:
        self.folder, self.template, self.cache = folder, folder / "template", folder / "cache"
        self.pocl = folder / "pocl"
        self.copies = 0
        warnings.simplefilter("ignore")
        self.use(self.template, self.pocl)
        for _ in range(2):
            said = forked(lambda: healed(work), 300)
            if said.startswith(BAD):
                raise RuntimeError(f"cannot fill the caches: {said}")
        self.use(self.cache, self.pocl)

    def use(self, cache: pathlib.Path, pocl: pathlib.Path) -> None:
        """Let runs find these directories."""
        cache.mkdir(mode=0o700, exist_ok=True)
        os.environ |= {
            "XDG_CACHE_HOME": str(cache),
            "POCL_CACHE_DIR": str(pocl),
            "KCL_PROMOTE": "off",
        }

    def copy(self) -> pathlib.Path:
        """Return a new copy of the filled caches."""
        shutil.rmtree(self.cache, ignore_errors=True)
        self.copies += 1
        self.cache = (
            self.folder / f"cache-{self.copies}"
        )  # a helper of the last case may write to that one
        shutil.copytree(self.template, self.cache, symlinks=True)
        self.use(self.cache, self.pocl)
        return self.cache

    def file(self, pattern: str) -> pathlib.Path:
        """Return the one file of the copy with such a name."""
        (found,) = self.cache.rglob(pattern)
        return found


def _remove(path: pathlib.Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path)


@contextlib.contextmanager
def alarm(seconds: float = PATIENCE) -> Iterator[None]:
    """Raise in a block that takes longer."""

    def over(*_: object) -> None:
        raise TimeoutError(f"stuck for {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def then_hits(said: str, good: str) -> str:
    """Judge a run, then launch twice without the fault: both are right, and the second hits."""
    if said.startswith("wrong"):
        return said
    with alarm():
        second = healed()
        third = launch()
    if second.startswith("wrong"):
        return second
    return good if third == HITS else f"wrong: then {second}; {third}"


def operations(folder: pathlib.Path) -> Case:
    """Fail the k-th operation on files of a run that is cold, warm, or warm with a damaged entry; all k, all errors."""
    caches = Caches(folder)
    states = ("cold", "warm", "damaged")
    plan: list[tuple[str, int]] = []
    for state in (*states, *states):  # the first runs of a process do more than those after them
        if state == states[0]:
            plan.clear()
        _prepare(caches, state)
        with failing(None) as counted:
            launch()
        plan += [(state, number) for number in range(counted.count)]

    def case(index: int, dice: random.Random) -> str:
        state, number = plan[index * 7919 % len(plan)] if index < len(plan) else dice.choice(plan)
        _prepare(caches, state)
        before, error, for_ever = _descriptors(), dice.choice(ERRORS), dice.random() < 0.5
        where = f"{state}, operation {number}, {errno.errorcode[error]}{' for ever' if for_ever else ''}"
        try:
            with alarm(), failing(number, error, for_ever) as made:
                said = launch()
        except OSError as escaped:
            place = traceback.extract_tb(escaped.__traceback__)[-2]
            return f"exception: {where}: {pathlib.Path(place.filename).name}:{place.lineno}"
        good = f"{state}: right" if made.failed else "not reached"
        said = (
            then_hits(said, f"{good}, then a hit")
            if index % 4 == 0
            else said
            if said.startswith(BAD)
            else good
        )
        left = _descriptors() - before
        return f"leak: {left} descriptors, {where}" if left > 0 else said

    return case


def _descriptors() -> int:
    process.reset()  # which holds the database open
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def _prepare(caches: Caches, state: str) -> None:
    caches.copy()
    if state == "cold":
        shutil.rmtree(caches.cache)
        caches.cache.mkdir(mode=0o700)
    if state == "damaged":
        path = caches.file("scaled-*")
        path.write_bytes(flipped(path.read_bytes(), 1600))


def end_to_end(folder: pathlib.Path) -> Case:
    """Flip one to four bits of a binary's entry, and run: the entry is rejected before OpenCL, the kernel rebuilt."""
    caches = Caches(folder, on_pocl)

    def case(index: int, dice: random.Random) -> str:
        caches.copy()
        _flip(caches.file("scaled-*"), dice)
        said = forked(on_pocl, PATIENCE)
        if said.startswith(BAD):
            return said
        if said != "generator hit, binary error":
            return f"wrong: {said}"
        if index % 10 == 0:
            forked(lambda: healed(on_pocl), PATIENCE)
            if (then := forked(on_pocl, PATIENCE)) != HITS:
                return f"wrong: then {then}"
        return "right, one error"

    return case


def _flip(path: pathlib.Path, dice: random.Random, most: int = 4) -> None:
    blob = path.read_bytes()
    for _ in range(dice.randint(1, most)):
        blob = flipped(blob, dice.randrange(8 * len(blob)))
    path.write_bytes(blob)


def end_to_end_by_hand(folder: pathlib.Path) -> Case:
    """Flip one to four bits of a binary that is kept in a file, and run with pyopencl alone."""
    caches = Caches(folder, launch_from_file)

    def case(_index: int, dice: random.Random) -> str:
        _flip(caches.copy() / "binary", dice)
        caches.use(
            caches.cache, caches.cache / "pocl"
        )  # an empty one: PoCL reads the binary itself
        return forked(launch_from_file, PATIENCE)

    return case


def pocl_damage(folder: pathlib.Path) -> Case:
    """Damage a file of PoCL's own cache; the program has an entry of kcl's."""
    return _pocl_damage(folder, on_pocl)


def pocl_damage_by_hand(folder: pathlib.Path) -> Case:
    """Damage a file of PoCL's own cache, and run with pyopencl alone, its own cache off."""
    os.environ["PYOPENCL_NO_CACHE"] = "1"
    return _pocl_damage(folder, launch_by_hand)


def _pocl_damage(folder: pathlib.Path, work: Callable[[], str]) -> Case:
    caches = Caches(folder, work)

    def case(_index: int, dice: random.Random) -> str:
        mine = folder / "pocl of the case"
        shutil.rmtree(mine, ignore_errors=True)
        shutil.copytree(caches.pocl, mine)
        caches.copy()
        caches.use(caches.cache, mine)
        files = sorted(
            path
            for path in mine.rglob("*")
            if path.suffix in (".so", ".bc") and path.stat().st_size > 600
        )
        path = dice.choice(files)
        damage(path, path.read_bytes(), dice)
        said = forked(work, PATIENCE)
        return said if said.startswith(BAD) else f"right ({path.suffix})"

    return case


def planted(folder: pathlib.Path) -> Case:
    """Put a link, FIFO, socket, directory or file of others in the place of any file or folder of kcl's, and run."""
    caches = Caches(folder)
    target = folder / "target"

    def case(_index: int, dice: random.Random) -> str:
        caches.copy()
        target.write_bytes(b"the file of somebody")
        found = sorted(path for path in caches.cache.rglob("*") if not path.is_symlink())
        path = dice.choice([path for path in found if path.name != "pytools"])
        beside = ("-journal", "-wal", "-shm") if path.suffix == ".sqlite" else ()
        path = (
            path.with_name(path.name + dice.choice(beside))
            if beside and dice.random() < 0.5
            else path
        )
        kind = dice.choice(
            ["link", "dangling link", "fifo", "socket", "directory", "foreign file", "loose file"]
        )
        _remove(path)
        _plant(path, kind, target)
        with alarm():
            said = launch()
        if target.read_bytes() != b"the file of somebody" or target.stat().st_mode & 0o777 != 0o644:
            return "harmed: the target"
        _remove(path)
        return then_hits(said, f"right beside a {kind}")

    target.touch(0o644)
    return case


def _plant(path: pathlib.Path, kind: str, target: pathlib.Path) -> None:
    if kind == "link":
        path.symlink_to(target)
    elif kind == "dangling link":
        path.symlink_to("/nowhere/at/all")
    elif kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind == "socket":
        here = os.getcwd()
        os.chdir(path.parent)  # the name of a socket has at most 107 characters
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"./{path.name[:90]}")
        os.chdir(here)
        if len(path.name) > 90:
            path.with_name(path.name[:90]).rename(path)
    elif kind == "directory":
        path.mkdir(0o700)
    else:
        path.write_bytes(b"a file of others")
        path.chmod(0o666 if kind == "loose file" else 0o644)
        if kind == "foreign file" and os.geteuid() == 0:
            os.chown(path, 12345, 12345)


def loose(folder: pathlib.Path) -> Case:
    """Make a folder of kcl's writable by others, or give it away: refused, with a warning that names the cure."""
    caches = Caches(folder)
    if os.geteuid() != 0:
        raise Unavailable("only root can give a folder away")

    def case(_index: int, dice: random.Random) -> str:
        caches.copy()
        layers = caches.cache / "pytools", *(caches.cache / "pyopencl").rglob("*")
        path = dice.choice(sorted(path for path in layers if path.is_dir()))
        mode = dice.choice([0o777, 0o770, 0o700])
        path.chmod(mode)
        os.chown(path, 12345 if mode == 0o700 else -1, 12345)
        with alarm(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            said = launch()
        told = [str(one.message) for one in caught if issubclass(one.category, kcl.CacheWarning)]
        path.chmod(0o700)
        os.chown(path, 0, 0)
        if not any("chmod" in one or "chown" in one for one in told) or len(told) > 2:
            return f"wrong: {len(told)} warnings at {path.name} {mode:o}: {told} {said}"
        return then_hits(said, "right, told the cure")

    return case


class Bomb:
    """What leaves a trace where it is unpickled."""

    def __init__(self, trace: pathlib.Path) -> None:
        self.trace = str(trace)

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.mkdir, (self.trace, 0o700)


def pickles(folder: pathlib.Path) -> Case:
    """Put a pickle that acts in the place of a file or of all rows, and run: it is never unpickled."""
    caches = Caches(folder)
    trace = folder / "unpickled"
    bomb = pickle.dumps(Bomb(trace))

    def case(index: int, dice: random.Random) -> str:
        caches.copy()
        files = sorted(path for path in caches.cache.rglob("*") if path.is_file())
        path = files[index % len(files)]
        if path.suffix == ".sqlite" and dice.random() < 0.8:
            with contextlib.closing(sqlite3.connect(path)) as rows, rows:
                rows.execute("UPDATE dict SET key_value=?", (bomb,))
        else:
            path.write_bytes(bomb)
        with alarm():
            said = launch()
        if trace.exists():
            trace.rmdir()
            return f"harmed: {path.name} was unpickled"
        return then_hits(said, "right, not unpickled")

    return case


def full_disk(folder: pathlib.Path) -> Case:
    """Run on a full file system of 1 MB, then with space again: right, then written, then a hit."""
    caches = Caches(folder)
    disk = folder / "disk"
    disk.mkdir(mode=0o700)

    def case(_index: int, dice: random.Random) -> str:
        with mounted(["-t", "tmpfs", "-o", "size=1m,mode=0700", "none"], disk):
            caches.use(disk / "cache", caches.pocl)
            with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as filler:
                while filler.write(bytes(4096)):
                    continue
            os.truncate(
                disk / "filler",
                max(0, os.path.getsize(disk / "filler") - dice.randrange(0, 40_000)),
            )
            with alarm():
                said = launch()
            left = list(disk.rglob(".kcl-tmp-*"))
            os.unlink(disk / "filler")
            judged = then_hits(said, "right, then written")
            return f"leak: {len(left)} temporary files" if left else judged

    return case


def storms(folder: pathlib.Path) -> Case:
    """Start 64 processes at once, cold, with the same 20 kernels: right, and about one compilation a kernel.

    The first case has 8 processes and 5 kernels: it is the sample.
    """
    caches = Caches(folder)

    def case(index: int, _dice: random.Random) -> Counter[str]:
        processes, kernels = (64, 20) if index else (8, 5)
        numbers = tuple(range(2, 2 + kernels))
        shutil.rmtree(caches.copy())
        caches.use(caches.cache, folder / "pocl of the storm")
        gate, barrier = os.pipe()

        def work() -> str:
            os.close(barrier)
            os.read(gate, 1)  # until the parent closes it
            return launch(numbers)

        crowd = [begun(work) for _ in range(processes)]
        os.close(gate)
        os.close(barrier)
        found: Counter[str] = Counter({"processes": processes, "kernels": kernels})
        for pid, reader in crowd:
            said = ended(pid, reader, 500)
            if said.startswith(BAD):
                found[said] += 1
            found["compilations"] += said.count("binary miss")
            found["errors"] += said.count("error")
        if found["compilations"] > 1.2 * kernels:
            found["wrong: too many compilations"] += 1
        return +found

    return case
