"""kcl.record.evidence: what explains a later miss, and the directories that code may name."""

from __future__ import annotations

from kcl.record.evidence import Evidence, site_of


def test_own_directory():
    """Code may name the directory of its module."""
    assert Evidence("/home/me/project", {}, asked=False).names() == ["/home/me/project"]


def test_directories_above():
    """Code that asks where it stands may name the directories above as well."""
    assert Evidence("/home/me", {}, asked=True).names() == ["/home/me", "/home"]
    assert Evidence("", {}, asked=True).names() == []


def test_written():
    """Paths may stand in texts and in values of the key."""
    assert Evidence("", {"code f": "open('/x')"}, False, values=("'/y'",)).written == ["open('/x')", "'/y'"]


def test_parameters():
    """The texts of the parameters are those of the record, by name; there are none without a record."""
    beside = [["kcl", "1"], ["parameter block", "32"], ["parameter names", "('x', 'y')"]]
    assert Evidence("", {}, False, record={"beside": beside}).parameters == [("block", "32"), ("names", "('x', 'y')")]
    assert Evidence("", {}, False).parameters == []


def test_site_of():
    """A function stands in a file, named without its folder, and begins in a line."""
    line = test_site_of.__code__.co_firstlineno
    assert site_of(test_site_of) == f"test_evidence.py:{line}"
