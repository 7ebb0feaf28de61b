"""kcl.base.events: one Event per look-up, hooks, counters."""

import logging

import pytest

import kcl
from kcl.base import events
from kcl.base.events import Event
from kcl.cache.key import Key


def event(**changes):
    """Return an Event of a hit, with changes."""
    return Event("generator", "axpy", "ab" * 32, "hit", "", 0.25, 100, 0.5)._replace(**changes)


class TestStats:
    def test_counts(self):
        """Each outcome has a counter in each layer; seconds and bytes add up."""
        for outcome in ("hit", "miss", "bypass", "error"):
            events.emit(event(outcome=outcome))
        events.emit(event(layer="binary", bytes=7))
        events.emit(event(layer="tuning", outcome="default", bytes=0))
        counted = kcl.stats()
        assert counted.pop("tuning")["defaults"] == 1
        assert "default" not in {noted.event.outcome for noted in events.collected().noted}
        one = dict.fromkeys(("hits", "misses", "bypassed", "errors"), 1)
        none = dict.fromkeys((*one, "defaults"), 0)
        assert counted == {
            "generator": none | one | {"seconds": 1.0, "saved": 2.0, "bytes": 400},
            "binary": none | {"hits": 1, "seconds": 0.25, "saved": 0.5, "bytes": 7},
            "made": {},
        }

    def test_taken_between(self):
        """What is handed over while a look-up is counted, as by a signal handler, takes nothing of it."""

        def digests():
            yield "a"
            events.forget()
            yield "b"

        events.emit(event(), entries=digests())
        assert events.collected().uses.keys() == {"a", "b"}

    def test_saved_once(self):
        """An entry saves once in a process; one that was made in it saves nothing."""
        key, miss = Key([("number", "1")]), event(outcome="miss", saved=0.0)
        pairs = ((event(), ["a"]), (event(), ["a"]), (miss, []), (event(), [key.digest]))
        saved = [events.emit(look, key, entries).saved for look, entries in pairs]
        assert saved == [0.5, 0.0, 0.0, 0.0]
        assert kcl.stats()["generator"]["saved"] == 0.5

    def test_what_stats_returns_is_the_callers_own(self):
        kcl.stats()["binary"]["hits"] = 99
        assert kcl.stats()["binary"]["hits"] == 0

    def test_counts_from_now_on(self):
        """`stats(reset=True)` returns the counters and begins anew; the report still has the sum, and hooks stay."""
        seen = []
        kcl.add_hook(seen.append)
        events.emit(event())
        for _ in range(2):
            events.count_question("entrypoints of split_iname", "driver.py:7")
        found = kcl.stats(reset=True)
        assert found["generator"]["hits"] == 1
        assert found["made"] == {"entrypoints of split_iname (driver.py:7)": 2}
        assert kcl.stats() == events.count([]) | {"made": {}}
        events.emit(event(outcome="miss"))
        counted = kcl.stats()["generator"]
        assert (counted["hits"], counted["misses"], counted["seconds"]) == (0, 1, 0.25)
        total = events.total()["generator"]
        assert (total["hits"], total["misses"]) == (1, 1)
        assert events.collected().tallies["generator", "axpy"] == total
        assert len(seen) == 2


class TestHooks:
    def test_removed(self):
        """A hook sees every Event until the function that add_hook gave is called; calling it twice is no error."""
        seen = []
        remove = kcl.add_hook(seen.append)
        for _ in range(2):
            events.emit(event())
            remove()
        assert seen == [event()]

    def test_failing_hook(self, caplog):
        """A hook that raises is logged; the others and the count go on. Each look-up is logged at level DEBUG."""
        seen = []
        kcl.add_hook(lambda _event: 1 // 0)
        kcl.add_hook(seen.append)
        with caplog.at_level(logging.DEBUG, logger="kcl"):
            events.emit(event(outcome="miss", reason="not in the cache"))
        assert len(seen) == kcl.stats()["generator"]["misses"] == 1
        assert [one.levelname for one in caplog.records if "hook" in one.getMessage()] == ["ERROR"]
        assert "generator miss of axpy: not in the cache" in caplog.text

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
    def test_the_wish_to_end_the_program_passes_a_hook(self, error):

        def stop(_event):
            raise error

        kcl.add_hook(stop)
        with pytest.raises(error):
            events.emit(event())


def test_remarks():
    """Remarks on a run are kept once each, as far as their number is bounded; a new collection has none."""
    for number in (1, 1, *range(100)):
        events.remark(f"remark {number}")
    assert events.remarks()[:2] == ["remark 1", "remark 0"]
    assert len(events.remarks()) == 64
    events.forget()
    assert events.remarks() == []
