"""kcl.drivers.pocl.prebuild: programs that are made before they are asked for. PoCL only."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal

import pytest

from conftest import Child, platforms
from kcl.cache.entry import Entry
from kcl.drivers.pocl import orders as history
from kcl.drivers.pocl import prebuild

TEXT = "__kernel void added{}(__global float *x) {{ x[get_global_id(0)] += {}; }}"
# Each program adds its number. The driver prints sums, the look-ups of the binary layer, how many programs were built
# of binaries in which thread, which were handed to the driver, and how many in which thread.
DRIVER = """
    import collections, json, os, sys, threading
    import numpy as np
    import pyopencl as cl
    import kcl
    from kcl.drivers.pocl import prebuild
    from kcl.build import compiler

    prebuild.WINDOW, prebuild.FIRST, prebuild.BATCH, prebuild.PASSED, prebuild.BATCH_SECONDS = 6, 4, 2, 2, 60.0

    TEXT = "__kernel void added{}(__global float *x) {{ x[get_global_id(0)] += {}; }}"

    @kcl.kernel
    def added(number):
        return kcl.Source(
            TEXT.format(number % 10, number),
            entry=f"added{number % 10}",
            arguments=[kcl.Array("x", np.float32, "(16,)", "inout")],
            global_size="(16,)",
            local_size="(16,)",
        )

    make, build, threads = compiler.of_binaries, compiler.built_silently, collections.Counter()
    handed, makers = [], collections.Counter()

    def noted(context, devices, entries):
        makers[threading.current_thread().name] += 1
        handed.extend(entry.key.digest for entry in entries)
        return make(context, devices, entries)

    def counted(*arguments):
        threads[threading.current_thread().name] += 1
        return build(*arguments)

    compiler.of_binaries, compiler.built_silently = noted, counted
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
        print(json.dumps([sums, found, threads, handed, makers]))

    found = []
    kcl.add_hook(lambda event: found.append([event.outcome, event.reason]) if event.layer == "binary" else None)
    numbers = json.loads(sys.argv[1])
"""
LAUNCH = "    end(launch(numbers))\n"
ONE_BY_ONE = """
    sums = []
    for number in numbers:
        sums += launch([number])
        wait()
    end(sums)
"""
ON_POCL = {"PYOPENCL_CTX": "portable", "KCL_AHEAD": "1", "KCL_PROMOTE": "off"}
AHEAD = ["hit", "made ahead"]
NUMBERS = list(range(12))  # of which 0 and 10, 1 and 11 have the same kernel name
WINDOW, FIRST = 6, 4


@pytest.fixture(autouse=True)
def _pocl():
    if "pocl" not in platforms():
        pytest.skip("programs are made ahead on PoCL only")


class Ran:
    """What a driver printed."""

    def __init__(self, printed):
        sums, self.events, self.builds, self.handed, self.makers = printed
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
    return sorted((child.cache / "kcl" / "orders").glob("orders-*"))


def entry(child, number):
    """Return the path of a program's entry."""
    source = TEXT.format(number % 10, number)
    digest = hashlib.sha256(source.encode()).hexdigest()
    found = (child.cache / "pyopencl" / "kcl-binary-v1").rglob(f"added{number % 10}-*")
    (path,) = [path for path in found if ("source", digest) in Entry.unpack(path.read_bytes()).key.parts]
    return path


