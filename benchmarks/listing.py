"""How long the reading commands take on a large cache, as multiples of the start of `python -c "import rich"`.

    python benchmarks/listing.py [--entries N] [--repeats N] [--keep DIRECTORY] [COMMAND...]

The cache is made up: N entries, half of them programs, half of them generated code with the rows that lead there, and a
journal in which each was used and which ends in as many misses as it keeps. A COMMAND is one of kcl's with its options,
as one word: "ls --json". The runs take turns.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import random
import shlex
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

from kcl import events, option
from kcl.entry import Entry
from kcl.events import Event
from kcl.history import journal
from kcl.key import Key, Part
from kcl.stores.base import address

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
    unit = Key([Part("kcl", "1"), Part("result", digest(f"unit {number}")), Part("argument x", "<f8")])
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
    names = ("platform vendor", "platform version", "device vendor", "device version", "driver", "OpenCL C")
    key = Key(
        [
            Part("format", "1"),
            Part("source", digest(f"source {number}")),
            Part("options", ""),
            Part("platform", "Portable Computing Language"),
            Part("device", "cpu of the benchmark"),
            *(Part(name, f"{name} 3.0") for name in names),
            Part("extensions", extensions),
            Part("cpu features", "avx avx2 bmi1 bmi2 f16c fma movbe popcnt sse sse2 sse4_1 sse4_2 ssse3"),
        ]
    )
    metadata = {
        "kernel": f"kernel_{number % 500}",
        "kernels": ["loopy_kernel"],
        "options": [],
        "platform": {"name": "Portable Computing Language", "version": "OpenCL 2.0"},
        "device": {"name": "cpu of the benchmark", "driver": "3.0"},
        "seconds": 0.2,
        "created": 1700000000 + number,
        "complete": True,
        "specialisations": {"loopy_kernel": ["32-1-1"]},
    }
    return Entry(key, metadata, {"source.cl": bytes(500), "build.log": b"", "binary": random.randbytes(8000)})


def fill(root: pathlib.Path, count: int) -> None:
    """Make a cache of so many entries, and its journal."""
    option.cache_dir(root)
    folder = root / "pyopencl" / "kcl-binary-v1" / "cpu_of_the_benchmark"
    folder.mkdir(parents=True, mode=0o700)
    (root / "pytools").mkdir(mode=0o700)
    version = ".".join(map(str, sys.version_info))
    connection = sqlite3.connect(root / "pytools" / f"pdict-v5-kcl-generated-v1-{version}.sqlite")
    connection.execute("CREATE TABLE dict (keyhash TEXT NOT NULL PRIMARY KEY, key_value TEXT NOT NULL)")
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
    journal.flush()


def run(command: list[str], root: pathlib.Path) -> float:
    """Return the seconds that a process takes; what it prints goes to a pipe."""
    environment = {**os.environ, "KCL_CACHE_DIR": str(root)}
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True)
    seconds = time.perf_counter() - started
    if done.returncode not in (0, 1):
        raise SystemExit(f"{shlex.join(command)} ended with {done.returncode}: {done.stderr.decode()}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", default=COMMANDS)
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--keep", type=pathlib.Path, help="make the cache in this directory, or use the one in it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = options.keep or pathlib.Path(temporary) / "cache"
        if not (root / "pytools").exists():
            fill(root.absolute(), options.entries)
        commands = {'python -c "import rich"': [sys.executable, "-c", "import rich"]}
        commands |= {f"kcl {text}": [sys.executable, "-m", "kcl", *shlex.split(text)] for text in options.commands}
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(options.repeats):
            for name, command in commands.items():
                taken[name].append(run(command, root.absolute()))
    start = statistics.median(next(iter(taken.values())))
    for name, seconds in taken.items():
        middle = statistics.median(seconds)
        print(f"{name:28} {middle:.3f} s ({min(seconds):.3f} to {max(seconds):.3f})  {middle / start:.1f} x")


if __name__ == "__main__":
    main()
