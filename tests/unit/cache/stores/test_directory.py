"""kcl.cache.stores.directory: one file per entry, read and written as FAULTS R1 to R6 demand."""

import os
import stat
import time
from pathlib import Path

import pytest
from harness import python
from planted import plant
from store_contract import PersistentContract, example

from kcl.cache.places import TEMPORARY
from kcl.cache.stores.directory import Directory, publish
from kcl.errors import CacheFault, DamagedEntry, UnusableDirectory

PLACE = example(1, "device", "axpy")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def store(tmp_path):
    """A directory that holds one blob at PLACE."""
    directory = Directory(tmp_path / "cache")
    directory.put(PLACE, b"blob")
    return directory


@pytest.fixture
def path(store):
    """The file of that blob."""
    return Path(store.location) / PLACE


def files(root):
    found = [path for path in Path(root).rglob("*") if path.is_file()]
    return sorted(str(path.relative_to(root)) for path in found)


class TestDirectory(PersistentContract):
    def make(self, tmp_path):
        return Directory(tmp_path / "pyopencl" / "kcl")


@pytest.mark.parametrize("days", [-3, 3])
def test_a_use_is_noted_once_a_day(tmp_path, days):
    """A get sets the time of a file that was written or used longer ago than a day, or by a wrong clock."""
    written = time.time() + days * 86400
    store = Directory(tmp_path / "cache", notes_use=True)
    store.put(example(1), b"blob")
    path = tmp_path / "cache" / example(1)
    os.utime(path, (written, written))
    assert store.head(example(1), 0) == ((4, pytest.approx(written, abs=0.01)), b"")
    store.get(example(1))
    assert store.head(example(1), 0) == ((4, pytest.approx(time.time(), abs=60)), b"")
    os.utime(path, (time.time() - 80000, time.time() - 80000))
    before = store.head(example(1), 0)
    store.get(example(1))
    assert store.head(example(1), 0) == before


def test_heads_with_faults(tmp_path):
    """Each entry comes with its head, or with its fault: of a folder that others can write all have it."""
    store = Directory(tmp_path / "cache")
    for number, folder in enumerate(["fine", "fine", "loose", "loose"]):
        store.put(example(number, folder), b"blob")
    (tmp_path / "cache" / example(1, "fine")).chmod(0o666)
    (tmp_path / "cache" / "loose").chmod(0o777)
    heads = dict(store.heads(2))
    assert heads.pop(example(0, "fine")) == store.head(example(0, "fine"), 2)
    assert heads.keys() == {example(1, "fine"), example(2, "loose"), example(3, "loose")}
    assert all(isinstance(head, CacheFault) for head in heads.values())


class TestFiles:
    def test_path_is_the_address(self, store, path):
        assert path.read_bytes() == b"blob"
        assert files(store.location) == [PLACE]

    def test_a_relative_root_stays_where_it_was(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        store = Directory("cache")
        monkeypatch.chdir("/")
        store.put(PLACE, b"blob")
        assert files(tmp_path) == [f"cache/{PLACE}"]

    def test_removed_under_an_open_store(self, store, path):
        """The whole directory may be removed at any time; the next put makes it again."""
        path.unlink()
        for folder in (path.parent, store.location):
            os.rmdir(folder)
            assert store.get(PLACE) is None
        assert list(store.scan()) == []
        store.put(PLACE, b"again")
        assert store.get(PLACE) == b"again"

    def test_junk_is_not_scanned(self, store, path):
        """Files that are no entries, links and deeper directories are passed over."""
        (Path(store.location) / "README").write_text("junk")
        (path.parent / (TEMPORARY + "1")).write_text("junk")
        (path.parent / "deep").mkdir()
        (path.parent / "deep" / path.name).write_text("junk")
        os.symlink(path, path.parent / ("f" * 64))
        os.symlink(path.parent, Path(store.location) / "link")
        assert list(store.scan()) == [PLACE]


class TestPlanted:
    """What is not a regular file of ours at an entry's place: refused, replaced by the next put, its target unharmed."""

    @pytest.mark.parametrize("kind", ["link", "loop", "fifo", "socket", "device"])
    def test_replaced(self, store, path, tmp_path, kind):
        """Reading it is refused without waiting, a put takes its place, and a delete leaves what a link leads to."""
        target = tmp_path / "target"
        target.write_bytes(b"precious")
        planted = ("link", path) if kind == "loop" else (kind, target)
        path.unlink()
        plant(*planted, path)
        with pytest.raises(DamagedEntry, match="regular file"):
            store.get(PLACE)
        store.put(PLACE, b"new")
        assert store.get(PLACE) == b"new"
        path.unlink()
        plant(*planted, path)
        store.delete(PLACE)
        assert files(store.location) == []
        assert target.read_bytes() == b"precious"

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda path: path.chmod(0o602), r"others can write it \(mode 0602\)"),
            (lambda path: path.chmod(0o620), r"others can write it \(mode 0620\)"),
            (lambda path: os.truncate(path, (1 << 30) + 1), "above the limit"),
            pytest.param(
                lambda path: os.chown(path, 12345, 12345), "belongs to uid 12345", marks=AS_ROOT
            ),
        ],
    )
    def test_refused_and_replaced(self, store, path, change, words):
        """A file that others can write, of another user, or above the limit is refused unread, and replaced."""
        change(path)
        with pytest.raises(DamagedEntry, match=words):
            store.get(PLACE)
        store.put(PLACE, b"new")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_full_directory_is_kept(self, store, path):
        """A directory in the place of an entry is not ours to remove: the put fails and leaves no temporary file."""
        path.unlink()
        path.mkdir(0o700)
        (path / "file").write_text("precious")
        with pytest.raises(IsADirectoryError):
            store.put(PLACE, b"new")
        assert files(store.location) == [PLACE + "/file"]

    def test_folder_is_a_link(self, store, path, tmp_path):
        """A link in a folder's place is refused, and nothing is written through it."""
        path.parent.rename(tmp_path / "elsewhere")
        path.parent.symlink_to(tmp_path / "elsewhere")
        for use in (store.get, store.delete, lambda place: store.put(place, b"new")):
            with pytest.raises(UnusableDirectory, match="not a directory"):
                use(PLACE)
        assert [each.read_bytes() for each in (tmp_path / "elsewhere").iterdir()] == [b"blob"]


