"""kcl.cache.lookup: one look-up, whatever the stage: what is found, made, set aside, published, counted and emitted."""

import os
import threading
import time

import pytest
from at_once import at_once

from kcl.base import events, process
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.faults import CacheWarning
from kcl.cache.key import Key, Part
from kcl.cache.lead import Lead
from kcl.cache.lookup import Look, Stage, find, obtain
from kcl.cache.stores.directory import Directory
from kcl.errors import CacheMiss, SettingError, UnknownInput
from kcl.launch import MissingArguments


def place_of(name):
    """Return the address and the key of one number."""
    key = Key([Part("number", name)])
    return key.digest, key


class Numbers(Stage):
    """A stage whose values are numbers; a job is the name of one, or of several that are one program's."""

    verb = "counted"
    unusable = "no number"

    def __init__(self):
        self.made = []
        self.begun = []
        self.promised = False

    layer = property(lambda _self: layers.layer("numbers"))

    def name(self, job):
        return job

    def begin(self, job):
        self.begun.append(job)

    def lead_digest(self, job, _look):
        return place_of(job)[0]

    def search(self, job):
        if job == "unknown":
            raise UnknownInput("nobody knows")
        if job == "raising":
            raise LookupError("mine")
        places, entries = [place_of(name) for name in job.split("+")], []
        outcome, reason = "hit", ""
        for place in places:
            found = yield place
            if found.entry is None:
                outcome, reason = found.outcome, found.reason
            else:
                entries.append(found.entry)
        if job == "strange" and entries:
            raise TypeError("an entry of another form")
        if job == "lacking":
            raise MissingArguments(["x"])
        there = {entry.key.digest for entry in entries} if outcome != "hit" else set()
        key = next(key for address, key in places if address not in there)
        found = {"slots": tuple(places), "entries": tuple(entries)}
        return Look(outcome, reason, key, **found, size=7, spared=5.0)

    def load(self, _job, look):
        return look._replace(value=[entry.metadata["value"] for entry in look.entries])

    def make(self, job, look):
        if job == "hopeless":
            raise ZeroDivisionError
        time.sleep(0.05)
        self.made.append(job)
        lacking = [(address, key) for address, key in look.slots if address not in look.digests]
        entries = [
            (address, Entry(key, {"kernel": job, "value": 2}, {})) for address, key in lacking
        ]
        value = [2] * max(len(look.slots), 1)
        return look._replace(value=value, publish=entries, promised=self.promised)


class Crowded(Numbers):
    """A stage that makes a number when two threads have missed it."""

    def __init__(self):
        super().__init__()
        self.missed = set()
        self.both = threading.Event()

    def search(self, job):
        look = yield from super().search(job)
        self.missed.add(threading.get_ident())
        if len(self.missed) == 2:
            self.both.set()
        return look

    def make(self, job, look):
        assert self.both.wait(30)
        return super().make(job, look)


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """A stage with a layer of its own."""
    row = layers.LayerRow(
        {}, ("kcl", "numbers"), lambda: str(tmp_path), lambda: [Directory(tmp_path / "numbers")]
    )
    monkeypatch.setitem(layers.TABLE, "numbers", row)
    return Numbers()


def got(stage, job):
    """Obtain a value."""
    with Lead("number") as lead:
        return obtain(stage, job, lead)


def outcomes(looks):
    """Return what the events say came out."""
    return [event.outcome for event in looks]


def put(stage, name, value):
    """Store a number."""
    address, key = place_of(name)
    stage.layer.publish(address, Entry(key, {"value": value}, {}))
    return address


