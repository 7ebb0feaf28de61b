"""Do what drive_kcl.py does, without the statistics of kcl: nothing is collected for them, and no record is written.

python drive_unrecorded.py COUNT
"""

from __future__ import annotations

import drive_kcl

from kcl.base import events
from kcl.base.events import Event


def emit(event: Event, *_beside: object) -> None:
    """Count for `kcl.stats()` alone."""
    row = events._state().counters.setdefault(event.layer, dict(events._EMPTY_ROW))
    row[events._COLUMNS[event.outcome]] += 1


if __name__ == "__main__":
    events.emit = emit
    drive_kcl.main()
