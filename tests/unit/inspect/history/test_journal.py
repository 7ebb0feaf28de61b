"""kcl.inspect.history.journal: statistics and misses that outlive a process, written by many at once."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import signal
import time

import pytest

from kcl import option
from kcl.base import events
from kcl.base.events import Event
from kcl.cache.key import Key, Part
from kcl.cache.stores.base import address
from kcl.caches.late_switches import LateSwitch
from kcl.inspect.history import journal, records
from kcl.inspect.history.journal import EntryUse, RunRecord

KEY = Key([Part("recipe", "axpy"), Part("argument x", "<f4")])
MISS = Event("binary", "axpy", KEY.digest, "miss", "not in the cache", 0.5, 100)
HIT = Event("generator", "axpy", KEY.digest, "hit", "", 0.25, 10, 2.0)


@pytest.fixture(autouse=True)
def root(tmp_path):
    """A cache directory of its own."""
    option.cache_dir(tmp_path / "root")
    return tmp_path / "root"


def end(*emitted, key=KEY, entries=()):
    """Do what a process does that emits events and ends."""
    for event in emitted:
        events.emit(event, key, entries if event.outcome == "hit" else ())
    if records.write():
        journal.fold()


def names(root: pathlib.Path) -> list[str]:
    """Return the names of all records."""
    return sorted(name for name in os.listdir(root / "kcl" / "journal") if name != "lock")


class TestKept:
    def test_totals(self):
        """The counters of all processes add up by layer."""
        end(HIT, MISS)
        end(HIT)
        found = journal.totals()
        assert found["generator"] == {
            **dict.fromkeys(journal.COUNTERS, 0),
            "hits": 2,
            "seconds": 0.5,
            "saved": 4.0,
            "bytes": 20,
        }
        assert (found["binary"]["misses"], found["binary"]["hits"]) == (1, 0)

    def test_rows(self):
        """They also add up by day, layer and kernel."""
        end(HIT, HIT._replace(kernel="sum"))
        end(HIT)
        today = time.strftime("%Y-%m-%d")
        assert {place: row["hits"] for place, row in journal.rows().items()} == {
            (today, "generator", "axpy"): 2,
            (today, "generator", "sum"): 1,
        }

    def test_uses(self):
        """Each entry has its number of hits and the time of the last."""
        end(HIT, entries=[KEY.digest])
        before = time.time()
        end(HIT, HIT, entries=[KEY.digest, "ff" * 32])
        found = journal.uses()
        assert found[KEY.digest[: journal.DIGITS]].uses == 3
        assert found["ff" * (journal.DIGITS // 2)].uses == 2
        assert before <= found[KEY.digest[: journal.DIGITS]].last <= time.time()

    def test_misses(self):
        """What was no hit is kept with the parts of its key, its reason, the run and the driver; hits are not."""
        end(MISS, HIT)
        end(MISS._replace(outcome="bypass", key="", reason="draws random numbers"), key=None)
        miss, bypass = journal.last_misses()
        assert miss.key == KEY
        assert (miss.layer, miss.kernel, miss.outcome, miss.reason) == ("binary", "axpy", "miss", "not in the cache")
        assert bypass.key is None
        assert miss.process == bypass.process
        assert (miss.pid, os.sep in miss.driver, bool(miss.driver)) == (os.getpid(), False, True)

    def test_of_this_process(self):
        """What this process missed is told before it is written, and not twice afterwards."""
        events.emit(MISS, KEY)
        assert [missed.key for missed in journal.last_misses()] == [KEY]
        records.write()
        assert [missed.key for missed in journal.last_misses()] == [KEY]

    def test_private(self, root):
        """Directory and files are the user's alone."""
        end(HIT)
        (name,) = names(root)
        assert (root / "kcl" / "journal").stat().st_mode & 0o777 == 0o700
        assert (root / "kcl" / "journal" / name).stat().st_mode & 0o777 == 0o600

    def test_reset(self, root):
        """A reset forgets everything, also what was not written yet."""
        end(HIT, MISS)
        events.emit(HIT)
        journal.reset()
        assert journal.totals() == journal.uses() == {}
        assert (journal.last_misses(), journal.rows()) == ([], {})
        records.write()
        assert names(root) == []


