"""Look entries up among a hundred, ten thousand and a million others: seconds must not grow with their number.

    python benchmarks/lookup.py [--quick]

The stores are those of a driver, below a fresh cache directory for each number of entries. One process for each looks
up random entries that exist, in turns with the others; what the memory tier held is forgotten before each look-up, so
that every one reads its store, verifies what it read and parses it.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import measure
from measure import Effort, spread

SOURCE = b"x" * 750  # makes entries of about 1 kB
LAYERS = ("generator", "binary")
ROUNDS = 9
# A file takes a block of the file system and an inode, a row some more than its bytes.
DISK_PER_ENTRY = 8192
FOLDER = "a device of the benchmark"


def measured(effort: Effort) -> dict[str, Any]:
    """Fill the stores, look up in turns; return microseconds by layer and memory for each number of entries."""
    with tempfile.TemporaryDirectory(prefix="kcl-lookup-", ignore_cleanup_errors=True) as name:
        root = pathlib.Path(name)
        _check_room(root, sum(effort.entries))
        processes = [Process(root / str(count) / "cache", count) for count in effort.entries]
        try:
            for _ in range(ROUNDS):
                for process in processes:
                    process.round(effort.look_ups)
            return {
                "largest": max(effort.entries),
                "entries": [process.figures() for process in processes],
            }
        finally:
            for process in processes:
                process.end()


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print microseconds a look-up and resident memory over the number of entries."""
    yield "a look-up in both layers, microseconds: median of the rounds (smallest..largest)"
    yield "  {:>10} {:<24}{:<24}{:<24}{:>12}".format(
        "entries", "generator", "binary", "both", "resident MB"
    )
    for one in figures["entries"]:
        columns = "".join(f"{spread(one[name], 1):<24}" for name in (*LAYERS, "both"))
        yield f"  {one['count']:>10} {columns}{statistics.median(one['resident']) / 1e6:>12.1f}"
    yield f"  largest / smallest median: {flatness(figures):.2f}; of memory: {memory_flatness(figures):.2f}"


def flatness(figures: dict[str, Any]) -> float:
    """Return the ratio of the largest to the smallest median."""
    medians = [statistics.median(one["both"]) for one in figures["entries"]]
    return float(max(medians) / min(medians))


def memory_flatness(figures: dict[str, Any]) -> float:
    """Return the ratio of the largest to the smallest resident memory."""
    medians = [statistics.median(one["resident"]) for one in figures["entries"]]
    return float(max(medians) / min(medians))


class Process:
    """A process that filled the stores of its cache directory and looks up in them when asked."""

    def __init__(self, cache: pathlib.Path, count: int) -> None:
        self.count = count
        self.rounds: list[dict[str, Any]] = []
        cache.mkdir(parents=True, mode=0o700)
        environment = measure.environment(cache)
        print(f"making {count} entries in each layer ...", flush=True)
        subprocess.run([sys.executable, __file__, "fill", str(count)], env=environment, check=True)
        self._child = subprocess.Popen(
            [sys.executable, __file__, "serve", str(count)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def round(self, look_ups: int) -> None:
        """Let the process look up so many entries, and take down what it says."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        print(look_ups, file=self._child.stdin, flush=True)
        self.rounds.append(json.loads(self._child.stdout.readline()))

    def figures(self) -> dict[str, Any]:
        """Return what all rounds said; the first, which fills the caches of file system and database, is left out."""
        counted = self.rounds[1:]
        return {"count": self.count} | {
            name: [one[name] for one in counted] for name in (*LAYERS, "both", "resident")
        }

    def end(self) -> None:
        """Let the process end."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait()


def _check_room(root: pathlib.Path, entries: int) -> None:
    room = os.statvfs(root)
    if room.f_bavail * room.f_frsize < 2 * entries * DISK_PER_ENTRY or (
        room.f_files and room.f_favail < 2 * entries
    ):
        raise SystemExit(
            f"bench: no room for {entries} entries below {root}; set TMPDIR or ask for fewer entries"
        )


def _key(number: int) -> Any:
    from kcl.cache.key import Key, Part

    return Key(
        [Part("format", "1"), Part("kernel", f"kernel_{number % 100}"), Part("number", str(number))]
    )


def _addresses(key: Any, number: int) -> tuple[str, str]:
    from kcl.cache.stores import address

    return key.digest, address(key.digest, FOLDER, f"kernel_{number % 100}")


def _entry(number: int) -> tuple[Any, bytes]:
    from kcl.cache.entry import Entry

    key = _key(number)
    metadata = {"created": number, "kernel": f"kernel_{number % 100}"}
    return key, Entry(key, metadata, {"source.cl": SOURCE}).pack()


def fill(count: int) -> None:
    """Put entries into the stores of both layers as they would lie there, but many at once."""
    from kcl.cache import layers

    rows, directory = layers.generator().stores[0], layers.binary().stores[0]
    assert rows is not None
    assert directory is not None
    key, blob = _entry(0)
    rows.put(key.digest, blob)  # makes the file and its table, the directory and its folder
    directory.put(_addresses(key, 0)[1], blob)

    def made() -> Iterator[tuple[str, bytes]]:
        for number in range(1, count):
            key, blob = _entry(number)
            row, file = _addresses(key, number)
            with open(
                os.open(f"{directory.location}/{file}", os.O_WRONLY | os.O_CREAT, 0o600), "wb"
            ) as stream:
                stream.write(blob)
            yield row, blob

    connection = sqlite3.connect(rows.location)
    for pragma in ("cache_size = -2000000", "synchronous = OFF", "journal_mode = OFF"):
        connection.execute(f"PRAGMA {pragma}")
    with connection:
        connection.executemany("INSERT INTO dict VALUES (?, ?)", made())
    connection.close()


def serve(count: int) -> None:
    """For each number on standard input look up so many random entries; print medians in microseconds."""
    from kcl.cache import layers

    generator, binary = layers.generator(), layers.binary()
    chosen = random.Random(count)
    for line in sys.stdin:
        seconds: dict[str, list[int]] = {name: [] for name in LAYERS}
        for _ in range(int(line)):
            number = chosen.randrange(count)
            key = _key(number)
            for name, layer, address in zip(
                LAYERS, (generator, binary), _addresses(key, number), strict=True
            ):
                layer.memory.pop(address, None)
                seconds[name].append(_timed(lambda: layer.look_up(address, key)))  # noqa: B023
                layer.memory.pop(address, None)
        seconds["both"] = [
            sum(pair) for pair in zip(*(seconds[name] for name in LAYERS), strict=True)
        ]
        medians = {name: statistics.median(values) / 1e3 for name, values in seconds.items()}
        print(json.dumps(medians | {"resident": _resident()}), flush=True)


def _timed(look_up: Callable[[], Any]) -> int:
    begin = time.perf_counter_ns()
    found = look_up()
    elapsed = time.perf_counter_ns() - begin
    if found.outcome != "hit":
        raise SystemExit(f"bench: an entry that was made is not found: {found}")
    return elapsed


def _resident() -> int:
    """Return the bytes of memory that this process occupies now; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


if __name__ == "__main__":
    if sys.argv[1:2] in (["fill"], ["serve"]):
        {"fill": fill, "serve": serve}[sys.argv[1]](int(sys.argv[2]))
    else:
        measure.part(measured, lines)
