"""kcl.inspect.space: entries keep within a bound, and what was used longest ago goes first."""

import os
import pathlib

import pytest
from stored import put

import kcl
from kcl.cache import places
from kcl.drivers.pocl import client
from kcl.inspect import inventory, purge, space


def keep(bound):
    removal, _entries = space.choose(bound)
    purge.remove(removal, "a test")
    assert removal.refusals == []
    return {entry.kernel for entry in inventory.entries(all_rows=True)}


@pytest.fixture
def recipe(queue):

    def make(name):
        def body():
            import loopy as lp

            text = f"{name}[i] = 2*x[i]"
            return lp.make_kernel("{[i]: 0<=i<8}", text, name=name, lang_version=(2018, 2))

        body.__name__ = body.__qualname__ = name
        kcl.kernel(body)().source(queue.context, x="float32")
        rows = inventory.entries("generator", all_rows=True)
        return [row for row in rows if row.kernel == name]

    return make


class TestChosen:
    def test_nothing_stored(self):
        assert space.measure() == 0
        assert space.choose(1)[1] == 0
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
        assert space.measure() <= bound

    def test_program(self):
        """Code and programs of a kernel go together; programs of one name whose OpenCL C differs are two kernels."""
        for program, days in (("a", 9), ("b", 1)):
            put("axpy", 10_000, days, "generator", program=program, function="f")
            put("axpy", 10_000, 5, program=program)
        assert keep(60_000) == {"axpy"}
        entries = sorted((one.layer, one.metadata["program"]) for one in inventory.entries())
        assert entries == [("binary", "b"), ("generator", "b")]

    def test_pinned(self):
        where = {days: put(f"k{days}", 10_000, days) for days in (9, 8, 7, 1)}
        space.save_pins(["k9", where[8][-64:], "nobody*"])
        assert keep(30_000) == {"k9", "k8"}

    def test_pins(self):
        """A pin is a name, a pattern, or a digest, of which twelve digits are enough."""
        for pin in ("axpy", "ax*", "0" * 64, "0" * 12):
            assert space.is_pinned([pin], "axpy", "0" * 64), pin
        assert not space.is_pinned(["0" * 11, "1" * 12, "AXPY"], "axpy", "0" * 64)

    def test_leading_rows(self, recipe):
        gone, stays = recipe("gone"), recipe("stays")
        assert {row.kind for row in gone} == {"code", "base"}
        space.save_pins(["stays"])
        removal, entries = space.choose(1)
        going = {address for item in removal.items for address in item.addresses}
        assert {row.address for row in gone} <= going
        assert entries == len([row for row in gone if row.is_shown])
        assert not {row.address for row in stays} & going

    def test_gives_space_back(self):
        for number in range(40):
            put(f"k{number}", 20_000, number, "generator", function="f")
        (path,) = pathlib.Path(places.dictionaries()).glob("*.sqlite")
        keep(400_000)
        assert path.stat().st_size < 450_000


class TestKeepBound:
    def test_when_passed(self, monkeypatch):
        """Entries go when all take more than the bound, and not before."""
        monkeypatch.setenv("KCL_MAX_SIZE", "40000")
        for name, size, days in (("a", 10_000, 3), ("b", 10_000, 2)):
            put(name, size, days)
            space.keep_bound()
        assert space.measure() > 20_000
        put("c", 25_000, 1)
        space.keep_bound()
        assert 25_000 < space.measure() < 36_000
        assert [reason for _digest, reason, _time in purge.read_removed()][:1] == [
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

        def files(*words, **variables):
            child.json(code, *words, **variables)
            assert client.idle(str(child.cache / "kcl"), 60.0)
            return list(child.cache.glob("pyopencl/kcl-binary-*/*/*"))

        assert files("2", KCL_MAX_SIZE="1") == []
        before = files("1")
        assert files("1", KCL_STRICT="hit", KCL_MAX_SIZE="1") == before != []


class TestPins:
    def test_pins(self):
        """At first nothing is pinned, and asking makes no file; then pins are kept once each."""
        assert space.read_pins() == []
        assert not os.path.exists(places.own())
        for pins in ([], ["a", "b"]):
            space.save_pins([*pins, *pins[::-1]])
            assert space.read_pins() == pins
        (place,) = pathlib.Path(places.own(places.PINS)).iterdir()
        for content in (b"{", b"{}", b"\xff", b"[1, null]"):
            place.write_bytes(content)
            assert space.read_pins() == [], content
