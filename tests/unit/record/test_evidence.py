"""kcl.record.evidence: what explains a later miss."""

from __future__ import annotations

from kcl.record.evidence import Evidence, site_of


def test_parameters():
    """The texts of the parameters are those of the record, by name; there are none without a record."""
    beside = [["kcl", "1"], ["parameter block", "32"], ["parameter names", "('x', 'y')"]]
    assert Evidence({}, record={"beside": beside}).parameters == [("block", "32"), ("names", "('x', 'y')")]
    assert Evidence({}).parameters == []


def test_site_of():
    """A function stands in a file, named without its folder, and begins in a line."""
    line = test_site_of.__code__.co_firstlineno
    assert site_of(test_site_of) == f"test_evidence.py:{line}"
