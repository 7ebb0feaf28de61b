"""kcl.inspect.space: entries keep within a bound, and what was used longest ago goes first."""

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

import kcl
from kcl.cache import layers, places
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.stores import address
from kcl.drivers.pocl import client
from kcl.inspect import inventory, purge, space


def put(name, size, days_ago, layer="binary", seconds=1.0, program=""):
    """Store an entry that was last used so many days ago; returns its address."""
    created = time.time() - 86400 * days_ago
    key = Key([Part("name", name), Part("program", program)])
    metadata = {"kernel": name, "created": created, "seconds": seconds, "program": program}
    if layer == "generator":
        where = address(key.digest)
        parts = {"invoker.py": os.urandom(size)}
        layers.generator().publish(where, Entry(key, {**metadata, "function": "f"}, parts))
        return where
    where = address(key.digest, "device", name)
    layers.binary().publish(where, Entry(key, metadata, {"binary": os.urandom(size)}))
    os.utime(os.path.join(places.binaries(), where), (created, created))
    return where


def keep(bound):
    """Remove what a choice says; returns the names of the kernels that are left."""
    removal, _entries = space.chosen(bound)
    purge.remove(removal, "a test")
    assert removal.refusals == []
    return {entry.kernel for entry in inventory.entries(all_rows=True)}


@pytest.fixture
def recipe(queue):
    """Make the code of a recipe under a name; returns its rows."""

    def make(name):
        def body():
            import loopy as lp

            return lp.make_kernel(
                "{[i]: 0<=i<8}", f"{name}[i] = 2*x[i]", name=name, lang_version=(2018, 2)
            )

        body.__name__ = body.__qualname__ = name
        kcl.kernel(body)().source(queue.context, x="float32")
        rows = inventory.entries("generator", all_rows=True)
        return [row for row in rows if row.kernel == name]

    return make


class TestChosen:
    def test_nothing_stored(self):
        """An empty cache takes no bytes, and none of it is made."""
        assert space.used() == 0
        assert space.chosen(1)[1] == 0
        assert not os.path.exists(places.binaries())

    @pytest.mark.parametrize(
        ("days", "bound", "left"),
        [
            ((5, 1, 3, 2, 4), 33_000, {"k1", "k2"}),
            # in the future, as a clock leaves them that was set back
            ((-4000, 20_000, 1, 2), 25_000, {"k-4000", "k1"}),
        ],
    )
    def test_oldest_first(self, days, bound, left):
        """The kernels that were used longest ago go, until a tenth of the bound is free; what making took counts not."""
        for number, ago in enumerate(days):
            put(f"k{ago}", 10_000, ago, seconds=10.0**number)
        assert keep(bound) == left
        assert space.used() <= bound

    def test_whole(self):
        """Code and programs of a kernel go together."""
        for name, days in (("old", 9), ("new", 1)):
            put(name, 10_000, days, "generator")
            put(name, 10_000, 5)
        assert keep(50_000) == {"new"}
        assert {entry.layer for entry in inventory.entries()} == {"generator", "binary"}

    def test_program(self):
        """Two programs of one name whose OpenCL C differs are two kernels, of whatever length it is."""
        for program, days in (("a", 9), ("b", 1)):
            put("axpy", 10_000, days, "generator", program=program)
            put("axpy", 10_000, days, program=program)
        assert keep(60_000) == {"axpy"}
        assert [entry.metadata["program"] for entry in inventory.entries()] == ["b", "b"]

    def test_pinned(self):
        """A pinned kernel stays, by name, pattern or digest."""
        where = {days: put(f"k{days}", 10_000, days) for days in (9, 8, 7, 1)}
        space.pin(["k9", where[8][-64:], "nobody*"])
        assert keep(30_000) == {"k9", "k8"}

    def test_leading_rows(self, recipe):
        """Rows that lead to code go with it, and others stay."""
        gone, stays = recipe("gone"), recipe("stays")
        assert {row.kind for row in gone} == {"code", "base"}
        space.pin(["stays"])
        removal, entries = space.chosen(1)
        going = {address for item in removal.items for address in item.addresses}
        assert {row.address for row in gone} <= going
        assert entries == len([row for row in gone if row.is_shown])
        assert not {row.address for row in stays} & going

    def test_gives_space_back(self):
        """The database shrinks."""
        for number in range(40):
            put(f"k{number}", 20_000, number, "generator")
        (path,) = pathlib.Path(places.dictionaries()).glob("*.sqlite")
        keep(400_000)
        assert path.stat().st_size < 450_000

    def test_read_only(self, monkeypatch):
        """What cannot be removed is told, and nothing is raised."""

        def refuse(_path):
            raise PermissionError("read-only")

        put("a", 10_000, 3)
        put("b", 1_000, 0)
        monkeypatch.setattr(purge, "remove_path", refuse)
        gone, _entries = space.chosen(9_000)
        purge.remove(gone, "a test")
        assert [refusal.reason for refusal in gone.refusals] == ["read-only"]


