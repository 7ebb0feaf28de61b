"""kcl.inspect.purge: what a wish removes, and that nothing else ever is."""

import functools
import os
import pathlib
import sqlite3
import sys
from contextlib import closing

import numpy as np
import pytest
from handle_recipes import add
from stored import DAY, put

import kcl
from kcl import option
from kcl.base import events, process, settings
from kcl.base.events import Event
from kcl.cache import layers, places, run_memo
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.foreign.table import ROWS
from kcl.inspect import purge
from kcl.inspect.history import records

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")


@pytest.fixture
def stored():
    for name in ("first", "second"):
        put(name)
        put(name, layer="generator", function="f")


def left():
    names = settings.GENERATOR, settings.BINARY
    return {name: sorted(entry.kernel for entry in kcl.entries(name)) for name in names}


@pytest.mark.usefixtures("stored")
class TestPurge:
    def test_all(self):
        """A pattern chooses kernels. Without a name kcl's layers go, with all that belongs to them."""
        found = kcl.purge(kernel="fir*")
        assert (found.files, found.rows) == (1, 1)
        assert found.bytes > found.items[0].size > 0
        assert left() == {"generator": ["second"], "binary": ["second"]}
        found = kcl.purge()
        size = sum(item.size for item in found.items)
        assert left() == {"generator": [], "binary": []}
        assert (found.bytes, found.refusals) == (size, [])
        assert found.files >= 3
        assert repr(found) == f"<kcl.Removal {found.files} files, 0 rows, {size} bytes>"
        assert not os.path.exists(places.own())

    def test_chosen(self):
        """A layer that is named goes alone; what was made lately stays; a dry run removes nothing."""
        both = ["first", "second"]
        assert kcl.purge("binary", older=3600.0).files == 0
        assert kcl.purge("binary", older=-3600.0, dry_run=True).files == 2
        assert left() == {"generator": both, "binary": both}
        kcl.purge("binary")
        assert left() == {"generator": both, "binary": []}

    def test_refused(self, monkeypatch):
        remove = purge.remove_path

        def refuse(path):
            if "binary" in path:
                raise PermissionError("read-only")
            remove(path)

        monkeypatch.setattr(purge, "remove_path", refuse)
        found = kcl.purge()
        assert [(one.cache, one.reason) for one in found.refusals] == [("binary", "read-only")]
        assert repr(found).endswith("1 place left alone>")
        assert left()["generator"] == []

    def test_remembered(self):
        """Entries that were chosen one by one are remembered with the reason, those of a whole store are not."""
        first = put("first")
        kcl.purge(kernel="first")
        kcl.purge("binary")
        gone = [(digest, reason) for digest, reason, _time in purge.read_removed()]
        assert gone == [(first[-64:], "kcl purge")] * 2


def found(name, **keywords):
    refusals = []
    return list(purge.find_items(name, refusals, **keywords)), refusals


@pytest.fixture
def treasure(tmp_path):
    """A directory that must never be touched."""
    folder = tmp_path / "treasure"
    folder.mkdir()
    (folder / "file").write_text("kept")
    yield folder
    assert (folder / "file").read_text() == "kept"


class TestItems:
    def test_own(self):
        put("first")
        put("first", layer="generator", function="f")
        database = layers.generator().place
        pathlib.Path(settings.folder("pytools"), "pdict-v5-loopy-x.sqlite").write_text("loopy's")
        pathlib.Path(settings.folder("pyopencl"), "somebody").mkdir()
        os.makedirs(os.path.join(settings.folder("kcl"), "journal"))
        os.makedirs(os.path.join(settings.folder("kcl"), "src"))
        (generator,) = found("generator")[0]
        (binary,) = found("binary")[0]
        (kept,) = found("kept")[0]
        assert (generator.path, generator.size) == (database, os.path.getsize(database))
        assert (binary.path, binary.files) == (places.binaries(), 1)
        assert binary.size > 99
        assert (os.path.basename(kept.path), kept.files) == ("journal", 0)

    def test_links(self, treasure, monkeypatch):
        pathlib.Path(settings.folder("kcl")).parent.mkdir(parents=True)
        os.symlink(treasure, settings.folder("kcl"))
        os.makedirs(settings.folder("pyopencl"))
        os.symlink(treasure, os.path.join(settings.folder("pyopencl"), "kcl-binary-v1"))
        monkeypatch.setenv("CUDA_CACHE_PATH", settings.folder("kcl"))
        for name in ("kept", "binary", "cuda"):
            items, (refusal,) = found(name)
            assert not items
            assert "link" in refusal.reason


