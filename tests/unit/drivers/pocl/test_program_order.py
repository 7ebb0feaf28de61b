"""kcl.drivers.pocl.program_order: the order in which a program asked for its programs, kept for its next run."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from ahead import DRIVER, LAUNCH, NUMBERS, ON_POCL, ONE_BY_ONE, orders, sums
from harness import platforms

from kcl.cache.entry import Entry
from kcl.drivers.pocl import program_order as history

FIRST = 4


@pytest.fixture(autouse=True)
def _pocl():
    if "pocl" not in platforms():
        pytest.skip("programs are made ahead on PoCL only")


class TestOrder:
    @pytest.mark.slow
    def test_another(self, run):
        """Programs that are asked for the other way round are found, and right."""
        numbers = [0, *reversed(NUMBERS[1:])]
        ran = run(numbers)
        assert ran.sums == sums(numbers)
        assert ran.outcomes == ["hit"] * len(NUMBERS)

    def test_kept(self, child, run):
        """A run that asks for nothing new leaves the order as it is."""
        (path,) = orders(child)
        before = path.stat()
        run(NUMBERS[:3])
        run()
        assert orders(child) == [path]
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def test_learned(self, child, run):
        """A program that was not in it is afterwards."""
        orders(child)[0].unlink()
        assert run(NUMBERS[:3]).ahead == 0
        assert run(NUMBERS).outcomes == ["hit"] * len(NUMBERS)
        assert run(NUMBERS[:1]).builds["kcl-ahead"] == FIRST

    def test_other_first_program(self, child, run):
        """What follows another first program is another order."""
        assert run([3, 2]).ahead == 0
        assert len(orders(child)) == 2

    @pytest.mark.parametrize("content", [b"", b"not an entry", b"kclentry" + b"\0" * 100])
    @pytest.mark.slow_cases(3)
    def test_damaged(self, child, run, content):
        """An order that cannot be read is passed over, and written anew."""
        orders(child)[0].write_bytes(content)
        assert run().builds == {"MainThread": len(NUMBERS)}
        assert run().builds["kcl-ahead"] > 0

    @pytest.mark.parametrize("programs", [None, {"a": 1}, [1], ["../../etc/passwd"], ["0" * 63]])
    @pytest.mark.slow_cases(5)
    def test_wrong(self, child, run, programs):
        """An order that lists what are no addresses is passed over, and written anew."""
        (path,) = orders(child)
        key = Entry.unpack(path.read_bytes()).key
        path.write_bytes(Entry(key, {"programs": programs}, {}).pack())
        assert run().builds == {"MainThread": len(NUMBERS)}
        assert run().builds["kcl-ahead"] > 0

    def test_too_long(self, child, run):
        """An order that is longer than any that is written is passed over, and written anew."""
        (path,) = orders(child)
        key = Entry.unpack(path.read_bytes()).key
        path.write_bytes(Entry(key, {"programs": ["0" * 64] * 2001}, {}).pack())
        assert run().builds == {"MainThread": len(NUMBERS)}
        assert run().builds["kcl-ahead"] > 0

    def test_part_of_it(self, run):
        """In a run that leaves out much of it the rest is made ahead all the same."""
        numbers = [0, *NUMBERS[6:]]
        ran = run(numbers, ONE_BY_ONE)
        assert ran.sums == sums(numbers)
        assert ran.ahead >= 3

    def test_in_use(self, child, run):
        """The time of an order tells when it was last used, to the day."""
        (path,) = orders(child)
        os.utime(path, (1e9, 1e9))
        run()
        assert path.stat().st_mtime > 1.1e9

    def test_link(self, child, run):
        """A link in the place of an order is not followed."""
        (path,) = orders(child)
        path.rename(child.directory / "moved")
        path.symlink_to(child.directory / "moved")
        assert run().builds == {"MainThread": len(NUMBERS)}

    @pytest.mark.usefixtures("run")
    def test_unwritable(self, child):
        """Where it can be neither read nor written nothing is said, and the run ends well."""
        shutil.rmtree(child.cache / "kcl" / "orders")
        (child.cache / "kcl" / "orders").write_text("in the way")
        done = child.run(DRIVER + LAUNCH, json.dumps(NUMBERS), **ON_POCL)
        assert (done.returncode, done.stderr) == (0, "")

    def test_bounded(self, child, run):
        """No more than a number of orders are kept: the oldest goes."""
        (path,) = orders(child)
        os.utime(path, (1, 1))
        code = "    from kcl.cache import run_memo\n    run_memo.KEPT = 1\n" + LAUNCH
        run([1, 0], code)
        assert len(orders(child)) == 1
        assert orders(child) != [path]

    def test_bounded_in_memory(self):
        """A process that begins with ever other programs keeps the orders of the last ones."""
        for number in range(history.KEPT + 10):
            history.of(f"{number:064x}", "").note("0" * 64)
        assert len(history._state().orders) == history.KEPT
        one = history.of("0" * 64, "")
        for number in range(history.LONGEST + 10):
            one.note(f"{number:064x}")
        assert len(one._asked) == history.LONGEST