class TestKeepBound:
    def test_when_passed(self, monkeypatch):
        """Entries go when all take more than the bound, and not before."""
        monkeypatch.setenv("KCL_MAX_SIZE", "40000")
        for name, size, days in (("a", 10_000, 3), ("b", 10_000, 2)):
            put(name, size, days)
            space.keep_bound()
        assert space.used() > 20_000
        put("c", 25_000, 1)
        space.keep_bound()
        assert 25_000 < space.used() < 36_000
        assert [reason for _digest, reason, _time in purge.removed()][:1] == [
            "the bound on space (KCL_MAX_SIZE)"
        ]

    def test_at_exit(self, child):
        """A process in which something missed keeps the bound as it ends; one that hits looks at nothing."""
        code = """
            import sys, numpy as np, pyopencl as cl, kcl, os, json
            kcl.install()
            context = cl.create_some_context(interactive=False)
            queue = cl.CommandQueue(context)
            numbers = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4)
            for number in range(int(sys.argv[1])):
                program = cl.Program(context, f"__kernel void f(__global int *a) {{ a[0] = {number}; }}").build()
                program.f(queue, (1,), None, numbers).wait()
            kcl.flush()
            print(json.dumps(0))
        """
        child.json(code, "2", KCL_MAX_SIZE="1")
        files = list(child.cache.glob("pyopencl/kcl-binary-*/*/*"))
        assert files == []
        child.json(code, "1")
        assert client.idle(str(child.cache / "kcl"), 60.0)
        before = list(child.cache.glob("pyopencl/kcl-binary-*/*/*"))
        child.json(code, "1", KCL_STRICT="hit", KCL_MAX_SIZE="1")
        assert list(child.cache.glob("pyopencl/kcl-binary-*/*/*")) == before != []


BESIDE = """
import hashlib, json, random, sys, time
import kcl
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.stores import address
from kcl.inspect import space

number, seconds = int(sys.argv[1]), float(sys.argv[2])
chance, counts, end = random.Random(number), {"hit": 0, "miss": 0}, time.monotonic() + seconds
while time.monotonic() < end:
    name = f"k{chance.randrange(60)}"
    key = Key([Part("name", name)])
    for layer, part, where in (
        (layers.binary(), "binary", address(key.digest, "device", name)),
        (layers.generator(), "invoker.py", address(key.digest)),
    ):
        wanted = hashlib.sha256(name.encode()).digest() * 100
        found = layer.look_up(where, key)
        assert found.outcome in counts, found
        counts[found.outcome] += 1
        if found.entry is None:
            layer.publish(where, Entry(key, {"kernel": name, "seconds": 1.0, "function": "f"}, {part: wanted}))
        else:
            assert found.entry.key == key and found.entry.parts[part] == wanted
        layer.memory.pop(where, None)
    if number % 4 == 0:
        space.keep_bound()
print(json.dumps(counts))
"""


def beside_waits(errors):
    """Return the lines that a process wrote beside those which say that it waits."""
    return [line for line in errors.splitlines() if not line.startswith("waiting ")]


class TestBeside:
    @pytest.mark.slow
    def test_readers_and_writers(self, child):
        """Entries go while processes read, write and keep the bound: no fault, no wrong entry, hits and misses.

        `KCL_CROWD_PROCESSES` sets how many processes there are, `KCL_CROWD_SECONDS` for how long.
        """
        seconds = float(os.environ.get("KCL_CROWD_SECONDS", "5"))
        number = int(os.environ.get("KCL_CROWD_PROCESSES", "8"))
        variables = {"KCL_MAX_SIZE": "200K", "KCL_STRICT": "fault"}
        crowd = [
            subprocess.Popen(
                [sys.executable, "-c", BESIDE, str(index), str(seconds)],
                env=child.environment(**variables),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for index in range(number)
        ]
        removed = 0
        while any(process.poll() is None for process in crowd):
            done = child.run(
                "from kcl.cli import main; main()", "gc", "--max-size", "50K", **variables
            )
            assert (done.returncode, beside_waits(done.stderr)) == (0, [])
            removed += "are removed" in done.stdout
        ended = [(*process.communicate(), process.returncode) for process in crowd]
        assert [(beside_waits(errors), code) for _output, errors, code in ended] == [
            ([], 0)
        ] * number
        counts = [json.loads(output) for output, _errors, _code in ended]
        assert removed
        assert sum(count["hit"] for count in counts) > number
        assert sum(count["miss"] for count in counts) > 2 * 60  # some went, and were made again


class TestPins:
    def test_written(self):
        """At first nothing is pinned, and asking makes no file; then pins are kept once each."""
        assert space.pins() == []
        assert not os.path.exists(places.own())
        space.pin(["b", "a", "b"])
        assert space.pins() == ["a", "b"]
        space.pin([])
        assert space.pins() == []

    @pytest.mark.parametrize("content", [b"{", b"{}", b"\xff", b"[1, null]"])
    def test_damaged(self, content):
        """A file that holds no pins pins nothing."""
        space.pin(["a"])
        (place,) = (
            os.path.join(places.own(places.PINS), name)
            for name in os.listdir(places.own(places.PINS))
        )
        with open(place, "wb") as stream:
            stream.write(content)
        assert space.pins() == []

    def test_hold(self):
        """A name, a pattern, or a digest, of which twelve digits are enough."""
        for pin in ("axpy", "ax*", "0" * 64, "0" * 12):
            assert space.holds([pin], "axpy", "0" * 64), pin
        assert not space.holds(["0" * 11, "1" * 12, "AXPY"], "axpy", "0" * 64)
