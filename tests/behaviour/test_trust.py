"""The risks that doc/explanation/trust.md states: a test for each row.

The rows about what kcl cannot keep away are tested too: what they say is true, and no promise is read into kcl that it
does not give.
"""

import re
import shutil

import pytest
from harness import ROOT
from project import NUMBERS

from kcl.cache.entry import Entry

pytestmark = pytest.mark.one_platform
MINE = b"import os\nos._exit(77)\n"


def test_rows():
    """Every row names a test that is there, and every test of this file has a row."""
    page = (ROOT / "doc" / "explanation" / "trust.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and "shown by" not in line]
    named = re.findall(r"`(\S+\.py)::(?:\w+::)?(\w+)`", page)
    assert len(rows) - len(named) == 1  # root can do everything
    for path, name in named:
        assert f"def {name}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), (path, name)
    here = (ROOT / "tests" / "behaviour" / "test_trust.py").read_text(encoding="utf-8")
    mine = set(re.findall(r"^def (test_\w+)", here, re.M)) - {"test_rows"}
    assert mine == {name for path, name in named if path == "behaviour/test_trust.py"}


def _poison(warm):
    """Do what a program with your rights can do: put an entry whose digests are right and whose code is another."""
    address, entry = warm.row_of("control")
    parts = {**entry.parts, "invoker.py": MINE, "invoker.code": b""}
    other = Entry(entry.key, {**entry.metadata, "code": "another Python"}, parts)
    warm.rows.put(address, other.pack())


def test_own_rights(warm):
    """Whoever may write your directory can run code as you."""
    _poison(warm)
    assert warm.start("inputs").code == 77


def test_outlives_its_maker(warm):
    """What was written stays until it is purged."""
    _poison(warm)
    assert warm.start("inputs").code == 77
    shutil.rmtree(warm.child.cache)
    assert warm.run("inputs").numbers.items() <= NUMBERS.items()


def test_copied(warm, tmp_path):
    """A copied cache is code of the one who made it."""
    _poison(warm)
    shutil.move(warm.child.cache, tmp_path / "theirs")
    assert warm.run("inputs").numbers.items() <= NUMBERS.items()
    warm.finish()
    shutil.rmtree(warm.child.cache)
    shutil.copytree(tmp_path / "theirs", warm.child.cache)
    assert warm.start("inputs").code == 77


def test_readable(warm):
    """Entries hold the OpenCL C and the record of the recipe as plain text."""
    entries = [Entry.unpack(warm.rows.get(address)) for address in warm.rows.scan()]
    parts = [part for entry in entries for part in entry.parts.items()]
    assert any(name == "source.cl" and b"__kernel" in text for name, text in parts)
    assert any(name == "record.json" and b"make_kernel" in text for name, text in parts)
