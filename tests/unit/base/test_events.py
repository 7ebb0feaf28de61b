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
        assert counted == {
            "generator": {
                "hits": 1,
                "misses": 1,
                "defaults": 0,
                "bypassed": 1,
                "errors": 1,
                "seconds": 1.0,
                "saved": 2.0,
                "bytes": 400,
            },
            "binary": {
                "hits": 1,
                "misses": 0,
                "defaults": 0,
                "bypassed": 0,
                "errors": 0,
                "seconds": 0.25,
                "saved": 0.5,
                "bytes": 7,
            },
            "made": {},
        }

    def test_made(self):
        """A question that only loopy could answer is counted with the line that asked."""
        for _ in range(2):
            events.count_question("entrypoints of split_iname", "driver.py:7")
        assert kcl.stats()["made"] == {"entrypoints of split_iname (driver.py:7)": 2}

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

    def test_copy(self):
        """What stats returns is the caller's own."""
        kcl.stats()["binary"]["hits"] = 99
        assert kcl.stats()["binary"]["hits"] == 0

    def test_counts_from_now_on(self):
        """`stats(reset=True)` returns the counters and begins anew; the report still has the sum, and hooks stay."""
        seen = []
        kcl.add_hook(seen.append)
        events.emit(event())
        events.count_question("entrypoints of split_iname", "driver.py:7")
        found = kcl.stats(reset=True)
        assert (found["generator"]["hits"], len(found["made"])) == (1, 1)
        assert kcl.stats() == events.count([]) | {"made": {}}
        for number in (1, 2):
            events.emit(event(outcome="miss"))
            counted = kcl.stats()
            assert (counted["generator"]["hits"], counted["generator"]["misses"]) == (0, number)
            assert counted["generator"]["seconds"] == 0.25 * number
        total = events.total()["generator"]
        assert (total["hits"], total["misses"]) == (1, 2)
        assert events.collected().tallies["generator", "axpy"] == total
        assert len(seen) == 3

    def test_counted(self):
        """Any events can be counted."""
        found = events.count([event(), event(layer="binary", outcome="error")])
        assert found["generator"]["hits"] == found["binary"]["errors"] == 1
        assert found["binary"]["bytes"] == 100


class TestHooks:
    def test_removed(self):
        """A hook sees every Event until the function that add_hook gave is called; calling it twice is no error."""
        seen = []
        remove = kcl.add_hook(seen.append)
        events.emit(event())
        remove()
        remove()
        events.emit(event())
        assert seen == [event()]

    def test_failing_hook(self, caplog):
        """A hook that raises is logged; the others and the count go on."""
        seen = []

        def broken(_event):
            raise RuntimeError("no")

        kcl.add_hook(broken)
        kcl.add_hook(seen.append)
        with caplog.at_level(logging.ERROR, logger="kcl"):
            events.emit(event())
        assert seen == [event()]
        assert "hook" in caplog.text

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
    def test_interrupts_pass(self, error):
        """The wish to end the program passes a hook."""

        def stop(_event):
            raise error

        kcl.add_hook(stop)
        with pytest.raises(error):
            events.emit(event())

    def test_logged(self, caplog):
        """The logger `kcl` tells of each look-up at level DEBUG."""
        with caplog.at_level(logging.DEBUG, logger="kcl"):
            events.emit(event(outcome="miss", reason="not in the cache"))
        assert "generator miss of axpy: not in the cache" in caplog.text


def test_remarks():
    """Remarks on a run are kept once each, as far as their number is bounded; a new collection has none."""
    for number in (1, 1, *range(100)):
        events.remark(f"remark {number}")
    assert events.remarks()[:2] == ["remark 1", "remark 0"]
    assert len(events.remarks()) == 64
    events.forget()
    assert events.remarks() == []
