"""kcl.inspect.purge_items: what can be removed of each cache, and that nothing else ever is."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

import pytest

from kcl import option
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.cache.stores.base import address
from kcl.cache.stores.directory import Directory
from kcl.cache.stores.persistentdict import Rows
from kcl.caches import contents
from kcl.inspect import purge_items
from kcl.inspect.history import journal, records

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
DAY = 86400.0


def put(store, kernel: str, number: int = 0, **metadata) -> str:
    """Put an entry of a kernel into a store."""
    entry = Entry(
        Key([("kernel", kernel), ("number", str(number))]), {"kernel": kernel, **metadata}, {"part": b"x" * 99}
    )
    place = address(entry.key.digest, label=kernel)
    store.put(place, entry.pack())
    return place


def binaries() -> Directory:
    """Return the binary layer's store."""
    return Directory(os.path.join(option.folder("pyopencl"), "kcl-binary-v1"))


def rows() -> Rows:
    """Return the generator layer's store."""
    return Rows(option.folder("pytools"))


def found(name: str, **keywords):
    """Return items and refusals of a cache."""
    refusals: list[purge_items.Refusal] = []
    return list(purge_items.items(name, refusals, **keywords)), refusals


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
        """Of the folders that kcl shares with others only its own names are found, with their sizes."""
        put(binaries(), "first")
        put(rows(), "first")
        pathlib.Path(option.folder("pytools"), "pdict-v5-loopy-x.sqlite").write_text("loopy's")
        pathlib.Path(option.folder("pyopencl"), "somebody").mkdir()
        os.makedirs(os.path.join(option.folder("kcl"), "journal"))
        os.makedirs(os.path.join(option.folder("kcl"), "src"))
        (generator,) = found("generator")[0]
        (binary,) = found("binary")[0]
        (kept,) = found("kept")[0]
        assert (generator.path, generator.size) == (rows().location, os.path.getsize(rows().location))
        assert (binary.path, binary.files) == (binaries().location, 1)
        assert binary.size > 99
        assert (kept.name, kept.files) == ("journal", 0)

    def test_nothing(self):
        """An empty home has nothing to remove, and nothing to refuse."""
        for name in purge_items.everything():
            assert found(name) == ([], []) or name == "pocl"  # this process's own PoCL has its directory

    def test_without_neighbours(self):
        """All stands for kcl's own and the drivers' caches; neighbours must be named."""
        assert set(purge_items.own()) | {"loopy", "pyopencl", "pocl", "cuda"} <= set(purge_items.everything())
        assert "mesa" not in purge_items.everything()

    def test_older(self):
        """A directory is as old as the newest file in it."""
        put(binaries(), "first")
        put(binaries(), "second")
        (first, *_) = pathlib.Path(binaries().location).rglob("*first*")
        os.utime(first, (1e9, 1e9))
        assert found("binary", before=time.time() - DAY) == ([], [])
        assert len(found("binary", before=time.time() + DAY)[0]) == 1

    def test_links(self, treasure):
        """A link in the place of a cache directory or of what is in it is refused, and left alone."""
        pathlib.Path(option.folder("kcl")).parent.mkdir(parents=True)
        os.symlink(treasure, option.folder("kcl"))
        os.makedirs(option.folder("pyopencl"))
        os.symlink(treasure, os.path.join(option.folder("pyopencl"), "kcl-binary-v1"))
        for name in ("kept", "binary"):
            items, (refusal,) = found(name)
            assert not items
            assert "link" in refusal.reason

    def test_foreign_link(self, treasure, monkeypatch, tmp_path):
        """So is the directory of a foreign cache."""
        os.symlink(treasure, tmp_path / "link")
        monkeypatch.setenv("CUDA_CACHE_PATH", str(tmp_path / "link"))
        assert found("cuda")[1][0].place == str(tmp_path / "link")

    @pytest.mark.parametrize("place", ["/", "~"])
    def test_too_wide(self, monkeypatch, place):
        """The root and the home directory are nobody's cache."""
        monkeypatch.setenv("HOME", os.path.join(os.environ["XDG_CACHE_HOME"], "home"))
        os.makedirs(os.path.expanduser("~/0/0"))
        monkeypatch.setenv("CUDA_CACHE_PATH", os.path.expanduser(place))
        items, refusals = found("cuda")
        assert not items
        assert refusals or not contents.files("cuda")


