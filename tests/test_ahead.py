"""kcl.ahead: programs that are made before they are asked for. PoCL only."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from conftest import Child
from kcl.entry import Entry

# Each program adds its number. The driver prints sums, the look-ups of the binary layer, and how many programs were
# built of binaries in which thread.
DRIVER = """
    import collections, json, os, sys, threading
    import numpy as np
    import pyopencl as cl
    import kcl
    from kcl import ahead, building

    ahead.WINDOW, ahead.BATCH = 4, 2

    @kcl.kernel
    def added(number):
        return kcl.Source(
            f"__kernel void added{number}(__global float *x) {{ x[get_global_id(0)] += {number}; }}",
            entry=f"added{number}",
            arguments=[kcl.Array("x", np.float32, "(16,)", "inout")],
            global_size="(16,)",
            local_size="(16,)",
        )

    build, threads = building.built_silently, collections.Counter()

    def counted(*arguments):
        threads[threading.current_thread().name] += 1
        return build(*arguments)

    building.built_silently = counted
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)

    def launch(numbers):
        return [float(added(number)(queue, x=np.zeros(16, np.float32))[1][0].sum()) for number in numbers]

    def wait():
        for thread in threading.enumerate():
            if thread.name == "kcl-ahead":
                thread.join()

    def end(sums):
        wait()
        print(json.dumps([sums, found, threads]))

    found = []
    kcl.add_hook(lambda event: found.append([event.outcome, event.reason]) if event.layer == "binary" else None)
    numbers = json.loads(sys.argv[1])
"""
LAUNCH = "    end(launch(numbers))\n"
ON_POCL = {"PYOPENCL_CTX": "portable", "KCL_AHEAD": "1", "KCL_PROMOTE": "off"}
AHEAD = ["hit", "made ahead"]
NUMBERS = list(range(12))
WINDOW = 4


@pytest.fixture(autouse=True)
def _pocl(platform_name):
    if platform_name != "pocl":
        pytest.skip("programs are made ahead on PoCL only")


class Ran:
    """What a driver printed."""

    def __init__(self, printed):
        sums, self.events, self.builds = printed
        self.sums = [int(each) for each in sums]
        self.outcomes = [outcome for outcome, _reason in self.events]
        self.ahead = self.events.count(AHEAD)


@pytest.fixture(scope="session")
def full(tmp_path_factory):
    """The caches of a driver that has asked for all the programs."""
    child = Child(tmp_path_factory.mktemp("ahead"))
    done = child.run(DRIVER + LAUNCH + "    assert kcl.flush()\n", json.dumps(NUMBERS), **ON_POCL)
    assert (done.returncode, done.stderr) == (0, "")
    return child


@pytest.fixture
def run(full, child):
    """Run a driver in a child with a copy of those caches, and return what it printed."""
    shutil.copytree(full.cache, child.cache, symlinks=True)

    def launch(numbers=NUMBERS, code=LAUNCH, **variables):
        return Ran(child.json(DRIVER + code, json.dumps(numbers), **{**ON_POCL, **variables}))

    return launch


def sums(numbers):
    """Return what the driver prints for these numbers."""
    return [16 * number for number in numbers]


def orders(child):
    """Return the paths of the orders in a child's cache."""
    return sorted((child.cache / "kcl" / "orders").glob("order-*"))


def entry(child, number):
    """Return the path of a program's entry."""
    (path,) = (child.cache / "pyopencl" / "kcl-binary-v1").rglob(f"added{number}-*")
    return path


