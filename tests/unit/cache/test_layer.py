"""kcl.cache.layer: stores in their order, and what happens when one fails."""

import os
import re
import threading
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest
from harness import mounted
from store_contract import example

import kcl
from kcl.base import settings
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.layer import Answer, CacheWarning, Layer, Memory, quarantine, warn_once
from kcl.cache.lead import Lead
from kcl.cache.stores.directory import Directory
from kcl.errors import CacheFault

KEY = Key([Part("number", "1")])
ENTRY = Entry(KEY, {"kernel": "one"}, {"text": b"1"})


def layer(*stores):
    """Return a layer of these stores, which keeps nothing in memory of what it reads."""
    return Layer("numbers", {}, list(stores), settings.read(), keeps_read=False)


@pytest.fixture
def directories(tmp_path):
    """Two directories."""
    return [Directory(tmp_path / name) for name in ("near", "far")]


@pytest.mark.filterwarnings("error")
def test_warnings_are_errors(capsys, monkeypatch):
    """Where a warning is an error its line is written on stderr, once; where nobody reads that, nothing happens."""
    for _time in range(2):
        warn_once("full", "no space is left")
    said = capsys.readouterr().err
    assert re.fullmatch(r"test_layer\.py:\d+: CacheWarning: no space is left\n", said)
    monkeypatch.setattr("sys.stderr", None)
    warn_once("other", "another fault")


class TestStores:
    def test_written_to_the_first_writable(self, directories, tmp_path):
        """An entry is published to the first store that is writable, and removed from every such store."""
        site = Directory(tmp_path / "site")
        site.put(KEY.digest, ENTRY.pack())
        directories[1].put(KEY.digest, ENTRY.pack())
        site.writable = False
        stores = [site, *directories]
        found = layer(*stores)
        found.publish(KEY.digest, ENTRY)
        assert [list(store.scan()) for store in stores] == [[KEY.digest]] * 3
        found.delete(KEY.digest)
        assert [list(store.scan()) for store in stores] == [[KEY.digest], [], []]

    @pytest.mark.faults
    def test_damaged_where_nothing_is_written(self, tmp_path):
        """A damaged entry of a store that is not writable is a miss with a warning that names it, and stays."""
        site = Directory(tmp_path / "site")
        site.put(KEY.digest, b"torn")
        site.writable = False
        with pytest.warns(
            CacheWarning, match=f"site/{KEY.digest} is left out.*tell the owner of the site"
        ):
            assert layer(site).look_up(KEY.digest, KEY).outcome == "miss"
        assert list(site.scan()) == [KEY.digest]

    def test_read_from_the_first_that_has_it(self, directories):
        """A store that lacks an entry leaves the answer to the next one."""
        directories[1].put(KEY.digest, ENTRY.pack())
        found = layer(*directories)
        assert found.look_up(KEY.digest, KEY)[:3] == (ENTRY, "hit", "")
        assert found.read(KEY.digest) == ENTRY
        assert found.read("0" * 64) is None

    @pytest.mark.faults
    def test_one_that_cannot_be_used(self, directories, tmp_path):
        """A store whose directory is refused drops out with one warning; the others go on."""
        (tmp_path / "near").mkdir(mode=0o777)
        (tmp_path / "near").chmod(0o777)
        found = layer(*directories)
        with pytest.warns(CacheWarning, match="goes on without"):
            found.publish(KEY.digest, ENTRY)
        assert found.stores == directories[1:]
        found.publish(KEY.digest, ENTRY)
        found.memory.clear()
        assert found.look_up(KEY.digest, KEY).outcome == "hit"

    def test_memory_alone(self):
        """A layer without a store keeps what is published, as long as it lives or until it is deleted."""
        found = Layer("numbers", {}, [], settings.read(), place="nowhere")
        found.publish(KEY.digest, ENTRY)
        assert found.look_up(KEY.digest, KEY).outcome == "hit"
        found.delete(KEY.digest)
        assert found.look_up(KEY.digest, KEY).outcome == "miss"


