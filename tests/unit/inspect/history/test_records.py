"""kcl.inspect.history.records: what a process has to say when it ends."""

from __future__ import annotations

from kcl.base import events
from kcl.base.events import Event
from kcl.inspect.history import journal, records

HIT = Event("binary", "add", "a" * 64, "hit", "", 0.25, 10, 2.0)


def test_nothing_asked():
    """A process that looked nothing up writes nothing."""
    assert records.write() is False
    assert list(records.store().scan()) == []


def test_written():
    """A record has the counters, which the journal reads."""
    events.emit(HIT)
    records.write()
    assert len(list(records.store().scan())) == 1
    assert journal.totals()["binary"]["hits"] == 1


def test_all_off():
    """A process whose layers are all off writes nothing."""
    events.emit(HIT._replace(outcome="bypass", reason="off: KCL_NO_CACHE=1"))
    records.write()
    assert list(records.store().scan()) == []


def test_no_two_alike():
    """Two processes that say the same leave two records."""
    for _ in range(2):
        events.emit(HIT)
        records.write()
    assert len(list(records.store().scan())) == 2
    assert journal.totals()["binary"]["hits"] == 2


def test_merge():
    """Counters of one name are added; what is given stays as it is."""
    row = dict.fromkeys(records.COUNTERS, 1.0)
    found = records.merged([{"binary": row}, {"binary": row, "generator": row}])
    assert found["binary"]["hits"] == 2.0
    assert found["generator"] == row == dict.fromkeys(records.COUNTERS, 1.0)