class TestTaken:
    def test_second_run(self, run):
        """Programs after the first are made in another thread; each is built once and computes the same."""
        ran = run()
        assert ran.sums == sums(NUMBERS)
        assert ran.outcomes == ["hit"] * len(NUMBERS)
        assert ran.events[0] == ["hit", ""]
        assert ran.builds["kcl-ahead"] > 0
        assert sum(ran.builds.values()) == len(NUMBERS)

    def test_all_that_was_made(self, run):
        """What lies there when it is asked for is taken; that is as much as the window holds."""
        code = """
    sums = launch(numbers[:1])
    wait()
    end(sums + launch(numbers[1:]))
"""
        ran = run(NUMBERS[: 1 + WINDOW], code)
        assert ran.sums == sums(NUMBERS[: 1 + WINDOW])
        assert ran.events == [["hit", ""]] + [AHEAD] * WINDOW

    def test_nobody_asks(self, run):
        """Of programs that nobody asks for no more are made than the window holds."""
        assert run(NUMBERS[:1]).builds == {"MainThread": 1, "kcl-ahead": WINDOW}

    def test_all(self, run):
        """The thread goes on as programs are taken."""
        code = """
    sums = []
    for number in numbers:
        sums += launch([number])
        wait()
    end(sums)
"""
        assert run(NUMBERS, code).builds == {"MainThread": 1, "kcl-ahead": len(NUMBERS) - 1}

    def test_unlike(self, child, run):
        """In a run that is not like the last one nothing more is made, and what was made is dropped."""
        orders(child)[0].unlink()
        run([0, 1])  # what follows is not in this order
        code = """
    from kcl import program
    sums = launch(numbers)
    wait()
    (home,) = program._homes
    print(len(home.ahead._made))
"""
        assert child.json(DRIVER + code, json.dumps([0, *NUMBERS[2:]]), **ON_POCL) == 0


class TestOrder:
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
        assert run(NUMBERS[:1]).builds["kcl-ahead"] == WINDOW

    def test_other_first_program(self, child, run):
        """What follows another first program is another order."""
        assert run([3, 2]).ahead == 0
        assert len(orders(child)) == 2

    @pytest.mark.parametrize("content", [b"", b"not an entry", b"kclentry" + b"\0" * 100])
    def test_damaged(self, child, run, content):
        """An order that cannot be read is passed over, and written anew."""
        orders(child)[0].write_bytes(content)
        assert run().builds == {"MainThread": len(NUMBERS)}
        assert run().builds["kcl-ahead"] > 0

    @pytest.mark.parametrize("programs", [None, {"a": 1}, [1], ["../../etc/passwd"], ["0" * 63]])
    def test_wrong(self, child, run, programs):
        """An order that lists what are no addresses is passed over, and written anew."""
        (path,) = orders(child)
        key = Entry.unpack(path.read_bytes()).key
        path.write_bytes(Entry(key, {"programs": programs}, {}).pack())
        assert run().builds == {"MainThread": len(NUMBERS)}
        assert run().builds["kcl-ahead"] > 0

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
        code = "    from kcl.history import orders\n    orders.KEPT = 1\n" + LAUNCH
        run([1, 0], code)
        assert len(orders(child)) == 1
        assert orders(child) != [path]


