"""kcl.record.surroundings: the parts of a key that are compared with those here."""

from __future__ import annotations

import sys

from kcl.cache.key import Key, Part
from kcl.record import beside
from kcl.record.surroundings import compared


def test_shared_parts():
    """The parts that every program shares are compared, and no other."""
    key = Key([*beside.parts(True), Part("record", "1" * 64), Part("argument x", "<f4")])
    mine, here = compared(key)
    assert mine == here == Key(beside.parts(True))


def test_parts_of_elsewhere():
    """A part of elsewhere stands beside its value here; one that is absent here has none."""
    parts = [Part("optimize", "7"), Part("distribution nobody-has-this", "1.0"), Part("argument checks", "skipped")]
    mine, here = compared(Key(parts))
    assert mine == Key(parts)
    assert dict(here.parts) == {"optimize": str(sys.flags.optimize), "distribution nobody-has-this": "absent"}


def test_only_where_loopy_generates(monkeypatch):
    """A switch of loopy counts only for keys of loopy."""
    monkeypatch.setenv("_LOOPY_SKIP_ARG_CHECKS", "1")
    for with_loopy in (True, False):
        mine, here = compared(Key(beside.parts(with_loopy)))
        assert (mine != here) is with_loopy
