"""Damaged entries, kept for who wants to know what happened to them; bounded, and never in the way."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from kcl.base.settings import trust
from kcl.cache import places
from kcl.cache.stores.directory import publish
from kcl.errors import CacheFault

_SIZE_LIMIT = 64 << 20


class Quarantine:
    """Keep the newest `keep` damaged blobs, each with the reason in a text file beside it.

    Files are named ``<nanoseconds>-<pid>-<label and digest>.damaged``; the names sort by age.
    """

    def __init__(self, root: str | os.PathLike[str], keep: int = 16) -> None:
        self.location = os.path.abspath(root)
        self.keep = keep

    def put(self, address: str, blob: bytes, reason: str) -> None:
        """Keep a blob and why it was refused; whatever goes wrong, nothing is raised."""
        with suppress(OSError, CacheFault, ValueError):
            trust.make_trusted(self.location)
            name = f"{time.time_ns():020d}-{os.getpid()}-{address.rpartition('/')[2][-128:]}"
            path = os.path.join(self.location, name)
            publish(path + places.REASON, f"{address}\n{reason}\n".encode("utf-8", "backslashreplace"))
            publish(path + places.DAMAGED, blob[:_SIZE_LIMIT])
        self._collect()

    def _collect(self) -> None:
        with suppress(OSError):
            if not os.path.isdir(self.location) or os.path.islink(self.location):
                return
            stems = {_stem(name) for name in os.listdir(self.location)} - {""}
            for stem in sorted(stems, reverse=True)[self.keep :]:
                for suffix in (places.DAMAGED, places.REASON):
                    with suppress(OSError):
                        os.unlink(os.path.join(self.location, stem + suffix))


def _stem(name: str) -> str:
    for suffix in (places.DAMAGED, places.REASON):
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return ""