class TestMemory:
    def test_bounded(self, monkeypatch):
        """Above a number of entries the oldest go."""
        monkeypatch.setattr("kcl.cache.layer._KEPT", 3)
        memory = Memory()
        for number in "12345":
            memory.put(number, Answer(ENTRY, "hit", "", 1))
        assert list(memory) == ["3", "4", "5"]


class Full(Directory):
    """A directory on a device that is full and cannot be read."""

    def get(self, address):
        raise OSError(5, "Input/output error", address)

    def put(self, address, _blob):
        raise OSError(28, "No space left on device", address)


class TestFaults:
    @pytest.mark.faults
    def test_others_go_on(self, directories, tmp_path):
        """A fault of one store is said, and the next one is read; the store is tried again next time."""
        full = Full(tmp_path / "full")
        directories[1].put(KEY.digest, ENTRY.pack())
        found = layer(full, directories[1])
        with pytest.warns(CacheWarning, match="could not write"):
            assert found.publish(KEY.digest, ENTRY) == len(ENTRY.pack())
        found.memory.clear()
        with pytest.warns(CacheWarning, match="could not read"):
            assert found.look_up(KEY.digest, KEY).outcome == "hit"
        assert found.stores == [full, directories[1]]

    @pytest.mark.faults
    def test_alone(self, tmp_path):
        """Where no store answers and one is at fault, the look-up is an error and no miss."""
        with pytest.warns(CacheWarning, match="could not read"):
            found = layer(Full(tmp_path / "full")).look_up(KEY.digest, KEY)
        assert (found.entry, found.outcome) == (None, "error")
        assert "Input/output error" in found.reason

    def test_strict(self, directories, tmp_path, monkeypatch):
        """KCL_STRICT=fault raises what would be said once."""
        monkeypatch.setenv("KCL_STRICT", "fault")
        (tmp_path / "near").write_text("no directory")
        with pytest.raises(CacheFault):
            layer(directories[0]).publish(KEY.digest, ENTRY)

    @pytest.mark.faults
    def test_of_another_key(self, directories):
        """An entry at the place of another key is damage: it is set aside and not found again."""
        other = Key([Part("number", "2")])
        directories[0].put(other.digest, ENTRY.pack())
        found = layer(directories[0])
        with pytest.warns(CacheWarning, match="set a damaged entry"):
            assert found.look_up(other.digest, other).outcome == "error"
        assert found.look_up(other.digest, other).outcome == "miss"


class TestFullFileSystem:
    @pytest.mark.faults
    @pytest.mark.parametrize("inodes", [2, 3, 4, 5, 6])
    def test_no_inodes(self, tmp_path, monkeypatch, recwarn, inodes):
        """Where a file system has no inode left one warning says so."""
        disk = tmp_path / "disk"
        disk.mkdir()
        with mounted(disk, f"size=1m,nr_inodes={inodes},mode=0700"):
            monkeypatch.setenv("KCL_CACHE_DIR", str(disk))
            for found in (layers.generator(), layers.binary()):
                for number in range(3):
                    key = Key([Part("number", str(number))])
                    with Lead("one") as lead:
                        lead.take(found, key.digest)
                        found.publish(key.digest, Entry(key, {}, {"text": b"1"}))
        said = [str(one.message) for one in recwarn.list if isinstance(one.message, CacheWarning)]
        (full,) = [
            one for one in said if "without writing its caches: no space or no inode is left" in one
        ]
        assert str(disk) in full


