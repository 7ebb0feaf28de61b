"""kcl.cache.faults: what is said of a fault, once, and what is kept of a damaged entry."""

import os
import re

import pytest
from harness import mounted
from store_contract import example

from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.faults import CacheWarning, quarantine, warn_once
from kcl.cache.key import Key, Part
from kcl.cache.lead import Lead


@pytest.mark.filterwarnings("error")
def test_warnings_are_errors(capsys, monkeypatch):
    """Where a warning is an error its line is written on stderr, once; where nobody reads that, nothing happens."""
    for _time in range(2):
        warn_once("full", "no space is left")
    said = capsys.readouterr().err
    assert re.fullmatch(r"test_faults\.py:\d+: CacheWarning: no space is left\n", said)
    monkeypatch.setattr("sys.stderr", None)
    warn_once("other", "another fault")


@pytest.mark.faults
def test_a_context_of_python_is_no_line_of_the_program():
    with (
        pytest.warns(CacheWarning) as warned,
        layers.binary().reporting("complete entries"),
    ):
        raise OSError(5, "Input/output error")
    assert warned[0].filename == __file__


@pytest.mark.faults
@pytest.mark.parametrize("inodes", [2, 4, 6])
def test_no_inodes(tmp_path, monkeypatch, recwarn, inodes):
    """Where a file system has no inode left, for a folder, a lock or an entry, one warning says so."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, f"size=1m,nr_inodes={inodes},mode=0700"):
        monkeypatch.setenv("KCL_CACHE_DIR", str(disk))
        for layer in (layers.generator(), layers.binary()):
            for number in range(3):
                key = Key([Part("number", str(number))])
                with Lead("one") as lead:
                    lead.take(layer, key.digest)
                    layer.publish(key.digest, Entry(key, {}, {"text": b"1"}))
    texts = [str(warned.message) for warned in recwarn.list if warned.category is CacheWarning]
    (full,) = [text for text in texts if "no space or no inode is left" in text]
    assert str(disk) in full


class TestQuarantine:
    def test_bounded(self, tmp_path):
        """The bytes lie under a name that holds label and digest; above a number the oldest go, and no other file."""
        folder = tmp_path / "q"
        folder.mkdir(0o700)
        (folder / "README").write_text("mine")
        for number in range(10):
            quarantine(str(folder), example(1, "device", "axpy"), b"%d" % number, keep=3)
        assert blobs(folder) == [b"7", b"8", b"9"]
        assert all(example(1, "", "axpy") in path.name for path in folder.glob("*.damaged"))
        assert (folder / "README").exists()

    def test_nothing_is_raised(self, tmp_path):
        """A file in its place, a loose or missing directory, junk inside: it does what it can and is silent."""
        file, loose, junk = (tmp_path / name for name in ("file", "loose", "junk"))
        file.write_text("precious")
        loose.mkdir()
        loose.chmod(0o777)
        for folder in (file, tmp_path / "nul\0", loose):
            quarantine(str(folder), example(1), b"torn")
        assert file.read_text() == "precious"
        assert list(loose.iterdir()) == []
        (junk / "0.damaged").mkdir(parents=True, mode=0o700)
        quarantine(str(junk), "../" * 50 + "x", b"torn", keep=1)
        assert blobs(junk) == [b"torn"]

    def test_a_link_is_not_followed_when_collecting(self, tmp_path):
        (tmp_path / "other").mkdir()
        for number in range(3):
            (tmp_path / "other" / f"{number}.damaged").write_text("precious")
        os.symlink(tmp_path / "other", tmp_path / "q")
        quarantine(str(tmp_path / "q"), example(1), b"torn", keep=1)
        assert len(list((tmp_path / "other").glob("[012].damaged"))) == 3


def blobs(folder):
    """Return the damaged entries in a folder, the oldest first."""
    return [path.read_bytes() for path in sorted(folder.glob("*.damaged")) if path.is_file()]
