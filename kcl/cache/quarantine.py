"""Damaged entries, kept for an inspection of the damage; bounded, and never in the way."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.stores.directory import publish
from kcl.errors import CacheFault

_SIZE_LIMIT = 64 << 20


def put(folder: str, address: str, blob: bytes, reason: str, keep: int = 16) -> None:
    """Keep a blob and the reason of its refusal, beside the newest others; raise nothing.

    Files are named ``<nanoseconds>-<pid>-<label and digest>.damaged``; the names sort by age. A text file beside each
    has the reason.
    """
    with suppress(OSError, CacheFault, ValueError):
        trust.make_trusted(folder)
        name = f"{time.time_ns():020d}-{os.getpid()}-{address.rpartition('/')[2][-128:]}"
        path = os.path.join(folder, name)
        publish(path + places.REASON, f"{address}\n{reason}\n".encode("utf-8", "backslashreplace"))
        publish(path + places.DAMAGED, blob[:_SIZE_LIMIT])
    with suppress(OSError, ValueError):
        ours = [name for name in os.listdir(folder) if name.endswith((places.DAMAGED, places.REASON))]
        for name in sorted(ours)[: 0 if os.path.islink(folder) else -2 * keep]:
            os.unlink(os.path.join(folder, name))
