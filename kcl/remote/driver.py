"""The driver that runs here, the names of its packs, and what the settings say of its remote.

    name   = digest "/" id of the signing key, or "unsigned"
    digest = SHA-256 over the driver's name, kcl, Python and the distributions that generate and build

No device is part of a name, since the first stage knows none: a pack joins the devices that pushed to it. The name is
a hint. Every entry in a pack is found by its own key, so a pack of another driver costs time only.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import re
import sys
import sysconfig
from contextlib import suppress
from typing import NamedTuple

import kcl
from kcl.base import settings
from kcl.base.settings.file import toml
from kcl.errors import CacheFault
from kcl.remote.seal import UNSIGNED, PublicKey, trusted
from kcl.remote.stores import RemoteFault

_DISTRIBUTIONS = ("islpy", "loopy", "numpy", "pymbolic", "pyopencl", "pytools")
_KEYS = 8  # whose packs are asked for
_LARGE = 1 << 20  # bytes of a pyproject.toml


class Project(NamedTuple):
    """A project: its name, and what gave it the name."""

    name: str
    source: str


def name() -> str:
    """Return the name of the project that runs here."""
    return project().name


def project() -> Project:
    """Return the project: `remote_name`, else what the folder of the program says, or the working directory.

    The working directory counts for a program without a file, or with one in an environment or in Python's library. The
    nearest `pyproject.toml` names a project, else the address of git's origin, else the folder.
    """
    if chosen := settings.read().remote_name:
        return Project(chosen, "remote_name")
    folder = _folder()
    above = [folder]
    while above[-1] != os.path.dirname(above[-1]):
        above.append(os.path.dirname(above[-1]))
    for place in above:
        if found := _of_pyproject(os.path.join(place, "pyproject.toml")):
            return Project(found, os.path.join(place, "pyproject.toml"))
    for place in above:
        if found := _of_origin(os.path.join(place, ".git", "config")):
            return Project(found, f"the origin of {place}")
    return Project(os.path.basename(folder) or "root", f"the folder {folder}")


def _folder() -> str:
    """Return the folder of the program that runs, or the working directory."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    file = str(main or (getattr(sys, "argv", None) or [""])[0])
    place = os.path.realpath(file)
    tools = (sys.prefix, sys.base_prefix, settings.PACKAGE, *sysconfig.get_paths().values())
    if os.path.isfile(place) and not any(
        place.startswith(os.path.join(os.path.realpath(one), "")) for one in tools
    ):
        return os.path.dirname(place)
    return os.path.realpath(os.getcwd())


def _of_pyproject(path: str) -> str:
    """Return the name in a `pyproject.toml`: `remote_name` of `[tool.kcl]`, or that of the project; empty without."""
    try:
        with open(path, "rb") as stream:
            found = toml(stream.read(_LARGE).decode())
        kcl_names, project_names = found.get("tool", {}).get("kcl", {}), found.get("project", {})
        return str(kcl_names.get("remote_name") or project_names.get("name") or "")
    except (OSError, ValueError, ImportError, AttributeError, RecursionError):
        return ""


def _of_origin(path: str) -> str:
    """Return the last two words of the path of origin in a file of git's settings; empty without."""
    git = configparser.ConfigParser(strict=False, interpolation=None, allow_no_value=True)
    try:
        git.read(path, "utf-8")
        address = git['remote "origin"']["url"].rstrip("/").removesuffix(".git")
    except (OSError, ValueError, KeyError, AttributeError, configparser.Error):
        return ""
    return "/".join(re.split("[/:]+", address.rpartition("@")[2])[-2:])


def digest(driver: str) -> str:
    """Return the first half of the names of a driver's packs."""
    from importlib import metadata

    parts = [
        driver,
        kcl.__version__,
        f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:2]))}",
    ]
    for one in _DISTRIBUTIONS:
        with suppress(metadata.PackageNotFoundError):
            parts.append(f"{one} {metadata.version(one)}")
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def pack_name(driver: str, key: PublicKey | None) -> str:
    """Return the name of the pack that a key has signed, or nobody."""
    return f"{digest(driver)}/{key.id if key is not None else UNSIGNED}"


def believed(address: str) -> list[PublicKey | None]:
    """Return the keys whose packs are loaded, and None where no signature is needed: 8 at most.

    Raises RemoteFault if no pack of this remote is believed, and as `seal.trusted`.
    """
    keys: list[PublicKey | None] = [*trusted(), *([None] if is_unsigned(address) else [])]
    if not keys:
        cure = "trust a key with `kcl key trust LINE`, or list the address as remote_unsigned in the settings file"
        raise RemoteFault(f"no key is trusted: {cure}")
    return keys[:_KEYS]


def is_unsigned(address: str) -> bool:
    """Return True if the settings files list this very address as one whose packs need no signature."""
    return address in settings.read().remote_unsigned


def terms(address: str) -> str:
    """Return a digest of what decides which packs are believed: a note on a pull under other terms says nothing."""
    try:
        keys = str(believed(address))
    except (OSError, CacheFault) as error:  # the child says so
        keys = str(error)
    return hashlib.sha256(json.dumps([address, keys]).encode()).hexdigest()[:16]