class TestTexts:
    """What explains a miss that stored nothing is kept with it."""

    TEXTS = {"record.json": b'{"calls": []}', "reached.json": b"{}"}  # noqa: RUF012

    def test_kept(self, root):
        """It is there in this process, in later ones, and after records were folded."""
        events.emit(MISS, KEY, texts=self.TEXTS)
        assert [missed.texts for missed in journal.last_misses()] == [self.TEXTS]
        end(MISS)
        for _ in range(2):
            assert [missed.texts for missed in journal.last_misses()] == [self.TEXTS, {}]
            journal.fold()
        assert len(names(root)) == 1

    def test_room(self, monkeypatch):
        """A process keeps it once a key and within bounds; of many processes the last are kept."""
        monkeypatch.setattr(events, "TEXTS", 20)
        keys = [Key([Part("recipe", str(number))]) for number in range(3)]
        for key in (keys[0], keys[0], keys[1]):
            events.emit(MISS, key, texts={"record.json": b"x" * 15, "reached.json": b"y" * 10})
        found = [dict(missed.texts) for missed in journal.last_misses()]
        assert found == [{"record.json": b"x" * 15}, {}, {}]
        end()
        events.emit(MISS, keys[2], texts={"record.json": b"z" * 15})
        end()
        journal.fold()
        assert [bool(missed.texts) for missed in journal.last_misses()] == [False, False, False, True]


class TestNothing:
    def test_no_look_up(self, root):
        """A process without look-ups writes nothing, and reading makes nothing."""
        records.write()
        assert journal.totals() == {}
        assert journal.rows() == {}
        journal.reset()
        assert not root.exists()

    def test_all_off(self, root):
        """Where every layer that was asked is off, nothing is written."""
        off = MISS._replace(outcome="bypass", reason="off: KCL_NO_CACHE=1")
        end(off, off._replace(layer="generator"), key=None)
        assert not root.exists()

    def test_one_off(self):
        """A layer that is off is counted where the other one is on."""
        end(MISS._replace(outcome="bypass", reason="off: KCL_NO_CACHE=binary"), HIT)
        assert journal.totals()["binary"]["bypassed"] == 1


class TestLate:
    LATE = LateSwitch("pocl", "POCL_CACHE_DIR", "/x", "words", True)

    def left(self, *values, past=0.0):
        """Leave late switches with these values, so many seconds ago."""
        noted = [[time.time() - past, "driver.py", *self.LATE._replace(value=value)] for value in values]
        records.put(records.store(), late=noted)

    def test_once(self):
        """What is found again is told once, with the time of the last; folding keeps it."""
        for value, past in (("/x", 90.0), ("/y", 0.0), ("/x", 60.0)):
            self.left(value, past=past)
        for _ in range(2):
            found = journal.late()
            assert [note.late.value for note in found] == ["/y", "/x"]
            assert found[1].late == self.LATE
            assert found[1].driver == "driver.py"
            assert abs(found[1].time - time.time() + 60.0) < 30
            journal.fold()

    def test_of_a_process(self):
        """A process leaves its late switches, also where its look-ups stand in an earlier record of it."""
        events.emit(HIT)
        records.write()
        assert journal.late() == []
        records.write((), [self.LATE])
        assert [note.late for note in journal.late()] == [self.LATE]

    def test_of_a_layer_that_is_off(self):
        """A process whose look-ups were all switched off leaves nothing."""
        events.emit(events.Event("binary", "axpy", "", "bypass", "off: KCL_NO_CACHE=1", 0.0, 0))
        records.write((), [self.LATE])
        assert journal.late() == []

    def test_unusable(self):
        """Where nothing can be written or read nothing is raised."""
        option.cache_dir("/proc/nowhere")
        events.emit(HIT)
        records.write((), [self.LATE])
        assert journal.late() == []

    def test_old(self):
        """A switch of more than a week ago is forgotten, and does not outlive a fold."""
        self.left("/x", past=journal.AGE + 60)
        assert journal.late() == []
        journal.fold()
        assert b"words" not in b"".join(records.store().get(place) for place in records.store().scan())

    def test_bounded(self):
        """The number of late switches is bounded; the newest stay."""
        for number in range(80):
            self.left(str(number), past=100.0 - number)
        assert [note.late.value for note in journal.late()] == [str(number) for number in reversed(range(16, 80))]