class TestTrust:
    def test_loose_folder(self, store, path):
        """A folder below the root that others can write is refused, found loose at first or later."""
        for one in (store, Directory(store.location)):
            path.parent.chmod(0o777)
            for use in (one.get, one.delete, lambda place, one=one: one.put(place, b"new")):
                with pytest.raises(UnusableDirectory, match=f"chmod go-w {path.parent}"):
                    use(PLACE)
            path.parent.chmod(0o700)
            assert one.get(PLACE) == b"blob"

    @AS_ROOT
    def test_root_in_the_home_of_another(self, tmp_path, monkeypatch):
        """Root reads what the owner of HOME has, and makes nothing there: that user could not remove it."""
        home = tmp_path / "home"
        store = Directory(home / "cache")
        store.put(PLACE, b"blob")
        for path in [home, *home.rglob("*")]:
            os.chown(path, 12345, 12345)
        monkeypatch.setenv("HOME", str(home))
        before = sorted(home.rglob("*"))
        assert store.get(PLACE) == Directory(home / "cache").get(PLACE) == b"blob"
        for one in (Directory(home / "cache"), Directory(home / "new" / "cache")):
            with pytest.raises(PermissionError, match="uid 12345 owns; use sudo -H"):
                one.put(example(2), b"new")
        assert sorted(home.rglob("*")) == before

    @AS_ROOT
    def test_foreign_root(self, store):
        os.chown(store.location, 12345, 12345)
        with pytest.raises(UnusableDirectory, match="belongs to uid 12345"):
            Directory(store.location).get(PLACE)


class TestWriters:
    def test_a_file_is_whole_and_closed_before_it_has_its_name(self, tmp_path, monkeypatch):
        steps = []
        for name in ("open", "write", "close", "replace"):
            real = getattr(os, name)
            monkeypatch.setattr(
                os, name, lambda *given, real=real, name=name: (steps.append(name), real(*given))[1]
            )
        publish(str(tmp_path / "entry"), b"whole")
        assert steps == ["open", "write", "close", "replace"]

    def test_killed_writers_are_swept(self, tmp_path):
        """Killed writers leave whole entries and at most temporary files, which go when they are an hour old."""
        code = (
            "import sys; from kcl.cache.stores.directory import Directory\n"
            "from store_contract import example\n"
            "store = Directory(sys.argv[1]); store.put(example(0), b''); print('go', flush=True)\n"
            "while True: store.put(example(1, 'device'), b'x' * 3_000_000)"
        )
        root = tmp_path / "cache"
        for _ in range(4):
            with python(code, str(root)) as process:
                process.stdout.readline()
                time.sleep(0.02)
                process.kill()
        (root / "device").mkdir(exist_ok=True)
        (root / "device" / (TEMPORARY + "left")).write_bytes(b"torn")
        (root / (TEMPORARY + "left")).write_bytes(b"torn")
        left = [name for name in files(root) if TEMPORARY in name]
        assert set(Directory(root).scan()) <= {example(0), example(1, "device")}
        assert Directory(root).get(example(1, "device")) in (None, b"x" * 3_000_000)
        Directory(root).put(example(2), b"blob")  # a young file may belong to a living writer
        assert [name for name in files(root) if TEMPORARY in name] == left
        for name in files(root):
            os.utime(root / name, (time.time() - 3700,) * 2)
        Directory(root).put(example(3), b"blob")
        assert set(files(root)) == set(Directory(root).scan()) >= {example(0), example(3)}

    def test_full_disk(self, tmp_path):
        """Where a file cannot grow the put fails, old blob and directory stay as they were; then writes resume."""
        code = (
            "import resource, sys; from kcl.cache.stores.directory import Directory\n"
            "from store_contract import example\n"
            "store = Directory(sys.argv[1]); store.put(example(1), b'old')\n"
            "hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))\n"
            "try: store.put(example(1), bytes(5000))\n"
            "except OSError as error: print(error.errno)\n"
            "print(store.get(example(1)))\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard)); store.put(example(1), b'new')\n"
            "print(store.get(example(1)))"
        )
        output = python(code, str(tmp_path / "cache")).communicate()[0].split()
        assert output == ["27", "b'old'", "b'new'"]  # EFBIG
        assert files(tmp_path / "cache") == [example(1)]
