"""kcl.cache.quarantine: damaged entries are kept, bounded, and never in the way."""

from __future__ import annotations

import os
from pathlib import Path

from store_contract import example

from kcl.cache import quarantine


def blobs(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(root.glob("*.damaged"))]


class TestQuarantine:
    def test_keeps_blob_and_reason(self, tmp_path: Path) -> None:
        """The bytes and the reason lie side by side, under a name that holds label and digest."""
        quarantine.put(str(tmp_path / "q"), example(1, "device", "axpy"), b"torn", "the digest does not fit")
        damaged, reason = sorted((tmp_path / "q").iterdir())
        assert damaged.read_bytes() == b"torn"
        assert example(1, "", "axpy") in damaged.name
        assert reason.read_text() == f"{example(1, 'device', 'axpy')}\nthe digest does not fit\n"

    def test_bounded(self, tmp_path: Path) -> None:
        """Above the number to keep the oldest go, with their reasons."""
        for number in range(10):
            quarantine.put(str(tmp_path / "q"), example(number % 2), b"%d" % number, "reason", keep=3)
        assert blobs(tmp_path / "q") == [b"7", b"8", b"9"]
        assert len(list((tmp_path / "q").iterdir())) == 6

    def test_foreign_files_stay(self, tmp_path: Path) -> None:
        """Files of other names are neither counted nor removed."""
        (tmp_path / "q").mkdir(0o700)
        (tmp_path / "q" / "README").write_text("mine")
        for _ in range(3):
            quarantine.put(str(tmp_path / "q"), example(1), b"torn", "reason", keep=1)
        assert (tmp_path / "q" / "README").exists()
        assert len(blobs(tmp_path / "q")) == 1

    def test_nothing_is_raised(self, tmp_path: Path) -> None:
        """A file in its place, a loose or missing directory, junk inside: a put does what it can and is silent."""
        (tmp_path / "file").write_text("precious")
        quarantine.put(str(tmp_path / "file"), example(1), b"torn", "reason")
        quarantine.put(str(tmp_path / "nul\0"), example(1), b"torn", "reason")
        assert (tmp_path / "file").read_text() == "precious"
        (tmp_path / "loose").mkdir()
        (tmp_path / "loose").chmod(0o777)
        quarantine.put(str(tmp_path / "loose"), example(1), b"torn", "reason")
        assert list((tmp_path / "loose").iterdir()) == []
        (tmp_path / "junk").mkdir(0o700)
        (tmp_path / "junk" / "0.damaged").mkdir()
        quarantine.put(str(tmp_path / "junk"), "../" * 50 + "x", b"torn", "\ud800", keep=1)
        assert len(blobs_of_files(tmp_path / "junk")) == 1

    def test_link_is_not_followed_when_collecting(self, tmp_path: Path) -> None:
        """A planted link to other files never makes them go."""
        (tmp_path / "other").mkdir()
        for number in range(3):
            (tmp_path / "other" / f"{number}.damaged").write_text("precious")
        os.symlink(tmp_path / "other", tmp_path / "q")
        quarantine.put(str(tmp_path / "q"), example(1), b"torn", "reason", keep=1)
        assert len(list((tmp_path / "other").glob("[012].damaged"))) == 3


def blobs_of_files(root: Path) -> list[Path]:
    return [path for path in root.glob("*.damaged") if path.is_file()]