class TestTaken:
    def test_second_run(self, run):
        """Programs after the first are built in another thread; each is built once and computes the same."""
        ran = run()
        assert ran.sums == sums(NUMBERS)
        assert ran.outcomes == ["hit"] * len(NUMBERS)
        assert ran.events[0] == ["hit", ""]
        assert ran.builds["kcl-ahead"] > 0
        assert sum(ran.builds.values()) == len(NUMBERS)

    def test_who_reads(self, run):
        """Who asks for a program reads the next ones: the other thread does nothing that it would have to wait for."""
        code = """
    from kcl.cache.entry import Entry
    unpack = Entry.unpack

    def unpacked(*arguments):
        assert threading.current_thread() is threading.main_thread()
        return unpack(*arguments)

    Entry.unpack = unpacked
"""
        ran = run(NUMBERS, code + ONE_BY_ONE)
        assert ran.makers == {"MainThread": len(NUMBERS)}
        assert ran.builds == {"MainThread": 1, "kcl-ahead": len(NUMBERS) - 1}

    def test_all_that_was_made(self, run):
        """What lies there when it is asked for is taken: as many as are made at first."""
        code = """
    sums = launch(numbers[:1])
    wait()
    end(sums + launch(numbers[1:]))
"""
        ran = run(NUMBERS[: 1 + FIRST], code)
        assert ran.sums == sums(NUMBERS[: 1 + FIRST])
        assert ran.events == [["hit", ""]] + [AHEAD] * FIRST

    def test_nobody_asks(self, child, run):
        """Of programs that nobody asks for few are made, and never more than the window holds."""
        assert run(NUMBERS[:1]).builds == {"MainThread": 1, "kcl-ahead": FIRST}
        code = """
    sums = []
    for number in numbers:
        sums += launch([number])
        wait()
    (home,) = stage._builds
    print(len(home.ahead._made))
"""
        made = child.json(DRIVER + code, json.dumps(NUMBERS[:4]), **ON_POCL)
        assert 0 < made <= WINDOW

    def test_first(self, run):
        """As long as nothing was asked for that was made ahead no more is made than at first."""
        ran = run([0, 20, 21, 22])
        assert ran.outcomes == ["hit", *["miss"] * 3]
        assert ran.makers == {"MainThread": 1 + FIRST}

    def test_slow(self, run):
        """Where it takes long to read no more entries are read than are asked for, and one at first."""
        ran = run(NUMBERS[:4], "    prebuild.BATCH_SECONDS = -1\n" + ONE_BY_ONE)
        assert ran.sums == sums(NUMBERS[:4])
        assert ran.events == [["hit", ""], *[AHEAD] * 3]
        assert ran.makers == {"MainThread": 5}

    def test_unlike(self, child, run):
        """In a run that is not like the last one nothing more is made, and what was made is dropped."""
        orders(child)[0].unlink()
        run([0, 1])  # what follows is not in this order
        code = """
    from kcl.build import stage
    sums = launch(numbers)
    wait()
    (home,) = stage._builds
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
        assert run(NUMBERS[:1]).builds["kcl-ahead"] == FIRST

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
        code = "    from kcl.inspect.history import remembered\n    remembered.KEPT = 1\n" + LAUNCH
        run([1, 0], code)
        assert len(orders(child)) == 1
        assert orders(child) != [path]

    def test_bounded_in_memory(self):
        """A process that begins with ever other programs keeps the orders of the last ones."""
        for number in range(history.KEPT + 10):
            history.of(f"{number:064x}", "").note("0" * 64)
        assert len(history._orders) == history.KEPT
        one = history.of("0" * 64, "")
        for number in range(history.LONGEST + 10):
            one.note(f"{number:064x}")
        assert len(one._asked) == history.LONGEST


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
        """An entry that lies in the place of another is not given to the driver, although its kernel has that name."""
        right = [Entry.unpack(entry(child, number).read_bytes()).key.digest for number in (2, 3, 4)]
        entry(child, 1).write_bytes(entry(child, 11).read_bytes())
        ran = run([0, 1], ONE_BY_ONE)
        assert ran.sums == sums([0, 1])
        assert ran.handed[:3] == right
        assert ran.outcomes == ["hit", "error"]
        assert "another key" in ran.events[1][1]

    def test_other_key(self, run):
        """What was made of the entry of another key is not taken, wherever it lies."""
        code = """
    from kcl.build import stage
    sums = launch([0])
    wait()
    (home,) = stage._builds
    made = home.ahead._made
    one, other, *_ = made
    made[one], made[other] = made[other], made[one]
    end(sums + launch([1, 2]))
"""
        ran = run([], code)
        assert ran.sums == sums([0, 1, 2])
        assert ran.events == [["hit", ""]] * 3

    def test_memory(self, child, run):
        """An entry that this process holds in memory comes before what lies on disk."""
        path = entry(child, 1)
        place = f"{path.parent.name}/{path.name}"
        blob = path.read_bytes()
        path.write_bytes(entry(child, 2).read_bytes())
        code = f"""
    from kcl.cache import layers
    layers.binary().memory.put({place!r}, {blob!r})
"""
        ran = run([0, 1], code + ONE_BY_ONE)
        assert ran.sums == sums([0, 1])
        assert ran.events[1] == AHEAD

    def test_entries_are_gone(self, child, run):
        """Programs in the order that have no entry any more are built from source."""
        for number in (2, 5):
            entry(child, number).unlink()
        ran = run()
        assert ran.sums == sums(NUMBERS)
        assert ran.outcomes == ["miss" if number in (2, 5) else "hit" for number in NUMBERS]

    @pytest.mark.parametrize("fails", ["return False", "raise MemoryError"])
    def test_fails(self, run, fails):
        """A program that cannot be built ahead is made by who asks for it, whatever goes wrong in the thread."""
        code = f"""
    def failing(*arguments):
        if threading.current_thread().name == "kcl-ahead":
            {fails}
        return counted(*arguments)

    compiler.built_silently = failing
