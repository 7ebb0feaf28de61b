"""The names of the packs of a project, and what the settings say of its remote.

    name   = digest "/" id of the signing key, or "unsigned"
    digest = SHA-256 over the project's name, kcl, Python and the distributions that generate and build

No device is part of a name, since the first stage knows none: a pack joins the devices that pushed to it. The name is
a hint. Every entry in a pack is found by its own key, so a pack of another project costs time only.
"""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import suppress

import kcl
from kcl.base import settings
from kcl.errors import CacheFault
from kcl.remote.seal import UNSIGNED, PublicKey, trusted
from kcl.remote.stores import RemoteFault

_DISTRIBUTIONS = ("islpy", "loopy", "numpy", "pymbolic", "pyopencl", "pytools")


def digest(project: str) -> str:
    """Return the first half of the names of a project's packs."""
    from importlib import metadata

    parts = [
        project,
        kcl.__version__,
        f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:2]))}",
    ]
    for name in _DISTRIBUTIONS:
        with suppress(metadata.PackageNotFoundError):
            parts.append(f"{name} {metadata.version(name)}")
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def pack_name(project: str, key: PublicKey) -> str:
    """Return the name of the pack that a key has signed."""
    return f"{digest(project)}/{key.id}"


def trusted_keys(address: str) -> list[PublicKey]:
    """Return the keys whose packs are loaded, and UNSIGNED where no signature is needed.

    Raises RemoteFault if no pack of this remote is believed, and as `seal.trusted`.
    """
    keys = [*trusted(), *([UNSIGNED] if is_unsigned(address) else [])]
    if not keys:
        cure = "trust a key with `kcl key trust LINE`, or list the address as remote_unsigned in the settings file"
        raise RemoteFault(f"no key is trusted: {cure}")
    return keys


def is_unsigned(address: str) -> bool:
    """Return True if the settings files list this very address as one whose packs need no signature."""
    return address in settings.read().remote_unsigned


def terms(address: str) -> str:
    """Return a digest of what decides which packs are believed."""
    try:
        keys = str(trusted_keys(address))
    except (OSError, CacheFault) as error:
        # The child says so.
        keys = str(error)
    return hashlib.sha256(json.dumps([address, keys]).encode()).hexdigest()[:16]