class TestRemove:
    @pytest.fixture
    def item(self):
        """The binary layer, as it was found."""
        put(binaries(), "first")
        return found("binary")[0][0]

    def test_removes(self, item):
        """An item goes with all that is in it; once gone it is no error."""
        purge_items.remove(item)
        purge_items.remove(item)
        assert os.listdir(item.folder) == []

    def test_link_inside(self, item, treasure):
        """A link inside is removed itself; its target is unharmed."""
        os.symlink(treasure, os.path.join(item.path, "link"))
        os.symlink(treasure / "file", os.path.join(item.path, "file"))
        purge_items.remove(item)
        assert not os.path.exists(item.path)

    def test_swapped_item(self, item, treasure):
        """An item that became a link is removed as a link."""
        os.rename(item.path, item.path + "-moved")
        os.symlink(treasure, item.path)
        purge_items.remove(item)
        assert not os.path.lexists(item.path)

    @pytest.mark.parametrize("link", [True, False])
    def test_swapped_folder(self, item, treasure, link):
        """Where the directory became another one, nothing is removed from it."""
        os.rename(item.folder, item.folder + "-moved")
        if link:
            os.symlink(treasure, item.folder)
        else:
            os.makedirs(item.path)
        with pytest.raises(OSError):
            purge_items.remove(item)
        assert link or os.path.isdir(item.path)

    def test_swapping_all_the_time(self, treasure):
        """While somebody swaps folders for links and back, nothing outside is touched."""
        code = """
            import os, sys
            target, *places = sys.argv[1:]
            print(flush=True)
            while os.getppid() == int(os.environ["PARENT"]):
                for place in places:
                    try:
                        os.rename(place, place + "-away")
                        os.symlink(target, place)
                        os.unlink(place)
                        os.rename(place + "-away", place)
                    except OSError:
                        pass
            """
        store = binaries()
        put(store, "first")
        inner = os.path.join(store.location, "folder")
        environment = {**os.environ, "PARENT": str(os.getpid())}
        lines = "\n".join(line.removeprefix(" " * 12) for line in code.splitlines())
        command = [sys.executable, "-c", lines, str(treasure), inner, store.location]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as swapper:
            swapper.stdout.readline()
            for number in range(200):
                try:
                    os.makedirs(inner, exist_ok=True)
                    pathlib.Path(inner, str(number)).write_text("x")
                except OSError:
                    pass
                for item in found("binary")[0]:
                    try:
                        purge_items.remove(item)
                    except OSError:
                        pass
            swapper.terminate()
        # Files that we wrote through a link are ours; the test's treasure is looked at by its fixture.
        assert (treasure / "file").exists()


class TestEntries:
    def test_of_a_kernel(self):
        """The entries of one kernel go from both layers, those of the others stay."""
        gone = [put(store, "first", function="f") for store in (rows(), binaries())]
        stay = [put(store, "second", function="f") for store in (rows(), binaries())]
        items, chosen = purge_items.entries(["generator", "binary"], "first", None, [])
        assert chosen.addresses == (gone[0],)
        for item in items:
            purge_items.remove(item)
        purge_items.remove_rows(chosen)
        assert list(rows().scan()) == stay[:1]
        assert list(binaries().scan()) == stay[1:]

    def test_pattern(self):
        """A kernel is named by a shell pattern too."""
        for kernel in ("solve_x", "solve_y", "other"):
            put(binaries(), kernel)
        items, _ = purge_items.entries(["binary"], "solve_*", None, [])
        assert len(items) == 2

    def test_older(self):
        """What was made and used long ago goes; a use keeps an entry that was made long ago."""
        places = [put(binaries(), kernel) for kernel in ("old", "used", "new")]
        for place in places[:2]:
            os.utime(os.path.join(binaries().location, place), (1e9, 1e9))
        _use(places[1])
        items, _ = purge_items.entries(["binary"], None, time.time() - DAY, [])
        assert [item.path for item in items] == [os.path.join(binaries().location, places[0])]

    def test_rows_that_lead(self):
        """A row that leads to code goes with the last code of its kernel."""
        lead = put(rows(), "first", row=[["a", "b"]], created=1e9)
        code = put(rows(), "first", 1, function="f", created=time.time())
        assert purge_items.entries(["generator"], None, time.time() - DAY, [])[1].addresses == ()
        assert set(purge_items.entries(["generator"], None, time.time() + DAY, [])[1].addresses) == {lead, code}


def _use(place: str) -> None:
    used = {place[-64:][: journal.DIGITS]: journal.EntryUse(1, time.time())}
    records.put(records.store(), uses=used)