"""
        ran = run(code=code + LAUNCH)
        assert ran.sums == sums(NUMBERS)
        assert ran.outcomes == ["hit"] * len(NUMBERS)

    def test_hangs(self, run):
        """Nobody waits long for a program that the second thread does not finish."""
        code = """
    prebuild._PATIENCE = 0.1
    begun, go_on = threading.Event(), threading.Event()

    def hangs(*arguments):
        if threading.current_thread().name == "kcl-ahead":
            begun.set()
            go_on.wait(60)
        return counted(*arguments)

    compiler.built_silently = hangs
    sums = launch(numbers[:1])
    begun.wait()
    sums += launch(numbers[1:])
    go_on.set()
    end(sums)
"""
        ran = run(NUMBERS[:3], code)
        assert ran.sums == sums(NUMBERS[:3])
        assert ran.outcomes == ["hit"] * 3

    @pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer")
    def test_within_itself(self, run):
        """What a signal handler launches may come in between at any point."""
        code = """
    import signal
    from kcl.cache import layers
    from kcl.build import stage
    look, slots = stage.slots_of, []

    def looked(home, generated):
        found = look(home, generated)
        slots.extend(found)
        return found

    stage.slots_of = looked
    sums = launch(numbers)
    wait()
    (home,) = stage._builds
    fired = 0

    def fire(_number, _frame):
        global fired
        fired += 1
        slot = slots[fired % len(slots)]
        home.ahead.take(slot)
        layers.binary().look_up(slot.address, slot.key)

    signal.signal(signal.SIGALRM, fire)
    signal.setitimer(signal.ITIMER_REAL, 2e-4, 2e-4)
    while fired < 500:
        home.ahead._made.update(dict.fromkeys(home.ahead._places, None))
        home.ahead._wanted.update(dict.fromkeys(home.ahead._places))
        for slot in slots:
            home.ahead.take(slot)
    signal.setitimer(signal.ITIMER_REAL, 0)
    home.ahead._wanted.clear()
    home.ahead._made.clear()
    assert layers.binary().ahead
    end(sums)
"""
        assert run(NUMBERS, code).sums == sums(NUMBERS)

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

    def test_results_are_verified(self, child, run):
        """`KCL_VERIFY=results` finds a wrong program that was made ahead, too."""
        path = entry(child, 1)
        right, other = (Entry.unpack(one.read_bytes()) for one in (path, entry(child, 11)))
        parts = {**right.parts, "binary": other.parts["binary"]}
        path.write_bytes(Entry(right.key, right.metadata, parts).pack())
        ran = run([0, 1], ONE_BY_ONE)
        assert (ran.sums, ran.events[1]) == (sums([0, 11]), AHEAD)
        ran = run([0, 1], ONE_BY_ONE, KCL_VERIFY="results")
        assert ran.sums == sums([0, 1])
        assert "error" in ran.outcomes

    @pytest.mark.parametrize("arguments", ["[]", "[None]", "[5]", "[b'x']", "'text'", "['\\udcff']"])
    def test_odd_arguments(self, run, arguments):
        """However the program has left `sys.argv`, it runs."""
        ran = run(code=f"    sys.argv = {arguments}\n" + LAUNCH)
        assert ran.sums == sums(NUMBERS)
        assert ran.outcomes == ["hit"] * len(NUMBERS)

    def test_cannot_begin(self, child, run):
        """Where nothing can be made ahead that is said once, and the run goes on."""
        code = """
    from kcl.drivers.pocl import orders

    def fail(*arguments):
        raise ValueError("no orders today")

    orders.of = fail
"""
        assert run(code="    import warnings; warnings.simplefilter('ignore')\n" + code + LAUNCH).sums == sums(NUMBERS)
        done = child.run(DRIVER + code + LAUNCH, json.dumps(NUMBERS), **ON_POCL)
        assert done.returncode == 0
        assert done.stderr.count("CacheWarning") == done.stderr.count("no orders today") == 1


class TestContexts:
    def test_second(self, run):
        """A second context gains what the first one does."""
        code = """
    sums = []
    for _ in range(2):
        queue = cl.CommandQueue(cl.Context(context.devices))
        for number in numbers:
            sums += launch([number])
            wait()
    end(sums)
