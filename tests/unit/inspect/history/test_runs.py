"""kcl.inspect.history.runs: which processes make one run, and what is kept of them."""

from __future__ import annotations

import json

import pytest

from kcl.base import events
from kcl.cache.key import Key
from kcl.inspect.history import journal, records, runs
from kcl.inspect.history.runs import EntryUse, RunRecord

ROW = dict.fromkeys(records.COUNTERS, 1)


def ran(name, began, ended, driver="driver.py", uses=None):
    """Return a process with one look-up."""
    return RunRecord(name, driver, int(began), began, ended, {("binary", "axpy"): ROW}, uses or {})


class TestLast:
    def test_alone(self):
        """A process that ended before the last one began is another run."""
        assert [one.name for one in runs.last([ran("a", 1, 2), ran("b", 3, 4)])] == ["b"]

    def test_at_once(self):
        """Processes of a file that were alive at the same time are one run, in a chain too; others are not."""
        found = [ran("a", 1, 4), ran("b", 3, 6), ran("c", 5, 8), ran("x", 5, 6, "other.py"), ran("old", 0, 0.5)]
        assert [one.name for one in runs.last(found)] == ["c", "b", "a"]

    def test_of_a_driver(self):
        """The last run of a driver is found where another one ran later; none where it never ran."""
        found = [ran("a", 1, 2), ran("x", 3, 4, "other.py")]
        assert [one.name for one in runs.last(found, "driver.py")] == ["a"]
        assert runs.last(found, "third.py") == []

    def test_several_records(self):
        """What one process wrote in several records is added up."""
        one, two = (
            ran("a", 1, 2, uses={"d": EntryUse(1, 2.0, 0.5, 3.0)}),
            ran("a", 8, 9, uses={"d": EntryUse(2, 9.0, 1.0, 4.0)}),
        )
        (whole,) = runs.last([one, two])
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


class TestKept:
    def test_of_each_driver(self):
        """The last run of each driver is kept, older ones are not."""
        found = [ran("a", 1, 2), ran("b", 3, 4), ran("x", 1, 2, "other.py")]
        assert {one.name for one in runs.kept(found)} == {"b", "x"}

    def test_bound(self):
        """Of very many drivers those that ran last are kept; of very many entries the newest run at least."""
        assert len(runs.kept([ran(str(number), number, number + 0.5, f"{number}.py") for number in range(99)])) == 32
        many = {str(number): EntryUse(1, 1.0) for number in range(20_001)}
        assert [one.name for one in runs.kept([ran("a", 1, 2, "a.py"), ran("b", 3, 4, "b.py", many)])] == ["b"]

    def test_packed(self):
        """A process comes back from JSON as it was."""
        one = ran("a", 1.5, 2.5, uses={"d": EntryUse(1, 2.0, 0.5, 3.0)})
        assert runs.unpacked(json.loads(json.dumps(runs.packed(one))), {}, {}) == one


@pytest.fixture
def hit():
    """A hit of this process, 0.5 s long, that saved two."""
    key = Key([("source", "1")])
    events.emit(events.Event("binary", "axpy", key.digest, "hit", "", 0.5, 10, 2.0), key, [key.digest])
    return key.digest


class TestJournal:
    def test_folded(self, hit, monkeypatch):
        """A fold keeps what the last run did: driver, counters, and what each hit took and saved."""
        monkeypatch.setattr("sys.argv", ["/somewhere/driver.py"])
        journal.flush()
        (before,) = journal.last_run()
        assert before.driver == "driver.py"
        assert before.ended - before.began >= 0.5
        assert before.uses[hit[: journal.DIGITS]][2:] == (0.5, 2.0)
        journal.fold()
        (after,) = journal.last_run("driver.py")
        assert after == before
        journal.fold()
        assert journal.last_run("driver.py") == [before]

    def test_of_an_earlier_kcl(self, hit):
        """A record without runs, of an earlier kcl, is read, and tells of none."""
        records.put(records.store(), {}, {}, {hit[: journal.DIGITS]: (1, 2.0)}, [], [])
        assert journal.uses()[hit[: journal.DIGITS]] == EntryUse(1, 2.0)
        assert journal.last_run() == []
