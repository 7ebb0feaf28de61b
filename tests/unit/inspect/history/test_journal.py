"""kcl.inspect.history.journal: statistics and misses that outlive a process, written by many at once."""

import hashlib
import json
import os
import pathlib
import time

import late_switching
import pytest

from kcl import inspect, option
from kcl.base import events
from kcl.base.events import Event
from kcl.cache.key import Key, Part
from kcl.cache.stores import address
from kcl.cli import stats
from kcl.inspect.history import journal, records

KEY = Key([Part("recipe", "axpy"), Part("argument x", "<f4")])
MISS = Event("binary", "axpy", KEY.digest, "miss", "not in the cache", 0.5, 100)
HIT = Event("generator", "axpy", KEY.digest, "hit", "", 0.25, 10, 2.0)


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """A cache directory of its own, into which no thread writes the record beside the test."""
    option.cache_dir(tmp_path / "root")
    monkeypatch.setattr(inspect, "_SOON", 3600.0)
    return tmp_path / "root"


def end(*emitted, key=KEY, entries=()):
    """Do what a process does that emits events and ends."""
    for event in emitted:
        events.emit(event, key, entries if event.outcome == "hit" else ())
    if records.write():
        journal.trim()
    records.begin()


def names(root: pathlib.Path) -> list[str]:
    return sorted(os.listdir(root / "kcl" / "journal"))


def totals():
    return {layer: row for (layer,), row in stats.add_up(journal.count_by_day(), ["layer"]).items()}