class TestFolding:
    def test_bounded(self, root):
        """Many records become one, with the same contents."""
        for number in range(records.MANY + 5):
            end(HIT, MISS._replace(kernel=f"kernel {number}"), entries=[KEY.digest])
        assert len(names(root)) < journal.MANY_READ
        assert journal.totals()["generator"]["hits"] == records.MANY + 5
        assert journal.uses()[KEY.digest[: journal.DIGITS]].uses == records.MANY + 5
        assert len(journal.last_misses()) == records.MANY + 5

    def test_death_of_who_folds(self, root):
        """What was folded and not yet removed does not count twice, now or after the next folding."""
        for _ in range(journal.MANY_READ + 1):
            end(HIT)
        folder = root / "kcl" / "journal"
        before = {name: (folder / name).read_bytes() for name in names(root)}
        assert journal.totals()["generator"]["hits"] == journal.MANY_READ + 1  # reading folds
        assert len(names(root)) == 1
        for name, content in before.items():
            path = folder / name
            path.touch(0o600)
            path.write_bytes(content)
        assert journal.totals()["generator"]["hits"] == journal.MANY_READ + 1
        for _ in range(2 * journal.MANY_READ):
            end(HIT)
        journal.rows()
        assert len(names(root)) == 1
        assert journal.totals()["generator"]["hits"] == 3 * journal.MANY_READ + 1

    def test_months(self):
        """Where there are very many rows the days become months, then the kernels become one."""
        for number in range(10):
            for place in range(1200):
                events.emit(HIT._replace(kernel=f"kernel {number} {place}"))
            records.write()
        end(*[HIT] * (journal.MANY_READ + 1))
        for _ in range(journal.MANY_READ):
            end(HIT)
        journal.rows()
        found = journal.rows()
        assert len(found) <= 10_001
        assert sum(row["hits"] for row in found.values()) == 12_000 + 2 * journal.MANY_READ + 1

    def test_many_names(self):
        """A process that makes names without end keeps a bounded number of them, and counts all."""
        for number in range(events._PLACES + 10):
            events.emit(HIT._replace(kernel=f"kernel {number}"))
        records.write()
        found = journal.rows()
        assert len(found) == events._PLACES + 1
        assert [row["hits"] for (_day, _layer, kernel), row in found.items() if kernel == events.OTHERS] == [10]


class TestFaults:
    @pytest.mark.parametrize("content", [b"", b"garbage", b"\xff" * 100, b"{}\n[]\n{}\n{}"])
    def test_damaged(self, root, content):
        """A record that is damaged, or planted under another name, counts for nothing and harms nothing."""
        end(HIT)
        (name,) = names(root)
        (root / "kcl" / "journal" / name).write_bytes(content)
        end(HIT)
        assert journal.totals()["generator"]["hits"] == 1
        assert len(journal.rows()) == 1

    def test_damaged_are_swept(self, root):
        """Damaged records go when records are folded, as others can write them too; those of a later kcl stay."""
        end(HIT)
        folder = root / "kcl" / "journal"
        later = json.dumps({"format": records.FORMAT + 1, "sources": []}, separators=(",", ":")).encode()
        for number in range(records.MANY):
            (folder / f"run-{number:064x}").write_bytes(b"garbage")
        (folder / f"run-{hashlib.sha256(later).hexdigest()}").write_bytes(later)
        for path in folder.iterdir():
            path.chmod(0o600)
        (folder / f"run-{0:064x}").chmod(0o666)
        end(HIT)
        assert len(names(root)) == 2
        assert journal.totals()["generator"]["hits"] == 2

    def test_link(self, root, tmp_path):
        """A link in a record's place is not followed."""
        end(HIT)
        (name,) = names(root)
        path = root / "kcl" / "journal" / name
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
        assert journal.totals() == {}

    def test_loose_directory(self, root, recwarn):
        """A directory that others can write is not used; the run goes on, and nothing is raised."""
        end(HIT)
        (root / "kcl").chmod(0o777)
        end(HIT)
        assert journal.totals() == {}
        (root / "kcl").chmod(0o700)
        assert journal.totals()["generator"]["hits"] == 1
        assert not recwarn.list

    def test_file_in_the_way(self, root):
        """Where there can be no directory nothing is kept, and nothing is raised."""
        root.mkdir(mode=0o700)
        (root / "kcl").write_bytes(b"")
        end(HIT)
        assert journal.totals() == {}
        assert (journal.last_misses(), journal.rows()) == ([], {})