def test_an_empty_home_and_removes(treasure):
    """An empty home has no item. An item goes with all that is in it, a link as a link; once gone it is no error."""
    for name in ROWS.keys() - {"pocl"}:  # this process's own PoCL has its directory
        assert found(name) == ([], [])
    put("first")
    item = found("binary")[0][0]
    os.symlink(treasure, os.path.join(item.path, "link"))
    os.symlink(treasure / "file", os.path.join(item.path, "file"))
    purge.remove_path(item.path)
    purge.remove_path(item.path)
    assert os.listdir(os.path.dirname(item.path)) == []
    os.symlink(treasure, item.path)
    purge.remove_path(item.path)
    assert not os.path.lexists(item.path)


class TestEntries:
    def chosen(self, names, kernel, older):
        items = purge.carry_out(names, False, older, kernel, dry_run=True).items
        return {(item.cache, address) for item in items for address in item.addresses}

    def test_older(self):
        """What was made and used long ago goes; a use keeps an entry that was made long ago."""
        old, used = put("old", days=9000), put("used", days=9000)
        put("new")
        events.emit(Event("binary", "used", used[-64:], "hit", "", 0.5, 1), None, [used[-64:]])
        records.write()
        assert self.chosen(("binary",), None, DAY) == {("binary", old)}

    def test_rows_that_lead(self):
        """A base row goes with its code, or an hour after it."""
        row = functools.partial(put, layer="generator")
        code = row("first", days=9000, special=True, function="f")
        lead, other, young = row("first"), row("b", days=9000), row("c")
        going = {("generator", one) for one in (code, lead, other)}
        assert self.chosen(("generator",), "first", None) == going
        assert ("generator", young) not in self.chosen(("generator",), None, DAY)
        assert self.chosen(("generator",), "c", None) == set()


@pytest.mark.one_platform
def test_memory(queue):
    kernel, seen = add(), []
    kcl.add_hook(lambda event: seen.append(event.outcome))
    for expected in (["miss", "miss"], [], ["miss", "miss"]):
        kernel(queue, x=np.zeros(8, np.float32), a=1.0)
        assert seen == expected
        del seen[:]
        if not expected:
            kcl.purge()


def test_signed():
    """What came under a key goes, a memo too; what came under another one, or was made here, stays."""
    memos, rows = run_memo.store(), []
    for number, ids in enumerate((["a"], ["b"], [])):
        rows.append(Entry(Key([Part("number", str(number))]), {"signers": ids}, {}))
        layers.generator().publish(rows[-1].key.digest, rows[-1])
    memos.put(rows[0].key.digest, rows[0].with_metadata(signers=["b", "a"]).pack())
    assert sorted(ids for _entry, ids in purge.list_signed([])) == [["a"], ["b"], ["b", "a"]]
    removal = purge.carry_out(signer="a")
    assert (len(removal.items), removal.refusals) == (2, [])
    left = [layers.generator().read(row.key.digest) is not None for row in rows]
    assert (left, [*memos.scan()]) == ([False, True, True], [])


@pytest.mark.faults
def test_signed_refused():
    """What another process locks stays, and is not remembered as removed; what cannot be read is told."""
    layer, entry = layers.generator(), Entry(Key([Part("a", "b")]), {"signers": ["a"]}, {})
    layer.publish(entry.key.digest, entry)
    process.on_change()
    with closing(sqlite3.connect(layer.place, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused = purge.carry_out(signer="a")
        other.execute("ROLLBACK")
    assert [refusal.place for refusal in refused.refusals] == [layer.place]
    assert [digest for digest, _reason, _time in purge.read_removed()] == []
    assert purge.carry_out(signer="a").refusals == []
    assert [digest for digest, _reason, _time in purge.read_removed()] == [entry.key.digest]
    faults = []
    pathlib.Path(layer.place).write_bytes(b"no database" * 1000)
    assert purge.list_signed(faults) == []
    assert [fault.cache for fault in faults] == ["generator"]


def test_a_file_in_the_place_of_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with option.cache_dir(tmp_path / "file" / "cache"):
        plan = purge.purge(dry_run=True)
    assert (plan.items, plan.refusals) == ([], [])
