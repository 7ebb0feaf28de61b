"""The finding of a check."""

from __future__ import annotations

from typing import NamedTuple

OK, NOTE, WARNING, PROBLEM = SEVERITIES = ("ok", "note", "warning", "problem")


class Finding(NamedTuple):
    """The finding of one check: its words, its severity, and its cure.

    A problem keeps something from working, a warning costs time or space, a note is good to know.
    """

    severity: str
    words: str
    cure: str = ""