class TestObtain:
    def test_miss_then_hit(self, stage, looks):
        """What is not there is made once, and found by the next cache of the same files."""
        assert got(stage, "two") == [2]
        layers.reset()
        assert got(stage, "two") == [2]
        assert stage.made == ["two"]
        assert outcomes(looks) == ["miss", "hit"]

    def test_event(self, stage, looks):
        """One event says layer, kernel, key, seconds, bytes, and by how much a hit was faster, once in a process."""
        got(stage, "two")
        process.reset()
        events.add_hook(looks.append)
        for _ in range(2):
            got(stage, "two")
        miss, hit, again = looks
        assert (miss.layer, miss.kernel, miss.key) == ("numbers", "two", place_of("two")[0])
        assert miss.seconds >= 0.05
        assert miss.bytes > 0
        assert miss.saved == 0.0
        assert hit.bytes == 7
        assert hit.saved == pytest.approx(5.0 - hit.seconds)
        assert (again.outcome, again.saved) == ("hit", 0.0)

    def test_saves_nothing(self, stage, looks, monkeypatch):
        """A hit that takes longer than the work that it spares saves nothing; it loses nothing either."""
        put(stage, "two", [2])
        monkeypatch.setattr("time.perf_counter", iter(range(0, 1000, 100)).__next__)
        got(stage, "two")
        assert (looks[-1].outcome, looks[-1].saved) == ("hit", 0.0)

    def test_bypass(self, stage, looks):
        """A job whose key cannot be known is made every time; the reason stands in the event."""
        assert [got(stage, "unknown") for _ in range(2)] == [[2], [2]]
        assert [event[3:5] for event in looks] == [("bypass", "nobody knows")] * 2

    def test_each_slot_counts(self, stage, looks):
        """Of two slots one of which is there, the miss is counted for the other; a hit uses both entries."""
        put(stage, "one", 2)
        for _ in range(2):
            assert got(stage, "one+two") == [2, 2]
        assert outcomes(looks) == ["miss", "hit"]
        assert looks[0].key == place_of("two")[0]
        assert events.collected().uses.keys() == {place_of(name)[0] for name in ("one", "two")}

    @pytest.mark.faults
    @pytest.mark.parametrize(
        ("job", "metadata", "reason"),
        [
            ("two", {}, "no number: 'value'"),
            ("strange", {"value": 1}, "no number: an entry of another form"),
        ],
    )
    def test_unusable_entry(self, stage, looks, job, metadata, reason):
        """Whatever search or load raise, once an entry was found, it is set aside and the value is made."""
        address, key = place_of(job)
        stage.layer.publish(address, Entry(key, metadata, {}))
        with pytest.warns(CacheWarning, match="number"):
            assert got(stage, job) == [2]
        assert (outcomes(looks), looks[0].reason) == (["error"], reason)
        if job == "two":
            assert got(stage, job) == [2]
            assert outcomes(looks) == ["error", "hit"]
        assert stage.made == [job]

    def test_a_call_that_lacks_an_argument_is_no_look_up(self, stage, looks):
        with pytest.raises(MissingArguments):
            got(stage, "lacking")
        assert looks == []

    @pytest.mark.parametrize("words", ["", "it divides by 0"])
    def test_making_fails(self, stage, looks, monkeypatch, words):
        """What making raises reaches the caller, each time; the stage's words stand in place of a key to compare."""
        monkeypatch.setattr(Numbers, "explain_error", lambda _stage, _error: words)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                got(stage, "hopeless")
        assert [event[3:5] for event in looks] == [("miss", words or "not in the cache")] * 2
        assert all((noted.key is None) == bool(words) for noted in events.collected().noted)

    @pytest.mark.parametrize(
        ("job", "outcome", "words"),
        [
            ("two", "miss", rf"not in the cache \(key {place_of('two')[0][:12]}\).*kcl explain"),
            ("printed", "bypass", "it is printed.*as long as the reason holds: mend that first.$"),
            ("unknown", "bypass", "nobody knows.*as long as the reason holds: mend that first.$"),
        ],
    )
    def test_strict(self, stage, looks, under, monkeypatch, job, outcome, words):
        """KCL_STRICT=hit lets a hit pass, raises for the rest with what mends it, and makes nothing."""
        monkeypatch.setattr(
            Numbers, "attempt", lambda _stage, job: "it is printed" if job == "printed" else ""
        )
        put(stage, "one", 1)
        under(KCL_STRICT="hit")
        assert got(stage, "one") == [1]
        with pytest.raises(CacheMiss, match=f"{outcome}: {words}") as raised:
            got(stage, job)
        assert ("fill the cache" in str(raised.value)) is (outcome == "miss")
        assert stage.made == []
        assert outcomes(looks) == ["hit", outcome]

    def test_strict_unknown(self, stage, looks, under):
        """A word that KCL_STRICT does not take ends each look-up, hits included: a check that is off would hide all."""
        put(stage, "two", 2)
        under(KCL_STRICT="fault, hits")
        for job in ("two", "three"):
            words = "KCL_STRICT: 'hits' is not one of hit, fault; write hit, fault or"
            with pytest.raises(SettingError, match=words):
                got(stage, job)
        assert (stage.made, looks) == ([], [])

    @pytest.mark.skipif(
        not os.path.isdir("/proc/self"),
        reason="needs a directory in which nobody can make anything",
    )
    @pytest.mark.faults
    def test_unusable_directory(self, stage, looks, monkeypatch):
        """Where no directory can be made the look-up is an error, and directory and variable are named."""
        monkeypatch.setenv("KCL_CACHE_DIR", "/proc/no-cache")
        row = layers.LayerRow(
            {}, ("kcl", "numbers"), lambda: "/proc", lambda: [Directory("/proc/no-cache/numbers")]
        )
        monkeypatch.setitem(layers.TABLE, "numbers", row)
        layers.reset()
        words = "could not use its directory: the cache directory '/proc/no-cache' cannot be made: .*set KCL_CACHE_DIR"
        with pytest.warns(CacheWarning, match=words) as warned:
            assert got(stage, "two") == [2]
        assert len(warned) == 1
        assert outcomes(looks) == ["error"]
        assert "'/proc/no-cache' cannot be made" in looks[0].reason
        assert stage.layer.stores == []

    def test_error_of_the_user(self, stage, looks):
        """What a search raises before anything was found is the caller's, and the look-up is counted as a miss."""
        with pytest.raises(LookupError, match="mine"):
            got(stage, "raising")
        assert [event[3:5] for event in looks] == [("miss", "the recipe raised an error")]
        assert stage.made == []

    def test_begins_once(self, stage):
        """A look-up takes what a program can change once, also if it looks again after it had the lead."""
        assert got(stage, "two") == [2]
        assert got(stage, "two") == [2]
        find(stage, "two")
        assert stage.begun == ["two"] * 3

    def test_threads(self, stage, looks):
        """Threads that want one key at once make it once; who missed and waited has a hit, which says who made it."""
        crowded, found = Crowded(), []
        assert crowded.layer is stage.layer
        at_once(lambda _number: found.append(got(crowded, "two")), 4)
        assert (found, crowded.made) == ([[2]] * 4, ["two"])
        assert sorted(outcomes(looks)) == ["hit", "hit", "hit", "miss"]
        assert [one.reason for one in looks if one.outcome == "miss"] == ["not in the cache"]
        hits = [event.reason for event in looks if event.outcome == "hit"]
        assert any(reason.endswith(" counted it meanwhile") for reason in hits)

    @pytest.mark.parametrize("promised", [False, True])
    def test_others_wait_for_a_promise(self, stage, promised):
        """Where the next stage is awaited the others go on when the lead ends, and else as the value is there."""
        stage.promised = promised
        done = threading.Event()

        def wait():
            Lead("other").take(stage.layer, place_of("two")[0])
            done.set()

        with Lead("number") as lead:
            obtain(stage, "two", lead)
            other = threading.Thread(target=wait)
            other.start()
            assert done.wait(0.5) is not promised
        other.join()


def test_finding_counts_nothing(stage, looks):
    """Looking without obtaining says what is there, and makes and counts nothing."""
    assert find(stage, "two")[:2] == ("miss", "not in the cache")
    put(stage, "two", 2)
    look = find(stage, "two")
    assert (look.outcome, look.value) == ("hit", [2])
    assert (looks, stage.made) == ([], [])