WRITERS = """
import json, os, sys
from kcl import option
from kcl.base import events
from kcl.inspect.history import journal, records
from kcl.base.events import Event
from kcl.cache.key import Key
option.cache_dir(sys.argv[1])
gate, start = os.pipe()
children = []
for number in range(64):
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
print(json.dumps([ends, journal.totals(), len(missed), len({one.process for one in missed}),
    [used.uses for used in journal.uses().values()], len(os.listdir(os.path.join(sys.argv[1], "kcl", "journal")))]))
"""


class TestProcesses:
    def test_64_at_once(self, child, root):
        """64 processes that write at the same moment, five times each and folding meanwhile, lose nothing."""
        ends, totals, missed, processes, uses, left = child.json(WRITERS, str(root))
        assert set(ends) == {0}
        assert (totals["generator"]["hits"], totals["binary"]["misses"], missed, uses) == (320, 320, 320, [320])
        assert totals["generator"]["saved"] == 320.0
        assert processes == 64
        assert left < 320

    def test_killed(self, child, root):
        """A process that is killed loses its own record, and leaves nothing in the way of the others."""
        code = """
            import os, signal, sys
            from kcl import option
            from kcl.base import events
            from kcl.inspect.history import journal, records
            option.cache_dir(sys.argv[1])
            events.emit(events.Event("generator", "axpy", "", "hit", "", 0.5, 1))
            records.write()
            events.emit(events.Event("generator", "axpy", "", "hit", "", 0.5, 1))
            os.kill(os.getpid(), signal.SIGKILL)
        """
        assert child.run(code, str(root)).returncode == -signal.SIGKILL
        assert journal.totals()["generator"]["hits"] == 1
        end(HIT)
        assert journal.totals()["generator"]["hits"] == 2

    def test_children(self, child, root):
        """Forked, spawned and plain children write what they did themselves, once; so does their parent."""
        (child.directory / "work.py").write_text(
            "import kcl\n"
            "from kcl import option\nfrom kcl.base import events\n"
            "def work(root, name):\n"
            "    option.cache_dir(root)\n"
            "    events.emit(events.Event('generator', name, '', 'hit', '', 0.5, 1))\n"
        )
        code = """
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
        done = child.run(code, str(root))
        assert done.returncode == 0, done.stderr
        found = {kernel: row["hits"] for (_day, _layer, kernel), row in journal.rows().items()}
        assert found == dict.fromkeys(("parent", "fork", "spawn", "forkserver", "forked"), 1)


@pytest.mark.one_platform
class TestRuns:
    def test_saved(self, filled):
        """Of a cold and a warm run every look-up is there, and the hits saved what their entries say they cost."""
        option.cache_dir(filled.project.child.cache)
        found = journal.totals()
        for layer in ("generator", "binary"):
            runs = filled.cold.said["stats"][layer], filled.second.said["stats"][layer]
            for name in ("hits", "misses", "bypassed", "errors", "bytes"):
                assert found[layer][name] == sum(run[name] for run in runs), (layer, name)
            assert found[layer]["saved"] == pytest.approx(runs[1]["saved"])
            assert found[layer]["saved"] > 0
        missed = journal.last_misses()
        assert {one.driver for one in missed} == {"driver.py"}
        assert all(one.key is not None for one in missed)


def test_json(root):
    """A record is one line of JSON."""
    end(HIT, MISS)
    (name,) = names(root)
    (line,) = (root / "kcl" / "journal" / name).read_text().splitlines()
    assert json.loads(line)["days"]


class TestOtherFormat:
    def test_earlier(self, root):
        """A record of an earlier kcl counts for nothing, and stays."""
        end(HIT)
        blob = b'{"format":1,"sources":[],"totals":{}}\n[]'
        records.store().put(address(hashlib.sha256(blob).hexdigest(), label="run"), blob)
        assert journal.totals()["generator"]["hits"] == 1
        journal.fold()
        assert len(names(root)) == 2


ROW = dict.fromkeys(records.COUNTERS, 1)


def ran(name, began, ended, driver="driver.py", uses=None):
    """Return a process with one look-up."""
    return RunRecord(name, driver, int(began), began, ended, (), {}, {("binary", "axpy"): ROW}, uses or {})


class TestLast:
    def test_alone(self):
        """A process that ended before the last one began is another run."""
        assert [one.name for one in journal.last([ran("a", 1, 2), ran("b", 3, 4)])] == ["b"]

    def test_at_once(self):
        """Processes of a file that were alive at the same time are one run, in a chain too; others are not."""
        found = [ran("a", 1, 4), ran("b", 3, 6), ran("c", 5, 8), ran("x", 5, 6, "other.py"), ran("old", 0, 0.5)]
        assert [one.name for one in journal.last(found)] == ["c", "b", "a"]

    def test_of_a_driver(self):
        """The last run of a driver is found where another one ran later; none where it never ran."""
        found = [ran("a", 1, 2), ran("x", 3, 4, "other.py")]
        assert [one.name for one in journal.last(found, "driver.py")] == ["a"]
        assert journal.last(found, "third.py") == []

    def test_several_records(self):
        """What one process wrote in several records is added up."""
        one, two = (
            ran("a", 1, 2, uses={"d": EntryUse(1, 2.0, 0.5, 3.0)}),
            ran("a", 8, 9, uses={"d": EntryUse(2, 9.0, 1.0, 4.0)}),
        )
        (whole,) = journal.last([one, two])
        assert (whole.began, whole.ended) == (1, 9)
        assert whole.tallies["binary", "axpy"]["hits"] == 2
        assert whole.uses == {"d": EntryUse(3, 9.0, 1.5, 7.0)}

    def test_remarks(self):
        """A process says last what it says when it ends; records that are folded keep it."""
        for said in ("asked: 1", "asked: 2"):
            events.emit(events.Event("binary", "axpy", "", "hit", "", 0.0, 1))
            records.write([said])
            journal.fold()
            (found,) = journal.last_run()
            assert found.remarks == [said]


class TestKeptRuns:
    def test_of_each_driver(self):
        """The last run of each driver is kept, older ones are not."""
        found = [ran("a", 1, 2), ran("b", 3, 4), ran("x", 1, 2, "other.py")]
        assert {one.name for one in journal.kept(found)} == {"b", "x"}

    def test_bound(self):
        """Of very many drivers those that ran last are kept."""
        assert len(journal.kept([ran(str(number), number, number + 0.5, f"{number}.py") for number in range(99)])) == 32


@pytest.fixture
def hit():
    """A hit of this process, 0.5 s long, that saved two."""
    key = Key([("source", "1")])
    events.emit(events.Event("binary", "axpy", key.digest, "hit", "", 0.5, 10, 2.0), key, [key.digest])
    return key.digest


class TestLastRun:
    def test_folded(self, hit, monkeypatch):
        """A fold keeps what the last run did: driver, counters, and what each hit took and saved."""
        monkeypatch.setattr("sys.argv", ["/somewhere/driver.py"])
        records.write()
        (before,) = journal.last_run()
        assert before.driver == "driver.py"
        assert before.ended - before.began >= 0.5
        assert before.uses[hit[: journal.DIGITS]][2:] == (0.5, 2.0)
        journal.fold()
        (after,) = journal.last_run("driver.py")
        assert after == before
        journal.fold()
        assert journal.last_run("driver.py") == [before]
