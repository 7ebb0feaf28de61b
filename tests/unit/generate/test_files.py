"""kcl.generate.files: one digest for each package, and the note that says when its files are read again."""

import os
import shutil
import time
import zipfile

import pytest

from kcl.generate import files


@pytest.fixture
def package(tmp_path):
    root = tmp_path / "place" / "thing"
    (root / "deep").mkdir(parents=True)
    (root / "__init__.py").write_text("A = 1\n")
    (root / "deep" / "module.py").write_text("B = 1\n")
    return root


@pytest.fixture
def read(monkeypatch):
    """Return the list of the names of files that are read from now on."""
    found = []

    def opened(path, *arguments):
        found.append(os.path.basename(path))
        return open(path, *arguments)

    monkeypatch.setattr(files, "open", opened, raising=False)
    return found


def let_pass(monkeypatch, seconds):
    later = time.time_ns() + seconds * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: later)


def digest(root):
    return files.digests({"thing": ((root.name, str(root)),)})["thing"][0]


class TestDigests:
    @pytest.mark.parametrize(
        ("name", "counts"),
        [
            ("deep/module.py", True),
            ("deep/new.py", True),
            ("new.so", True),
            ("new.pyc", True),
            ("notes.txt", False),
            ("__pycache__/deep.py", False),
        ],
    )
    def test_content(self, package, name, counts):
        """The content of each file of source or code counts, that of no other."""
        before = digest(package)
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text("C = 1\n")
        assert (digest(package) != before) is counts

    def test_place(self, package, tmp_path):
        """Neither the place of the files nor their times count."""
        other = tmp_path / "other" / "thing"
        shutil.copytree(package, other)
        os.utime(other / "__init__.py", (5, 5))
        assert digest(other) == digest(package)

    def test_links(self, package):
        """Files below a link count; a link to a folder above it leads nowhere."""
        (package / "around").symlink_to(package.parent)
        before = digest(package)
        shutil.move(package / "deep", package.parent / "far")
        (package / "deep").symlink_to(package.parent / "far")
        assert digest(package) == before
        (package.parent / "far" / "module.py").write_text("B = 2\n")
        assert digest(package) != before

    def test_archive(self, tmp_path):
        """A package in an archive counts by the content of the archive."""
        found = []
        for text in "A = 1", "A = 2", "A = 1":
            with zipfile.ZipFile(tmp_path / "modules.zip", "w") as archive:
                archive.writestr(zipfile.ZipInfo("thing/__init__.py"), text)
            found.append(digest(tmp_path / "modules.zip" / "thing" / "__init__.py"))
        assert found[0] == found[2] != found[1]

    def test_record(self, tmp_path):
        """Of a record the lines of modules count, in any order."""
        record, found = tmp_path / "RECORD", []
        for lines in (
            "b.py,sha256=1,1\na.py,sha256=2,1\n",
            "a.py,sha256=2,1\n../bin/a,sha256=3,1\nb.py,sha256=1,1\na.pyc,,\n",
            "b.py,sha256=1,1\na.py,sha256=3,1\n",
        ):
            record.write_text(lines)
            found.append(digest(record))
        assert found[0] == found[1] != found[2]


class TestNote:
    def test_read_once(self, package, read, monkeypatch):
        """Files that have not changed for some time are read once; a changed one is seen, whatever its time says."""
        let_pass(monkeypatch, 900)
        before = digest(package)
        assert digest(package) == before
        assert read == ["__init__.py", "module.py"]
        status = os.stat(package / "__init__.py")
        (package / "__init__.py").write_text("A = 2\n")
        os.utime(package / "__init__.py", ns=(status.st_atime_ns, status.st_mtime_ns))
        assert digest(package) != before
        assert len(read) == 4

    def test_recent(self, package, read, monkeypatch):
        """What changed in the last two seconds is read again."""
        let_pass(monkeypatch, 1)
        assert digest(package) == digest(package)
        assert len(read) == 4

    def test_unreadable(self, package):
        """A package with a file that cannot be read counts as in no other process."""
        (package / "gone.py").symlink_to("nothing")
        assert digest(package) != digest(package)

    def test_unreadable_folder(self, package, monkeypatch):
        """So does one with a folder that cannot be read, or that has just gone."""
        listing = os.scandir

        def refused(path):
            if os.path.basename(path) == "deep":
                raise PermissionError(path)
            return listing(path)

        monkeypatch.setattr(os, "scandir", refused)
        assert digest(package) != digest(package)

    def test_no_cache_directory(self, package, tmp_path, monkeypatch):
        before = digest(package)
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        assert digest(package) == before


def test_contents(package):
    """A digest leads back to the files that it is of, for an explanation; that of another machine leads to none."""
    before = files.contents(digest(package))
    assert [*before] == ["thing/__init__.py", "thing/deep/module.py"]
    (package / "__init__.py").write_text("A = 2\n")
    now = files.contents(digest(package))
    assert [name for name in now if now[name] != before[name]] == ["thing/__init__.py"]
    assert files.contents("0" * 64) == {}


def test_digest_of(package):
    """The digest of a file or a folder does not depend on its name."""
    before = files.digest_of(str(package))
    package.rename(package.parent / "other")
    assert files.digest_of(str(package.parent / "other")) == before
