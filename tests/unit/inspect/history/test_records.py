"""kcl.inspect.history.records: what a process has to say when it ends."""

from kcl.base import events
from kcl.base.events import Event
from kcl.inspect.history import journal, records

HIT = Event("binary", "add", "a" * 64, "hit", "", 0.25, 10, 2.0)


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