class TestDisabled:
    """`kcl.disabled` switches layers off in a block."""

    def test_block(self):
        """Only the named layer is off, and only in the block; blocks add up."""
        with kcl.disabled("binary"):
            assert [bool(layers.layer(name).off()) for name in settings.LAYERS] == [False, True]
            with kcl.disabled("generator"):
                assert layers.generator().off() == layers.binary().off() == "kcl.disabled()"
            assert not layers.generator().off()
        assert not layers.binary().off()

    def test_all(self):
        with kcl.disabled():
            assert all(layers.layer(name).off() for name in settings.LAYERS)

    def test_other_threads(self):
        """Another thread goes on with its layers."""
        found = []
        with kcl.disabled():
            thread = threading.Thread(target=lambda: found.append(layers.binary().off()))
            thread.start()
            thread.join()
        assert found == [""]

    def test_unknown(self):
        with (
            pytest.raises(ValueError, match="tuning is no layer: generator, binary"),
            kcl.disabled("tuning"),
        ):
            raise AssertionError

    @pytest.mark.one_platform
    def test_nothing_stored(self, context):
        """What the block makes is not stored, and is right."""
        queue = cl.CommandQueue(context)
        with kcl.disabled():
            assert launched(queue, 3) == [3] * 4
        assert list(kcl.entries()) == []
        another = cl.Context(context.devices)  # in the first one the program lives
        assert launched(cl.CommandQueue(another), 3) == [3] * 4
        assert [kcl.stats()[layer]["misses"] for layer in settings.LAYERS] == [1, 1]


@kcl.kernel
def scaled(factor):
    """Multiply."""
    text = f"kernel void scaled(global float *x) {{ x[get_global_id(0)] *= {factor}; }}"
    return kcl.Source(
        text, entry="scaled", arguments=[kcl.Array("x", np.float32, 4, "inout")], global_size=4
    )


def launched(queue, factor):
    """Launch a new Kernel of `scaled`."""
    _event, (x,) = scaled(factor)(queue, x=np.ones(4, np.float32))
    return x.tolist()


def blobs(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(root.glob("*.damaged"))]


class TestQuarantine:
    def test_keeps_blob(self, tmp_path: Path) -> None:
        """The bytes lie under a name that holds label and digest."""
        quarantine(str(tmp_path / "q"), example(1, "device", "axpy"), b"torn")
        (damaged,) = (tmp_path / "q").iterdir()
        assert damaged.read_bytes() == b"torn"
        assert example(1, "", "axpy") in damaged.name

    def test_bounded(self, tmp_path: Path) -> None:
        """Above the number to keep the oldest go."""
        for number in range(10):
            quarantine(str(tmp_path / "q"), example(number % 2), b"%d" % number, keep=3)
        assert blobs(tmp_path / "q") == [b"7", b"8", b"9"]

    def test_foreign_files_stay(self, tmp_path: Path) -> None:
        """Files of other names are neither counted nor removed."""
        (tmp_path / "q").mkdir(0o700)
        (tmp_path / "q" / "README").write_text("mine")
        for _ in range(3):
            quarantine(str(tmp_path / "q"), example(1), b"torn", keep=1)
        assert (tmp_path / "q" / "README").exists()
        assert len(blobs(tmp_path / "q")) == 1

    def test_nothing_is_raised(self, tmp_path: Path) -> None:
        """A file in its place, a loose or missing directory, junk inside: a put does what it can and is silent."""
        (tmp_path / "file").write_text("precious")
        quarantine(str(tmp_path / "file"), example(1), b"torn")
        quarantine(str(tmp_path / "nul\0"), example(1), b"torn")
        assert (tmp_path / "file").read_text() == "precious"
        (tmp_path / "loose").mkdir()
        (tmp_path / "loose").chmod(0o777)
        quarantine(str(tmp_path / "loose"), example(1), b"torn")
        assert list((tmp_path / "loose").iterdir()) == []
        (tmp_path / "junk").mkdir(0o700)
        (tmp_path / "junk" / "0.damaged").mkdir()
        quarantine(str(tmp_path / "junk"), "../" * 50 + "x", b"torn", keep=1)
        assert len(blobs_of_files(tmp_path / "junk")) == 1

    def test_link_is_not_followed_when_collecting(self, tmp_path: Path) -> None:
        """A planted link to other files never makes them go."""
        (tmp_path / "other").mkdir()
        for number in range(3):
            (tmp_path / "other" / f"{number}.damaged").write_text("precious")
        os.symlink(tmp_path / "other", tmp_path / "q")
        quarantine(str(tmp_path / "q"), example(1), b"torn", keep=1)
        assert len(list((tmp_path / "other").glob("[012].damaged"))) == 3


def blobs_of_files(root: Path) -> list[Path]:
    return [path for path in root.glob("*.damaged") if path.is_file()]
