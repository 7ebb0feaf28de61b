"""The project that runs here: what names its packs, however and wherever a program of it is started."""

from __future__ import annotations

import os
import pathlib
import re

from kcl.base import settings
from kcl.base.settings.file import toml
from kcl.cache import remote_use

_LARGE = 1 << 20  # bytes of a pyproject.toml, or of git's settings


def name() -> str:
    """Return the name of the project that runs here: a written one, else that of its folder."""
    return written() or os.path.basename(remote_use.folder()) or "root"


def written() -> str:
    """Return the name that the settings or a file give the project; empty if none does.

    That is `remote_name`, else what the nearest `pyproject.toml` above the folder of the program says, else the address
    of git's origin.
    """
    if chosen := settings.read().remote_name:
        return chosen
    here = pathlib.Path(remote_use.folder())
    above = [here, *here.parents]
    names = (
        *(_of_pyproject(place / "pyproject.toml") for place in above),
        *(_of_origin(place / ".git" / "config") for place in above),
    )
    return next(filter(None, names), "")


def _of_pyproject(path: pathlib.Path) -> str:
    """Return the name in a `pyproject.toml`: `remote_name` of `[tool.kcl]`, or that of the project; empty without."""
    try:
        with open(path, "rb") as stream:
            tables = toml(stream.read(_LARGE).decode())
        kcl_names, project_names = tables.get("tool", {}).get("kcl", {}), tables.get("project", {})
        return str(kcl_names.get("remote_name") or project_names.get("name") or "")
    # Any file may lie there: one that cannot be read names nothing.
    except (OSError, ValueError, ImportError, AttributeError, RecursionError):
        return ""


def _of_origin(path: pathlib.Path) -> str:
    """Return the last two words of the path of origin in a file of git's settings; empty without."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            text = stream.read(_LARGE)
    except OSError:
        return ""
    match = re.search(r'^\[remote "origin"\]$[^\[]*?^\s*url\s*=\s*(\S+)', text, re.MULTILINE)
    address = match[1].rstrip("/").removesuffix(".git") if match else ""
    # User and password of the address are no part of the name.
    return "/".join(re.split("[/:]+", address.rpartition("@")[2])[-2:])
