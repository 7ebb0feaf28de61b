"""How long the reading commands take on a large cache, as multiples of the start of `python -c "import rich"`.

    python benchmarks/listing.py [--quick]

The cache is made up: half of its entries are programs, half of them generated code with the rows that lead there, and
its journal has a use of each and as many misses as a journal keeps. The runs take turns.
"""

from __future__ import annotations

import hashlib
import pathlib
import random
import resource
import shlex
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import measure
from measure import Effort, spread

import kcl
from kcl import option
from kcl.base import events
from kcl.base.events import Event
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.stores import address

START = 'python -c "import rich"'
COMMANDS = ("status", "ls", "ls --json", "ls --limit 20", "stats", "explain")
PACKAGES = ("cgen", "genpy", "islpy", "loopy", "numpy", "pymbolic", "pyopencl", "pytools")
BASE = {"needed": ["x"], "open": ["n", "x", "y"], "packed": [], "reads": [], "required": ["x"]}


def digest(text: str) -> str:
    """Return hex digits that look like a digest."""
    return hashlib.sha256(text.encode()).hexdigest()


def direct_parts(number: int) -> list[Part]:
    """Return a direct key: Python, code, parameters, packages."""
    packages = [Part(f"distribution {name}", f"2025.1 {digest(name)}") for name in PACKAGES]
    return [
        Part("kcl", "1"),
        Part("python", "cpython 3.11 cpython-311"),
        Part(f"code kernel_{number % 500}", digest(f"code {number}")),
        Part("parameter block", str(number)),
        *packages,
    ]


def rows(number: int) -> list[Entry]:
    """Return the rows of one kernel: base, pointer, code."""
    direct = direct_parts(number)
    key = Key([*direct, Part("argument x", "<f8")])
    unit = Key(
        [Part("kcl", "1"), Part("result", digest(f"unit {number}")), Part("argument x", "<f8")]
    )
    about = {"kernel": f"kernel_{number % 500}", "created": 1700000000 + number, "seconds": 0.25}
    code = {
        **about,
        "base": BASE,
        "arguments": [[name, "ArrayArg", "<f8", True] for name in "xyz"],
        "chosen": {"x": "<f8"},
        "code": "a70d0d0a-0",
        "dtypes": [],
        "front_end": "loopy",
        "function": "invoke_loopy_kernel",
        "inferred": {"n": "<i4", "x": "<f8", "y": "<f8"},
        "kernels": ["loopy_kernel"],
        "options": [],
        "packed": [],
        "program": digest(f"source {number}"),
        "recipe": {"site": f"driver.py:{number % 500}", "parameters": [["block", str(number)]]},
        "unit": unit.digest,
    }
    parts = {"source.cl": bytes(500), "invoker.py": bytes(5700), "invoker.code": bytes(6300)}
    return [
        Entry(Key(direct), {**about, "base": BASE}, {"reached.json": bytes(250)}),
        Entry(unit, {"kernel": about["kernel"], "row": [list(part) for part in key.parts]}, {}),
        Entry(key, code, parts),
    ]


def program(number: int) -> Entry:
    """Return the entry of a program."""
    extensions = " ".join(f"cl_khr_extension_{index}" for index in range(20))
    names = (
        "platform vendor",
        "platform version",
        "device vendor",
        "device version",
        "driver",
        "OpenCL C",
    )
    key = Key(
        [
            Part("format", "1"),
            Part("source", digest(f"source {number}")),
            Part("options", ""),
            Part("platform", "Portable Computing Language"),
            Part("device", "cpu of the benchmark"),
            *(Part(name, f"{name} 3.0") for name in names),
            Part("extensions", extensions),
            Part(
                "cpu features",
                "avx avx2 bmi1 bmi2 f16c fma movbe popcnt sse sse2 sse4_1 sse4_2 ssse3",
            ),
        ]
    )
    metadata = {
        "kernel": f"kernel_{number % 500}",
        "kernels": ["loopy_kernel"],
        "options": [],
        "program": digest(f"source {number}"),
        "platform": {"name": "Portable Computing Language", "version": "OpenCL 2.0"},
        "device": {"name": "cpu of the benchmark", "driver": "3.0"},
        "seconds": 0.2,
        "created": 1700000000 + number,
        "complete": True,
        "specialisations": {"loopy_kernel": ["32-1-1"]},
    }
    return Entry(
        key, metadata, {"source.cl": bytes(500), "build.log": b"", "binary": random.randbytes(8000)}
    )