class TestKept:
    def test_rows(self):
        end(HIT, HIT._replace(kernel="sum"), MISS)
        end(HIT)
        today = time.strftime("%Y-%m-%d")
        assert {place: row["hits"] for place, row in journal.count_by_day().items()} == {
            (today, "generator", "axpy"): 2,
            (today, "generator", "sum"): 1,
            (today, "binary", "axpy"): 0,
        }
        # The same entry saves once in a process.
        counted = {"hits": 3, "seconds": 0.75, "saved": 2.0, "bytes": 30}
        assert totals()["generator"] == {**dict.fromkeys(journal.COUNTERS, 0), **counted}
        assert totals()["binary"]["misses"] == 1

    def test_uses(self):
        end(HIT, entries=[KEY.digest])
        before = time.time()
        end(HIT, HIT, entries=[KEY.digest, "ff" * 32])
        found = journal.read_uses()
        count, last = journal.find_use(found, KEY.digest)
        assert (count, found["ff" * (journal.DIGITS // 2)][0]) == (3, 2)
        assert before <= last <= time.time()

    def test_misses(self):
        """What was no hit is kept with the parts of its key, its reason, the run and the driver; hits are not."""
        end(MISS, HIT)
        end(MISS._replace(outcome="bypass", key="", reason="draws random numbers"), key=None)
        miss, bypass = journal.last_misses()
        assert (miss.key, miss.event, bypass.key) == (KEY, MISS, None)
        assert miss.record["name"] != bypass.record["name"]
        assert miss.record["pid"] == os.getpid()
        assert os.path.basename(miss.record["driver"]) == miss.record["driver"] != ""

    def test_of_this_process(self):
        """What this process missed is told before it is written, and not twice afterwards."""
        for count in (1, 2):
            events.emit(MISS, KEY)
            assert [missed.key for missed in journal.last_misses()] == [KEY] * count
            records.write()
            assert [missed.key for missed in journal.last_misses()] == [KEY] * count

    def test_reset(self, root):
        end(HIT, MISS)
        events.emit(HIT)
        journal.reset()
        assert totals() == journal.read_uses() == {}
        assert (journal.last_misses(), journal.count_by_day()) == ([], {})
        records.write()
        assert names(root) == []


class TestTexts:
    """What explains a miss that stored nothing is kept with it."""

    TEXTS = {"record.json": b'{"calls": []}', "reached.json": b"{}"}  # noqa: RUF012

    def test_kept(self, monkeypatch):
        """It is there in this process and in later ones, once a key and within bounds."""
        events.emit(MISS, KEY, texts=self.TEXTS)
        assert [missed.texts for missed in journal.last_misses()] == [self.TEXTS]
        end(MISS)
        assert [missed.texts for missed in journal.last_misses()] == [self.TEXTS, {}]
        journal.reset()
        monkeypatch.setattr(events, "TEXTS", 30)
        keys = [Key([Part("recipe", str(number))]) for number in range(2)]
        texts = {"record.json": b"x" * 15, "reached.json": b"y" * 10}
        for key in (keys[0], keys[0], keys[1]):
            events.emit(MISS, key, texts=texts)
        for _ in range(2):
            found = [dict(missed.texts) for missed in journal.last_misses()]
            assert found == [texts, {}, {}]
            end()


class TestNothing:
    def test_no_look_up(self, root):
        """Without look-ups, or where every layer is off, nothing is written; reading makes nothing."""
        off = MISS._replace(outcome="bypass", reason="off: KCL_NO_CACHE=1")
        end(off, off._replace(layer="generator"), key=None)
        records.write()
        assert totals() == {}
        journal.reset()
        assert not root.exists()
        end(MISS._replace(outcome="bypass", reason="off: KCL_NO_CACHE=binary"), HIT)
        assert totals()["binary"]["bypassed"] == 1


class TestLate:
    @pytest.fixture(autouse=True)
    def clock(self, monkeypatch):
        self.past = 0.0
        monkeypatch.setattr(records.time, "time", lambda now=time.time: now() - self.past)

    def left(self, words, past=0.0):
        self.past = past
        late_switching.leave(words)
        self.past = 0.0

    def test_once(self):
        """What is found again is told once, with the time of the last, for a week; the newest stay within a bound."""
        for value, past in (("/x", 90.0), ("/y", 0.0), ("/x", 60.0)):
            self.left(value, past=past)
        found = journal.find_late()
        assert [note["words"] for note in found] == ["/y", "/x"]
        assert found[1]["driver"]
        assert abs(found[1]["time"] - time.time() + 60.0) < 30
        self.left("/old", past=journal.AGE + 60)
        assert len(journal.find_late()) == 2
        journal.reset()
        for number in range(80):
            self.left(str(number), past=100.0 - number)
        newest = [str(number) for number in reversed(range(16, 80))]
        assert [note["words"] for note in journal.find_late()] == newest

    def test_of_a_process(self):
        """A process leaves its late switches, also where its look-ups stand in an earlier record of it."""
        events.emit(HIT)
        records.write()
        assert journal.find_late() == []
        records.write((), ["words"])
        assert [note["words"] for note in journal.find_late()] == ["words"]


class TestBounds:
    def ages(self, root):
        order = []
        for number in range(4):
            end(HIT._replace(kernel=f"kernel {number}"))
            (name,) = set(names(root)) - set(order)
            os.utime(root / "kcl" / "journal" / name, (1e9 + number, 1e9 + number))
            order.append(name)
        return order

    @pytest.mark.parametrize(("bound", "stay"), [("KEPT", 3), ("ROOM", 2)])
    def test_youngest_stay(self, root, monkeypatch, bound, stay):
        order = self.ages(root)[-stay:]
        room = sum((root / "kcl" / "journal" / name).stat().st_size for name in order)
        monkeypatch.setattr(journal, bound, {"KEPT": stay, "ROOM": room}[bound])
        journal.trim()
        assert names(root) == sorted(order)
        kernels = {kernel for _day, _layer, kernel in journal.count_by_day()}
        assert kernels == {f"kernel {number}" for number in range(4 - stay, 4)}

    @pytest.mark.parametrize("bound", ["MANY", "LARGE"])
    def test_asked_for(self, monkeypatch, bound):
        """A process that finds many records, or leaves a large one, asks for it."""
        events.emit(HIT)
        assert not records.write()
        monkeypatch.setattr(records, bound, 0)
        assert records.write()

    def test_many_names(self):
        for number in range(events.MOST_NAMES + 10):
            events.emit(HIT._replace(kernel=f"kernel {number}"))
        records.write()
        rows = journal.count_by_day().items()
        hits = {kernel: row["hits"] for (_day, _layer, kernel), row in rows}
        assert (len(hits), hits[events.OTHERS]) == (events.MOST_NAMES + 1, 10)


class TestFaults:
    @pytest.mark.parametrize("content", [b"", b"\xff" * 100, b"{}\n[]\n{}", b'{"format":1}'])
    def test_damaged(self, root, content):
        end(HIT)
        (name,) = names(root)
        (root / "kcl" / "journal" / name).write_bytes(content)
        end(HIT)
        assert totals()["generator"]["hits"] == 1
        assert len(journal.count_by_day()) == 1

    def test_loose_directory(self, root, recwarn):
        end(HIT)
        (root / "kcl").chmod(0o777)
        end(HIT)
        assert totals() == {}
        (root / "kcl").chmod(0o700)
        assert totals()["generator"]["hits"] == 1
        assert not recwarn.list


WRITERS = """
import json, os, sys
from kcl import option
from kcl.base import events
from kcl.cli import stats
from kcl.inspect.history import journal, records
from kcl.base.events import Event
from kcl.cache.key import Key
option.cache_dir(sys.argv[1])
gate, start = os.pipe()
children = []
for number in range(24):
    child = os.fork()
    if not child:
        os.close(start)
        os.read(gate, 1)
        for turn in range(5):
            events.emit(Event("generator", "axpy", "", "hit", "", 0.5, 1, 1.0), None, ["ab" * 32])
            events.emit(Event("binary", "axpy", "", "miss", "new", 0.5, 1), Key([("number", str(number))]))
            records.write()
        os._exit(0)
    children.append(child)
os.close(start)
ends = [os.waitpid(child, 0)[1] for child in children]
missed = journal.last_misses()
totals = {layer: row for (layer,), row in stats.add_up(journal.count_by_day(), ["layer"]).items()}
print(json.dumps([ends, totals, len(missed), len({miss.record["name"] for miss in missed}),
    [count for count, _last in journal.read_uses().values()], [*records.open_store().scan()]]))
"""

WORK = """
from kcl import option
from kcl.base import events
def work(root, name):
    option.cache_dir(root)
    events.emit(events.Event("generator", name, "", "hit", "", 0.5, 1))
"""
CHILDREN = """
import multiprocessing, os, sys, work
if __name__ == "__main__":
    work.work(sys.argv[1], "parent")
    for method in ("fork", "spawn", "forkserver"):
        process = multiprocessing.get_context(method).Process(target=work.work, args=(sys.argv[1], method))
        process.start()
        process.join()
        assert process.exitcode == 0
    child = os.fork()
    if not child:
        work.work(sys.argv[1], "forked")
        sys.exit()
    os.waitpid(child, 0)
"""


class TestProcesses:
    def test_at_once(self, child, root):
        """24 processes that write at the same moment, five times each, lose nothing.

        One that ends by `os._exit` while its other thread writes may leave a temporary file, which is no record.
        """
        ends, totals, missed, processes, uses, left = child.json(WRITERS, str(root))
        assert set(ends) == {0}
        counts = [totals["generator"]["hits"], totals["binary"]["misses"], missed, *uses]
        assert counts == [120] * 4
        # A process saves once, and has one record.
        assert (totals["generator"]["saved"], processes) == (24, 24)
        assert len(left) == 24, left

    def test_children(self, child, root):
        """Forked, spawned and plain children write what they did themselves, once; so does their parent."""
        (child.directory / "work.py").write_text(WORK)
        child.output("-c", CHILDREN, str(root))
        rows = journal.count_by_day().items()
        found = {kernel: row["hits"] for (_day, _layer, kernel), row in rows}
        assert found == dict.fromkeys(("parent", "fork", "spawn", "forkserver", "forked"), 1)


def ran(name, began, ended, driver="driver.py", folder="/a"):
    record = records.describe_process() | {
        "name": name,
        "driver": driver,
        "program": f"{folder}/{driver}",
        "began": began,
        "ended": ended,
        "tallies": [["binary", "axpy", *[1] * len(records.COUNTERS)]],
    }
    text = json.dumps(record, separators=(",", ":")).encode()
    records.open_store().put(address(hashlib.sha256(name.encode()).hexdigest(), label="run"), text)


def last(driver=None):
    return [record["name"] for record in journal.last_run(driver)]


class TestLast:
    def test_at_once(self):
        """Processes of a file that were alive at the same time are one run, in a chain too; others are not."""
        for name, began, ended in (("a", 1, 4), ("b", 3, 6), ("c", 5, 8), ("old", 0, 0.5)):
            ran(name, began, ended)
        assert last() == ["c", "b", "a"]
        ran("x", 15, 16, "other.py")
        assert last("driver.py") == last("/a/driver.py") == ["c", "b", "a"]
        assert last("third.py") == last("/b/driver.py") == []

    def test_of_one_name(self, monkeypatch):
        """Two programs of one name are two runs; a path, also below the working directory, chooses one of them."""
        ran("a", 1, 4)
        ran("b", 2, 5, folder="/b")
        assert last("driver.py") == last() == ["b"]
        monkeypatch.setattr("os.getcwd", lambda: "/")
        assert last("a/driver.py") == ["a"]

    def test_remarks(self):
        events.emit(HIT)
        for said in ("asked: 1", "asked: 2"):
            records.write([said])
            (found,) = journal.last_run()
            assert found["remarks"] == [said]

    def test_of_a_hit(self, monkeypatch):
        monkeypatch.setattr("__main__.__file__", "/somewhere/driver.py", raising=False)
        monkeypatch.setattr("__main__.__spec__", None)
        end(HIT._replace(seconds=0.5), entries=[KEY.digest])
        (found,) = journal.last_run("driver.py")
        assert found["driver"] == "driver.py"
        assert found["ended"] - found["began"] >= 0.5
        assert journal.tallies(found)["generator", "axpy"]["hits"] == 1
        assert found["uses"][KEY.digest[: journal.DIGITS]][2:] == [0.5, 2.0]
