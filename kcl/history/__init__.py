"""History: what past processes did, kept on disk: counters and misses, uses of entries, notes for a later command."""

from __future__ import annotations

import os
import sys


def driver_name() -> str:
    """Return the name of the file that this process runs; empty where that cannot be told."""
    arguments = getattr(sys, "argv", None)
    name = arguments[0] if isinstance(arguments, list) and arguments else ""
    return os.path.basename(name) if isinstance(name, str) else ""
