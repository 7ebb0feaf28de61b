"""kcl.inspect.doctor.finding: what a check finds."""

from __future__ import annotations

from kcl.inspect.doctor.finding import NOTE, OK, PROBLEM, SEVERITIES, WARNING, Finding


def test_severities():
    """Severities are ordered from fine to broken."""
    assert SEVERITIES == (OK, NOTE, WARNING, PROBLEM)


def test_without_a_cure():
    """A finding that needs nothing has an empty cure."""
    assert Finding(OK, "12 GB are free").cure == ""
