"""Soak one cache directory: drivers, threads, kills, faults, gc and purge at once, for as many minutes as wanted.

    python tools/soak.py [--minutes M] [--seed N] [--out FILE]         KCL_SOAK_MINUTES gives M, 30 by default

Drivers that live all the time launch kernels in threads (tests/support/soaked.py). Beside them processes come and go
(tests/support/crowd.py): threads, forks, signals; half of them are killed, some are stopped for a while. Entries, rows,
lock files and kcl's own files are damaged and removed, `kcl gc` and `kcl purge` run. The seed decides what is chosen,
and the machine decides when it happens.

The outcome is printed, and written to FILE (build/soak.json), as one object of JSON:

    format       "kcl soak 1"
    date, seconds, seed, platforms, processors
    launches     of the drivers that live; `processes` that came and went, by how they ended (ended, killed, stopped)
    commands     of kcl, by name;  faults   that were made, by name
    wrong        numbers that a kernel computed wrongly: [what, wanted, found]
    exceptions   tracebacks, exit statuses that are not 0, signals that the soak did not send, ends that never came
    series       descriptors, memory, disk, processes: what was there `first` (the median of the second fifth of the
                 time), `last` (of the last fifth), `most`, and whether it is `flat`; memory and disk are bytes, disk is
                 the cache directory without PoCL's own cache; below 2000 launches memory and disk still hold
                 what is new, and `flat` is null
    left         processes that were left half a minute after the end
    hits         whether a process that ran again afterwards had hits alone
    passed       nothing wrong, no exceptions, no series that is not flat, nothing left, hits
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
SUPPORT = ROOT / "tests" / "support"
WAYS = ("threads", "exit", "fork", "forkserver", "spawn", "signal")
COMMANDS = (
    ("gc", "--max-size", "100K"),
    ("gc", "--max-size", "1M"),
    ("gc", "--max-size", "100M"),
    ("purge", "--yes"),
    ("purge", "--yes", "--kernel", "added"),
    ("purge", "--yes", "generator"),
    ("verify",),
    ("status",),
    ("stats",),
    ("flush",),
)
ROOM = {
    "descriptors": 8.0,
    "memory": 24 << 20,
    "disk": 8 << 20,
    "processes": 8.0,
}  # what still counts as flat
GROWING = {"memory": 2000, "disk": 2000}  # launches, until which there is new code to keep
PATIENCE = 180.0  # seconds until a process that ends counts as one that never does


class Soak:
    """One cache directory, the processes that use it, and what was seen."""

    def __init__(
        self, folder: pathlib.Path, seconds: float, seed: int, platforms: list[str]
    ) -> None:
        self.folder, self.seconds, self.seed, self.platforms = folder, seconds, seed, platforms
        self.cache = folder / "cache"
        self.begin = time.monotonic()
        self.over = threading.Event()
        self.wrong: list[Any] = []
        self.exceptions: list[str] = []
        self.counts: dict[str, collections.Counter[str]] = collections.defaultdict(
            collections.Counter
        )
        self.samples: list[dict[str, float]] = []
        self.live: dict[int, dict[str, Any]] = {}

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of a process of the soak."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("KCL_", "POCL_"))
        }
        own = {
            "HOME": str(self.folder),
            "XDG_CACHE_HOME": str(self.cache),
            "KCL_SOAK_FOLDER": str(self.folder),
        }
        return (
            kept
            | own
            | {"PYTHONPATH": str(SUPPORT), "PYTHONWARNINGS": "ignore", "KCL_MAX_SIZE": "2M"}
            | more
        )

    def start(self, *command: str, **more: Any) -> subprocess.Popen[str]:
        """Start a process of Python with its own file for errors."""
        errors = tempfile.TemporaryFile("w+", dir=self.folder)  # noqa: SIM115
        started = subprocess.Popen(
            [sys.executable, *command],
            env=self.environment(**more),
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        started.errors = errors
        return started

    def ended(
        self,
        process: subprocess.Popen[str],
        what: str,
        killed: bool = False,
        fine: tuple[int, ...] = (0,),
    ) -> str:
        """Wait for a process; note how it ended, and return what it printed."""
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.exceptions.append(f"{what} did not end")
            process.send_signal(signal.SIGUSR1)  # it says where its threads are
            time.sleep(1)
            process.kill()
            output, _ = process.communicate()
        with process.errors as stream:
            stream.seek(0)
            errors = stream.read()
        if not killed and (process.returncode not in fine or "Traceback" in errors):
            self.exceptions.append(f"{what} ended with {process.returncode}: {errors[-3000:]}")
        return output

    # what runs at once

    def drive(self, number: int) -> None:
        """Keep a driver that lives all the time, and its last line."""
        arguments = [self.platforms[number % len(self.platforms)], "3", f"{self.seed}{number}"]
        process = self.start(str(SUPPORT / "soaked.py"), *arguments)
        closing = threading.Thread(target=lambda: (self.over.wait(), process.stdin.close()))
        closing.start()
        for line in process.stdout:
            self.live[number] = json.loads(line)
        closing.join()
        process.stdin = None
        self.ended(process, f"driver {number}")
        said = self.live.get(number, {"wrong": [], "errors": ["it said nothing"]})
        self.wrong += [["driver", *pair] for pair in said["wrong"]]
        self.exceptions += said["errors"]

    def come_and_go(self, number: int) -> None:
        """Run one short process after the other; kill half of them, and stop some for a while."""
        chance = random.Random(f"{self.seed} crowd {number}")
        while not self.over.is_set():
            way, threads = chance.choice(WAYS), chance.choice((1, 2, 4))
            first, platform = chance.randrange(50), chance.choice(self.platforms)
            end = chance.choice(("ended", "ended", "killed", "killed", "stopped"))
            arguments = [platform, way, str(threads), "10", str(first)]
            process = self.start(str(SUPPORT / "crowd.py"), *arguments)
            if end != "ended":
                self._disturb(process, end, chance.uniform(0.2, 4.0))
            output = self.ended(process, " ".join(arguments), end == "killed")
            if end != "killed" and output:
                self._compare(arguments, json.loads(output)[0], first, threads)
            self.counts["processes"][end] += 1

    def _disturb(self, process: subprocess.Popen[str], end: str, after: float) -> None:
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL if end == "killed" else signal.SIGSTOP)
            if end == "stopped":
                time.sleep(0.7)
                process.send_signal(signal.SIGCONT)

    def _compare(
        self, what: list[str], numbers: list[list[float]], first: int, threads: int
    ) -> None:
        wanted = [list(range(first, first + 10))] * threads
        if numbers != wanted:
            self.wrong.append([" ".join(what), wanted[0], numbers])

    def command(self) -> None:
        """Run kcl's commands, one after the other."""
        chance = random.Random(f"{self.seed} commands")
        while not self.over.wait(chance.uniform(0.5, 3.0)):
            arguments = chance.choice(COMMANDS)
            self.ended(
                self.start("-m", "kcl", *arguments), f"kcl {' '.join(arguments)}", fine=(0, 1)
            )
            self.counts["commands"][arguments[0]] += 1

    def harm(self) -> None:
        """Damage and remove files."""
        chance = random.Random(f"{self.seed} faults")
        while not self.over.wait(chance.uniform(0.05, 0.5)):
            name, make = chance.choice(FAULTS)
            found = [
                path
                for path in _files(self.cache, "pocl")
                if "kcl" in str(path.relative_to(self.cache))
            ]  # not loopy's own
            if found:
                try:
                    make(chance, chance.choice(found))
                    self.counts["faults"][name] += 1
                except OSError:  # it is gone
                    pass

    def sample(self) -> None:
        """Note once a second what there is."""
        while not self.over.wait(1.0):
            lives = list(self.live.values())
            if lives:
                self.samples.append(
                    {
                        "descriptors": max(one["descriptors"] for one in lives),
                        "memory": sum(one["memory"] for one in lives),
                        "disk": sum(size for size in map(_size, _files(self.cache, "pocl"))),
                        "processes": len(self.processes()),
                    }
                )

    def processes(self) -> list[int]:
        """Return the processes that belong to this soak, by their environment; zombies have none."""
        mark, found = f"KCL_SOAK_FOLDER={self.folder}".encode(), []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if mark in pathlib.Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    found.append(int(name))
            except OSError:
                pass
        return found

    # the whole

    def run(self) -> dict[str, Any]:
        """Run all of it at once; return the outcome."""
        works: list[Callable[[], None]] = [self.command, self.harm, self.sample]
        works += [lambda number=number: self.drive(number) for number in range(2)]
        works += [lambda number=number: self.come_and_go(number) for number in range(3)]
        threads = [threading.Thread(target=self._noted, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        time.sleep(self.seconds)
        self.over.set()
        for thread in threads:
            thread.join()
        return self._outcome()

    def _noted(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.exceptions.append(f"the soak itself: {error!r}")

    def _outcome(self) -> dict[str, Any]:
        left = self._left()
        launches = sum(one.get("launches", 0) for one in self.live.values())
        series = {
            name: compare(name, [one[name] for one in self.samples], launches) for name in ROOM
        }
        hits = self._hits()
        flat = all(one["flat"] is not False for one in series.values())
        return {
            "format": "kcl soak 1",
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
            "seconds": round(time.monotonic() - self.begin),
            "seed": self.seed,
            "platforms": self.platforms,
            "processors": os.cpu_count(),
            "launches": launches,
            **{
                name: dict(sorted(self.counts[name].items()))
                for name in ("processes", "commands", "faults")
            },
            "wrong": self.wrong,
            "exceptions": self.exceptions,
            "series": series,
            "left": left,
            "hits": hits,
            "passed": bool(not self.wrong and not self.exceptions and flat and not left and hits),
        }

    def _left(self) -> int:
        """Wait for helpers and forked children; return how many processes are left."""
        end = time.monotonic() + 30
        while (found := self.processes()) and time.monotonic() < end:
            time.sleep(0.5)
        return len(found)

    def _hits(self) -> bool:
        """Tell whether a second process has hits alone, now that nobody disturbs it."""
        for strict in ("", "hit"):
            process = self.start(
                str(SUPPORT / "crowd.py"),
                self.platforms[-1],
                "threads",
                "2",
                "10",
                KCL_STRICT=strict,
            )
            self.ended(process, "a process afterwards")
            self.ended(self.start("-m", "kcl", "flush"), "kcl flush")
            if process.returncode:
                return False
        return True


def flipped(chance: random.Random, path: pathlib.Path) -> None:
    """Flip a bit in place."""
    with open(path, "r+b") as stream:
        place = chance.randrange(max(1, os.path.getsize(path)))
        stream.seek(place)
        byte = stream.read(1) or b"\0"
        stream.seek(place)
        stream.write(bytes([byte[0] ^ 1 << chance.randrange(8)]))


def cut(chance: random.Random, path: pathlib.Path) -> None:
    """Cut the end off."""
    os.truncate(path, chance.randrange(max(1, os.path.getsize(path))))


def garbage(chance: random.Random, path: pathlib.Path) -> None:
    """Replace the file by bytes that mean nothing."""
    temporary = path.with_name(f".soak-{chance.randrange(10**9)}")
    temporary.write_bytes(chance.randbytes(chance.randrange(5000)))
    os.chmod(temporary, 0o600)
    os.replace(temporary, path)


def swapped(chance: random.Random, path: pathlib.Path) -> None:
    """Put the bytes of a neighbour in the place of the file."""
    other = chance.choice(
        [*(one for one in path.parent.iterdir() if one.is_file()), path]
    )  # all may be gone by now
    temporary = path.with_name(f".soak-{chance.randrange(10**9)}")
    shutil.copy(other, temporary)
    os.replace(temporary, path)


def removed(_chance: random.Random, path: pathlib.Path) -> None:
    """Remove the file."""
    path.unlink()


def folder_removed(_chance: random.Random, path: pathlib.Path) -> None:
    """Remove the folder with all that is in it, unless loopy's own databases lie there too."""
    if path.parent.name != "pytools":
        shutil.rmtree(path.parent, ignore_errors=True)


FAULTS = tuple(
    (make.__name__, make)
    for make in (flipped, cut, garbage, swapped, removed, removed, folder_removed)
)


def _files(folder: pathlib.Path, without: str = "") -> Iterator[pathlib.Path]:
    for place, folders, names in os.walk(folder):
        if without in folders:
            folders.remove(without)
        yield from (pathlib.Path(place, name) for name in sorted(names))


def _size(path: pathlib.Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0


def compare(name: str, values: list[float], launches: int) -> dict[str, Any]:
    """Compare the second fifth of a series with the last one; the first fifth is the warming up.

    A busy machine has few launches in that time: then what grows with new code is not judged.
    """
    if len(values) < 5:
        return {"first": None, "last": None, "most": None, "flat": False}
    fifth = len(values) // 5
    first, last = statistics.median(values[fifth : 2 * fifth]), statistics.median(values[-fifth:])
    flat = None if launches < GROWING.get(name, 0) else last <= first + ROOM[name]
    return {"first": first, "last": last, "most": max(values), "flat": flat}


def main() -> None:
    """Read the arguments, soak, print and write the outcome; the status is 1 where it did not pass."""
    said = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    said.add_argument(
        "--minutes", type=float, default=float(os.environ.get("KCL_SOAK_MINUTES") or 30)
    )
    said.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    said.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "soak.json")
    given = said.parse_args()
    import pyopencl as cl

    platforms = [one.name for one in cl.get_platforms() if one.get_devices()]
    print(f"soak: {given.minutes:g} minutes, --seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kcl-soak-", ignore_cleanup_errors=True) as folder:
        outcome = Soak(pathlib.Path(folder), given.minutes * 60, given.seed, platforms).run()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(outcome, indent=1)
    given.out.write_text(text + "\n")
    print(text)
    sys.exit(not outcome["passed"])


if __name__ == "__main__":
    main()
