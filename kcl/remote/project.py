"""The project that runs here: what names its packs, however and wherever a program of it is started."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from kcl.base import settings
from kcl.base.settings.file import toml
from kcl.cache import remote_use

_LARGE = 1 << 20  # bytes of a pyproject.toml, or of git's settings


class Project(NamedTuple):
    """A project: its name, and what gave it the name."""

    name: str
    source: str


def name() -> str:
    """Return the name of the project that runs here."""
    return project().name


def project() -> Project:
    """Return the project: `remote_name`, else what the folder of the program says, or the working directory.

    The working directory counts for a program without a file, or with one in an environment or in Python's library, and
    for a child the folder of the process that started it. The nearest `pyproject.toml` names a project, else the address
    of git's origin, else the folder.
    """
    if chosen := settings.read().remote_name:
        return Project(chosen, "remote_name")
    folder = remote_use.folder()
    above = [folder]
    while above[-1] != os.path.dirname(above[-1]):
        above.append(os.path.dirname(above[-1]))
    for place in above:
        if called := _of_pyproject(os.path.join(place, "pyproject.toml")):
            return Project(called, os.path.join(place, "pyproject.toml"))
    for place in above:
        if called := _of_origin(os.path.join(place, ".git", "config")):
            return Project(called, f"the origin of {place}")
    return Project(os.path.basename(folder) or "root", f"the folder {folder}")


def _of_pyproject(path: str) -> str:
    """Return the name in a `pyproject.toml`: `remote_name` of `[tool.kcl]`, or that of the project; empty without."""
    try:
        with open(path, "rb") as stream:
            tables = toml(stream.read(_LARGE).decode())
        kcl_names, project_names = tables.get("tool", {}).get("kcl", {}), tables.get("project", {})
        return str(kcl_names.get("remote_name") or project_names.get("name") or "")
    # Any file may lie there: one that cannot be read names nothing.
    except (OSError, ValueError, ImportError, AttributeError, RecursionError):
        return ""


def _of_origin(path: str) -> str:
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