def fill(root: pathlib.Path, count: int) -> None:
    """Make a cache of so many entries, and its journal."""
    option.cache_dir(root)
    folder = root / "pyopencl" / "kcl-binary-v1" / "cpu_of_the_benchmark"
    folder.mkdir(parents=True, mode=0o700)
    (root / "pytools").mkdir(mode=0o700)
    version = ".".join(map(str, sys.version_info))
    connection = sqlite3.connect(root / "pytools" / f"pdict-v5-kcl-generated-v1-{version}.sqlite")
    connection.execute(
        "CREATE TABLE dict (keyhash TEXT NOT NULL PRIMARY KEY, key_value TEXT NOT NULL)"
    )
    for number in range(count // 2):
        entries = rows(number)
        for entry in entries:
            connection.execute("INSERT INTO dict VALUES (?, ?)", (entry.key.digest, entry.pack()))
        binary = program(number)
        (folder / address(binary.key.digest, "", "loopy_kernel")).write_bytes(binary.pack())
        for layer, entry in (("generator", entries[-1]), ("binary", binary)):
            name, found = entry.metadata["kernel"], entry.key.digest
            events.emit(Event(layer, name, found, "hit", "", 0.001, 100, 0.1), entry.key, [found])
            events.emit(Event(layer, name, found, "miss", "not in the cache", 0.1, 100), entry.key)
    connection.commit()
    connection.close()
    kcl.flush()


def run(command: list[str], cache: pathlib.Path) -> tuple[float, float]:
    """Return the seconds that a process takes, and its processor seconds; what it prints goes to a pipe."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=measure.environment(cache), capture_output=True)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(
            f"bench: {shlex.join(command)} ended with {done.returncode}: {done.stderr.decode()}"
        )
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(effort: Effort) -> dict[str, Any]:
    """Return seconds and processor seconds by command, a value for each run; the first are those of rich."""
    commands = {START: [sys.executable, "-c", "import rich"]}
    commands |= {
        f"kcl {text}": [sys.executable, "-m", "kcl", *shlex.split(text)] for text in COMMANDS
    }
    figures: dict[str, Any] = {"entries": effort.listed, "wall": {}, "cpu": {}}
    with tempfile.TemporaryDirectory(prefix="kcl-listing-") as name:
        cache = pathlib.Path(name) / "cache"
        fill(cache, effort.listed)
        for command in commands.values():
            run(command, cache)  # compiles byte code, folds the journal, makes the summary
        for _ in range(effort.listings):
            for title, command in commands.items():
                for what, seconds in zip(("wall", "cpu"), run(command, cache), strict=True):
                    figures[what].setdefault(title, []).append(seconds)
    return figures


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print seconds, and the ratio to the start of rich."""
    yield f"commands on {figures['entries']} entries, seconds: median (smallest..largest), and multiples of the first"
    for title, seconds in figures["wall"].items():
        both = [f"{ratio(figures, title, what)[0]:.1f}" for what in ("wall", "cpu")]
        yield f"  {title:<28}{spread(seconds):<26}{both[0]:>6} x, in processor time {both[1]} x"


def ratio(figures: dict[str, Any], title: str, what: str = "cpu") -> tuple[float, float, float]:
    """Return the ratio of medians to the start of rich, with the range over the runs made side by side."""
    above, below = figures[what][title], figures[what][START]
    pairs = [a / b for a, b in zip(above, below, strict=True)]
    return statistics.median(above) / statistics.median(below), min(pairs), max(pairs)


if __name__ == "__main__":
    measure.part(measured, lines)
