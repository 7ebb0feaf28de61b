"""What a check finds."""

from __future__ import annotations

from typing import NamedTuple

OK, NOTE, WARNING, PROBLEM = SEVERITIES = ("ok", "note", "warning", "problem")


class Finding(NamedTuple):
    """What one check found, how bad that is, and what cures it.

    A problem keeps something from working, a warning costs time or space, a note is good to know.
    """

    severity: str
    words: str
    cure: str = ""