"""
        ran = run(NUMBERS, code)
        assert ran.sums == sums(NUMBERS * 2)
        assert ran.ahead == 2 * (len(NUMBERS) - 1)

    def test_dropped(self, run):
        """For contexts that come and go few programs are made, and what was made goes with them."""
        code = """
    import gc
    from kcl.build import stage
    sums = []
    for _ in range(10):
        queue = cl.CommandQueue(cl.Context(context.devices))
        sums += launch(numbers)
    queue = None
    wait()
    gc.collect()
    assert not list(stage._builds)
    end(sums)
"""
        ran = run([0], "    prebuild.WINDOW, prebuild.BATCH, prebuild.PASSED = 12, 12, 12\n" + code)
        assert ran.sums == [0] * 10
        assert ran.builds["kcl-ahead"] <= 10 * FIRST

    def test_dropped_meanwhile(self, run):
        """When nobody can ask for them any more no further programs are made."""
        code = """
    begun, go_on = threading.Event(), threading.Event()

    def waits(*arguments):
        if threading.current_thread().name == "kcl-ahead":
            begun.set()
            go_on.wait(60)
        return counted(*arguments)

    compiler.built_silently = waits
    sums = launch(numbers)
    begun.wait()
    queue = None
    go_on.set()
    end(sums)
"""
        assert run([0], code).builds == {"MainThread": 1, "kcl-ahead": 1}


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
        assert ran.makers == {"MainThread": len(NUMBERS)}
        assert ran.ahead == 1  # what was read before it was known

    def test_pocl_cache(self, run):
        """Where PoCL's own cache is off nothing is made ahead."""
        ran = run(POCL_KERNEL_CACHE="0")
        assert ran.sums == sums(NUMBERS)
        assert ran.builds == {"MainThread": len(NUMBERS)}

    def test_layer(self, run):
        """Where the binary layer is off nothing is made of binaries."""
        ran = run(NUMBERS[:2], KCL_NO_CACHE="binary")
        assert ran.sums == sums(NUMBERS[:2])
        assert ran.builds == {}


class TestEnd:
    @pytest.mark.parametrize("daemon", [False, True])
    def test_exit(self, child, run, daemon):
        """A process that ends while programs are made ends well, whichever thread has asked for the first."""
        assert run([0]).builds["kcl-ahead"] == FIRST
        code = f"""
    thread = threading.Thread(target=launch, args=([0],), daemon={daemon})
    thread.start()
    thread.join()
"""
        for _ in range(8):
            done = child.run(DRIVER + code, "[]", **ON_POCL)
            assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
    @pytest.mark.parametrize("pause", [0.0, 0.002, 0.005])
    def test_fork(self, child, run, pause):
        """Children that are forked as programs are made end well, take nothing of theirs, and write no order."""
        code = f"""
    import signal, time
    from kcl.build import stage
    look, slots = stage.slots_of, []

    def looked(home, generated):
        slots[:] = look(home, generated)
        return slots

    stage.slots_of = looked
    launch([1])
    (slot,) = slots
    queue = cl.CommandQueue(cl.Context(context.devices))
    launch([0])
    found = []
    for _ in range(6):
        time.sleep({pause})
        one = os.fork()
        if one == 0:
            signal.alarm(20)
            for home in stage._builds:
                assert home.ahead.take(slot) is None
                home.ahead._order.note("f" * 64)
            home = queue = None  # releases programs
            sys.exit()
        found.append(one)
    print([os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in found])
"""
        before = [(path, path.read_bytes()) for path in orders(child)]
        assert run([0]).builds["kcl-ahead"] == FIRST
        for _ in range(4):
            assert child.json(DRIVER + code, "[]", **ON_POCL) == [0] * 6
        assert [(path, path.read_bytes()) for path in orders(child)] == before

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
    def test_nested_fork(self, monkeypatch):
        """A fork within a fork, as a signal handler may do, leaves the lock free in both processes."""
        monkeypatch.setattr(prebuild, "_FORK_SECONDS", 0.05)
        prebuild._before_fork()
        one = os.fork()
        if not one:
            os._exit(prebuild._Step.lock.locked())
        assert os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) == 0
        assert prebuild._Step.lock.locked()
        prebuild._after_fork()
        assert not prebuild._Step.lock.locked()
