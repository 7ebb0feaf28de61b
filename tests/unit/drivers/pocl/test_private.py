"""kcl.drivers.pocl.private: the helper's own PoCL cache, and what it reads of the user's."""

from __future__ import annotations

import os
import pathlib

import pytest

from kcl.drivers.pocl.private import ACCESSED, BITCODE, WorkCache

PLACE = "AB/" + "C" * 37


@pytest.fixture
def private(tmp_path):
    """A private cache."""
    (tmp_path / "private").mkdir()
    return WorkCache(str(tmp_path / "private"))


def program(root: pathlib.Path, place: str = PLACE, content: bytes = b"bitcode") -> pathlib.Path:
    """Write a program as PoCL leaves it."""
    folder = root / place
    folder.mkdir(parents=True)
    (folder / BITCODE).write_bytes(content)
    (folder / ACCESSED).write_bytes(b"")
    return folder


def test_seeded(private, tmp_path):
    """Bitcode of the user's programs is copied, and nothing else; a seeded program was not built."""
    program(tmp_path / "user")
    private.seed(str(tmp_path / "user"), since=0.0)
    assert private.files(PLACE) == {f"/{BITCODE}": b"bitcode"}
    with pytest.raises(ValueError, match="0 programs"):
        private.used()


def test_old_programs(private, tmp_path):
    """What was compiled before is not copied."""
    folder = program(tmp_path / "user")
    os.utime(folder, (1e9, 1e9))
    for path in folder.iterdir():
        os.utime(path, (1e9, 1e9))
    private.seed(str(tmp_path / "user"), since=2e9)
    assert private.files(PLACE) == {}


def test_link_is_not_followed(private, tmp_path):
    """A link in the user's cache is not read."""
    (tmp_path / "secret").write_bytes(b"secret")
    folder = tmp_path / "user" / PLACE
    folder.mkdir(parents=True)
    (folder / BITCODE).symlink_to(tmp_path / "secret")
    private.seed_one(str(tmp_path / "user"), PLACE)
    assert private.files(PLACE) == {}


def test_used(private):
    """The one program that was built is named; after it is forgotten there is none."""
    program(pathlib.Path(private.path))
    assert private.used() == PLACE
    private.forget(PLACE)
    with pytest.raises(ValueError, match="0 programs"):
        private.used()


def test_two_programs(private):
    """Two programs where one was built are an error."""
    program(pathlib.Path(private.path))
    program(pathlib.Path(private.path), "CD/" + "E" * 37)
    with pytest.raises(ValueError, match="2 programs"):
        private.used()
    private.clear()
    assert private.files(PLACE) == {}


def test_stubs(private):
    """A stub stands where PoCL looks for a generic function, unless one is there."""
    private.plant(PLACE, {"/f/0-0-0/f.so": b"real"})
    assert private.plant_stubs(PLACE, ["f", "g"]) == ["/g/0-0-0/g.so"]
    assert private.files(PLACE)["/f/0-0-0/f.so"] == b"real"
    assert private.files(PLACE)["/g/0-0-0/g.so"].startswith(b"\x7fELF")
