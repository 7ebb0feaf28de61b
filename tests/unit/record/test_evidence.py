"""kcl.record.evidence: what explains a later miss, and the directories that code may name."""

from __future__ import annotations

from kcl.record.evidence import Evidence


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
