"""kcl.drivers.pocl.prebuild: programs that are made before they are asked for. PoCL only."""

from __future__ import annotations

import json
import os
import signal

import pytest
from ahead import AHEAD, DRIVER, LAUNCH, NUMBERS, ON_POCL, ONE_BY_ONE, Ran, entry, orders, sums
from harness import platforms

from kcl.cache.entry import Entry
from kcl.cache.stores.base import digest_of
from kcl.drivers.pocl import prebuild

WINDOW, FIRST = 6, 4


@pytest.fixture(autouse=True)
def _pocl():
    if "pocl" not in platforms():
        pytest.skip("programs are made ahead on PoCL only")


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
    from kcl.build import stage
    sums = []
    for number in numbers:
        sums += launch([number])
        wait()
    from kcl.build import stage
    (home,) = stage._state().builds
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
    from kcl.build import stage
    (home,) = stage._state().builds
    print(len(home.ahead._made))
"""
        assert child.json(DRIVER + code, json.dumps([0, *NUMBERS[2:]]), **ON_POCL) == 0


class TestRight:
    @pytest.mark.faults
    @pytest.mark.parametrize("which", [1, 6])
    @pytest.mark.slow_cases(2)
    def test_damaged_entry(self, child, run, which):
        """A damaged entry is set aside and reported by who asks for it, and the program built from source."""
        path = entry(child, which)
        blob = bytearray(path.read_bytes())
        blob[len(blob) // 2] ^= 1
        path.write_bytes(blob)
        ran = run()
        assert ran.sums == sums(NUMBERS)
        assert ran.outcomes == ["error" if number == which else "hit" for number in NUMBERS]

    @pytest.mark.faults
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
    from kcl.build import stage
    (home,) = stage._state().builds
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

    def test_entry_is_completed(self, child, run):
        """An entry that a helper has yet to complete is not made ahead: who asks for it waits for the helper."""
        job = child.cache / "kcl" / "pending" / ("0" * 32) / digest_of(entry(child, 2).name)
        job.parent.mkdir(parents=True, mode=0o700)
        job.write_bytes(b"")  # which its reader drops
        ran = run(NUMBERS[:4], ONE_BY_ONE)
        assert ran.sums == sums(NUMBERS[:4])
        assert ran.events == [["hit", ""], AHEAD, ["hit", "waited for the helper that completes it"], AHEAD]

    def test_entries_are_gone(self, child, run):
        """Programs in the order that have no entry any more are built from source."""
        for number in (2, 5):
            entry(child, number).unlink()
        ran = run()
        assert ran.sums == sums(NUMBERS)
        assert ran.outcomes == ["miss" if number in (2, 5) else "hit" for number in NUMBERS]

    @pytest.mark.parametrize("fails", ["return False", "raise MemoryError"])
    @pytest.mark.slow_cases(2)
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

    def looked(*arguments):
        found = look(*arguments)
        slots.extend(found)
        return found

    stage.slots_of = looked
    sums = launch(numbers)
    wait()
    from kcl.build import stage
    (home,) = stage._state().builds
    fired = 0

    def fire(_number, _frame):
        global fired
        fired += 1
        slot = slots[fired % len(slots)]
        home.ahead.take(slot)
        layers.binary().look_up(slot.address, slot.key)

    signal.signal(signal.SIGALRM, fire)
    signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
    while fired < 500:
        home.ahead._made.update(dict.fromkeys(home.ahead._places, None))
        home.ahead._wanted.update(dict.fromkeys(home.ahead._places))
        for slot in slots:
            home.ahead.take(slot)
    signal.setitimer(signal.ITIMER_REAL, 0)
    home.ahead._wanted.clear()
    home.ahead._made.clear()
    assert home.makes_ahead
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

    @pytest.mark.faults
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
    @pytest.mark.slow_cases(6)
    def test_odd_arguments(self, run, arguments):
        """However the program has left `sys.argv`, it runs."""
        ran = run(code=f"    sys.argv = {arguments}\n" + LAUNCH)
        assert ran.sums == sums(NUMBERS)
        assert ran.outcomes == ["hit"] * len(NUMBERS)

    @pytest.mark.faults
    def test_cannot_begin(self, child, run):
        """Where nothing can be made ahead that is said once, and the run goes on."""
        code = """
    from kcl.drivers.pocl import program_order

    def fail(*arguments):
        raise ValueError("no orders today")

    program_order.of = fail
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
    assert not list(stage._state().builds)
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
    @pytest.mark.slow_cases(2)
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
    @pytest.mark.slow_cases(3)
    def test_fork(self, child, run, pause):
        """Children that are forked as programs are made end well, take nothing of theirs, and write no order."""
        code = f"""
    import signal, time
    from kcl.build import stage
    look, slots = stage.slots_of, []

    def looked(*arguments):
        slots[:] = look(*arguments)
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
            for home in stage._state().builds:
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
        prebuild._state().before_fork()
        one = os.fork()
        if not one:
            os._exit(prebuild._state().lock.locked())
        assert os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) == 0
        assert prebuild._state().lock.locked()
        prebuild._state().after_fork_in_parent()
        assert not prebuild._state().lock.locked()