class TestRight:
    @pytest.mark.parametrize("which", [1, 6])
    def test_damaged_entry(self, child, run, which):
        """A damaged entry is set aside and reported by who asks for it, and the program built from source."""
        path = entry(child, which)
        blob = bytearray(path.read_bytes())
        blob[len(blob) // 2] ^= 1
        path.write_bytes(blob)
        ran = run()
        assert ran.sums == sums(NUMBERS)
        assert ran.outcomes == ["error" if number == which else "hit" for number in NUMBERS]

    def test_foreign_entry(self, child, run):
        """An entry that lies in the place of another is not taken for it."""
        entry(child, 3).write_bytes(entry(child, 5).read_bytes())
        ran = run()
        assert ran.sums == sums(NUMBERS)
        assert ran.outcomes == ["error" if number == 3 else "hit" for number in NUMBERS]

    def test_entries_are_gone(self, child, run):
        """Programs in the order that have no entry any more are built from source."""
        for number in (2, 5):
            entry(child, number).unlink()
        ran = run()
        assert ran.sums == sums(NUMBERS)
        assert ran.outcomes == ["miss" if number in (2, 5) else "hit" for number in NUMBERS]

    def test_refused(self, run):
        """A program that cannot be built ahead is made by who asks for it."""
        code = """
    def refused(*arguments):
        return threading.current_thread().name != "kcl-ahead" and counted(*arguments)

    building.built_silently = refused
"""
        ran = run(code=code + LAUNCH)
        assert ran.sums == sums(NUMBERS)
        assert ran.outcomes == ["hit"] * len(NUMBERS)

    def test_fault(self, run):
        """Whatever goes wrong in the thread, the run does not see it."""
        code = """
    def failing(*arguments):
        if threading.current_thread().name == "kcl-ahead":
            raise MemoryError
        return counted(*arguments)

    building.built_silently = failing
"""
        ran = run(code=code + LAUNCH)
        assert ran.sums == sums(NUMBERS)
        assert ran.outcomes == ["hit"] * len(NUMBERS)

    def test_threads(self, run):
        """Programs that many threads ask for at once are right."""
        code = """
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(6) as pool:
        end([one for (one,) in pool.map(lambda number: launch([number]), numbers)])
"""
        ran = run(NUMBERS * 3, code)
        assert ran.sums == sums(NUMBERS * 3)
        assert set(ran.outcomes) == {"hit"}

    @pytest.mark.usefixtures("run")
    def test_other_cache(self, child):
        """Nothing is taken that was made from a cache directory that is not in use any more."""
        code = """
    sums = launch([0])
    wait()
    kcl.option.cache_dir(sys.argv[2])
    end(sums + launch([1]))
"""
        ran = Ran(child.json(DRIVER + code, "[]", str(child.directory / "other"), **ON_POCL))
        assert ran.sums == sums([0, 1])
        assert ran.outcomes == ["hit", "miss"]

    def test_results_are_verified(self, run):
        """`KCL_VERIFY=results` compares what programs compute that were made ahead too."""
        ran = run(KCL_VERIFY="results")
        assert ran.sums == sums(NUMBERS)
        assert ran.ahead > 0


class TestOff:
    def test_switch(self, child, run):
        """`KCL_AHEAD=0` makes nothing ahead, and writes no order."""
        orders(child)[0].unlink()
        assert run(KCL_AHEAD="0").builds == {"MainThread": len(NUMBERS)}
        assert orders(child) == []

    @pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no way to give a process one processor")
    def test_one_processor(self, run):
        """A process that may use one processor makes nothing ahead by itself, but when it is told to."""
        code = "    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n" + LAUNCH
        assert run(code=code, KCL_AHEAD="").builds == {"MainThread": len(NUMBERS)}
        assert run(code=code).builds["kcl-ahead"] > 0

    def test_no_thread(self, run):
        """Where no thread can be started the run goes on without."""
        code = """
    def start(thread):
        raise RuntimeError("can't start new thread")

    threading.Thread.start = start
"""
        ran = run(code=code + LAUNCH)
        assert ran.sums == sums(NUMBERS)
        assert ran.builds == {"MainThread": len(NUMBERS)}

    def test_layer(self, run):
        """Where the binary layer is off nothing is made of binaries."""
        ran = run(NUMBERS[:2], KCL_NO_CACHE="binary")
        assert ran.sums == sums(NUMBERS[:2])
        assert ran.builds == {}


class TestEnd:
    def test_exit(self, child, run):
        """A process that ends while programs are made ends well."""
        assert run([0]).builds["kcl-ahead"] == WINDOW
        for _ in range(8):
            done = child.run(DRIVER + "    launch([0])\n", "[]", **ON_POCL)
            assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
    def test_fork(self, child, run):
        """In a child that is forked as programs are made nobody waits for them, and it writes no order."""
        code = """
    from kcl import program
    look, kept = program.slots_of, []

    def looked(home, generated):
        kept[:] = look(home, generated)
        return kept

    program.slots_of = looked
    launch([0])
    one = os.fork()
    if one == 0:
        (home,) = program._homes
        assert home.ahead.take(kept[0]) is None
        home.ahead._order.asked["f" * 64] = None
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]))
"""
        assert run([0]).builds["kcl-ahead"] == WINDOW
        before = [(path, path.read_bytes()) for path in orders(child)]
        for _ in range(4):
            assert child.json(DRIVER + code, "[]", **ON_POCL) == 0
        assert [(path, path.read_bytes()) for path in orders(child)] == before
