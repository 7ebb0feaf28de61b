"""Proofs: written for each file, read once, of everything that decides beside a record."""

import os

import pytest

from kcl.base import events, process
from kcl.cache import layers
from kcl.cache.layer import Layer
from kcl.code import WarningFact
from kcl.frontends.loopy import moment, proofs

SAID = WarningFact("builtins", "UserWarning", "said", "", 3)
QUIET, SAYING = proofs.Proof(False, (), {}), proofs.Proof(True, (SAID,), {"unit": "u"})


def new_process():
    """Forget what this process knows; the stores keep it."""
    layers.reset()


def stored(name="driver.py", *digests):
    for digest in digests:
        proofs.add(digest, QUIET, proofs.group(name))
    proofs.group(name).write()


class TestFinding:
    def test_what_was_proven_is_found_by_a_later_process(self):
        """Proofs come back with the warnings of their calls; what no process published is none."""
        for is_written in (False, True):
            group = proofs.group("driver.py")
            assert proofs.find("a", group) is None
            proofs.add("a", SAYING, group)
            proofs.add("b", QUIET, group)
            assert proofs.find("a", group) == SAYING
            if is_written:
                group.write()
            new_process()
        group = proofs.group("driver.py")
        assert [proofs.find(digest, group) for digest in "abc"] == [SAYING, QUIET, None]

    def test_edited_generators(self, monkeypatch):
        """Calls of a run in which a generator was edited prove nothing: the key may be made of the new files."""
        monkeypatch.setattr(process, "STARTED", 0)
        stored("driver.py", "a")
        monkeypatch.undo()
        new_process()
        assert proofs.find("a", proofs.group("driver.py")) is None

    def test_unproven(self):
        """The files whose calls no earlier run proved are named, also when their proofs are written."""
        stored("driver.py", "a")
        assert proofs.unproven() == ["driver.py"]
        new_process()
        assert proofs.find("a", proofs.group("driver.py")) == QUIET
        assert proofs.unproven() == []

    def test_the_file_says_only_where_to_look(self):
        """A record that another file's row proved is proven, once that row was read."""
        stored("one.py", "a")
        new_process()
        assert proofs.find("a", proofs.group("two.py")) is None
        assert proofs.find("a", proofs.group("one.py")) == QUIET
        assert proofs.find("a", proofs.group("two.py")) == QUIET

    def test_one_row_is_read_once(self, monkeypatch):
        stored("driver.py", "a")
        new_process()
        group = proofs.group("driver.py")
        proofs.find("a", group)
        monkeypatch.setattr(Layer, "look_up", None)
        assert [proofs.find(digest, group) for digest in "bcd"] == [None] * 3

    def test_rows_that_come(self):
        """What another process publishes meanwhile is found; what this process knows stays."""
        stored("driver.py", "a")
        new_process()
        group = proofs.group("driver.py")
        assert proofs.find("b", group) is None
        proofs.add("c", SAYING, group)
        beside_this = proofs.Group("driver.py")
        beside_this.new |= {"b": SAYING, "c": QUIET}
        database = layers.generator().stores[0].location
        before = os.stat(database).st_mtime_ns
        beside_this.write()
        os.utime(database, ns=(before + 1, before + 1))  # a clock may be coarse
        assert [proofs.find(digest, group) for digest in "abc"] == [QUIET, SAYING, SAYING]

    @pytest.mark.parametrize("change", ["kcl", "distribution loopy", "python", "optimize"])
    def test_what_decides_beside_a_record(self, monkeypatch, change):
        """Another kcl, loopy or Python finds no proof of this one."""
        stored("driver.py", "a")
        new_process()
        parts = tuple(
            part._replace(value="other") if part.name == change else part
            for part in moment.shared()
        )
        assert parts != moment.shared()
        monkeypatch.setattr(moment, "shared", lambda: parts)
        assert proofs.find("a", proofs.group("driver.py")) is None


class TestWriting:
    @pytest.mark.parametrize(("asks", "looks_up"), [(0, 0), (0, 1), (1, 0), (1, 1)])
    def test_after_a_question(self, asks, looks_up):
        """A process that asked its units, and has no key of any, publishes no proofs and opens no store."""
        proofs.add("a", QUIET, proofs.group("driver.py"))
        if asks:
            events.count_question("str", "driver.py:1")
        if looks_up:
            proofs.use()
        proofs.write()
        assert bool(layers.generator().moment()) == (looks_up or not asks)

    def test_no_store(self, monkeypatch):
        """While no store has rows, no file of a generator is read for a proof."""
        monkeypatch.setattr(moment, "shared", lambda: pytest.fail("files were read"))
        assert proofs.find("a", proofs.group("driver.py")) is None

    def test_two_processes_add_to_one_row(self):
        stored("driver.py", "a")
        new_process()
        group = proofs.group("driver.py")
        proofs.find("x", group)
        proofs.add("b", QUIET, group)
        stored_by_another = proofs.Group("driver.py")
        stored_by_another.new["c"] = QUIET
        stored_by_another.write()
        group.write()
        new_process()
        assert [proofs.find(digest, proofs.group("driver.py")) for digest in "abc"] == [QUIET] * 3

    def test_origin(self):
        """A row that came from a remote still says so after a run has added to it."""
        stored("driver.py", "a")
        address = proofs.Group("driver.py")._key.digest
        came = layers.generator().read(address).with_metadata(signers=["0123"])
        layers.generator().publish(address, came)
        new_process()
        stored("driver.py", "b")
        new_process()
        assert layers.generator().read(address).metadata["signers"] == ["0123"]

    def test_nothing_new_writes_nothing(self, monkeypatch):
        stored("driver.py", "a")
        new_process()
        monkeypatch.setattr(Layer, "publish", None)
        group = proofs.group("driver.py")
        proofs.find("a", group)
        group.write()
        proofs.use()
        proofs.write()

    def test_a_row_is_limited(self, monkeypatch):
        monkeypatch.setattr(proofs, "LIMIT", 3)
        stored("driver.py", *"abcde")
        new_process()
        group = proofs.group("driver.py")
        found = [proofs.find(digest, group) for digest in "abcde"]
        assert found == [None, None, QUIET, QUIET, QUIET]

    def test_switched_off(self, monkeypatch, tmp_path):
        """With the generator layer off nothing is written at exit."""
        monkeypatch.setenv("KCL_NO_CACHE", "1")
        layers.reset()
        proofs.add("a", QUIET, proofs.group("driver.py"))
        assert proofs._state().groups
        proofs.use()
        proofs.write()
        assert not (tmp_path / "cache").exists()
