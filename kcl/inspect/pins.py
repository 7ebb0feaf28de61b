"""Pins: the kernels that stay, however small the bounds on the stores are.

A pin is the name of a kernel, a shell pattern of names, or the digest of an entry, of which twelve digits are
enough. The pins are one small file.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable
from contextlib import suppress

from kcl.cache import places
from kcl.cache.stores.base import address
from kcl.cache.stores.directory import Directory
from kcl.errors import CacheFault

_ADDRESS = address("0" * 64, label="pins")
_DIGITS = 12  # of a digest, as `kcl ls` prints it


def read() -> list[str]:
    """Return the pins in their order; none where the file cannot be read."""
    with suppress(OSError, CacheFault, ValueError):
        found = json.loads(_store().get(_ADDRESS) or b"[]")
        return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
    return []


def write(pins: Iterable[str]) -> None:
    """Save these pins as the only ones; raises `OSError` or `CacheFault`."""
    _store().put(_ADDRESS, json.dumps(sorted(set(pins))).encode())


def hold(pins: Iterable[str], kernel: str, digest: str) -> bool:
    """Return True if one of the pins names this kernel, or the entry with this digest."""
    return any((digest.startswith(one) and len(one) >= _DIGITS) or fnmatch.fnmatchcase(kernel, one) for one in pins)


def _store() -> Directory:
    return Directory(places.own(places.PINS))
