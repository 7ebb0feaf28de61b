"""The name of the project to which the running program belongs, which is a part of the names of its packs."""

from __future__ import annotations

import os
import pathlib
import re

from kcl.base import settings
from kcl.base.settings.file import toml
from kcl.cache import remote_use

_LARGE = 1 << 20  # bytes of a pyproject.toml, or of git's settings


def name() -> str:
    """Return the name of the running project: the one that is written somewhere, else that of its folder."""
    return written() or os.path.basename(remote_use.folder()) or "root"


def written() -> str:
    """Return the name that is written for the project; empty if none is.

    It is looked for in the setting `remote_name`, then in the `pyproject.toml` files in and above the folder of the
    program, then in the address of git's origin.
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
    # The file may be any file of that name; if it cannot be read, it gives no name.
    except (OSError, ValueError, ImportError, AttributeError, RecursionError):
        return ""


def _of_origin(path: pathlib.Path) -> str:
    """Return the last two parts of the origin's path ("owner/name") from a git configuration; empty if it has none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            text = stream.read(_LARGE)
    except OSError:
        return ""
    match = re.search(r'^\[remote "origin"\]$[^\[]*?^\s*url\s*=\s*(\S+)', text, re.MULTILINE)
    address = match[1].rstrip("/").removesuffix(".git") if match else ""
    # The part before "@" has the user and the password.
    return "/".join(re.split("[/:]+", address.rpartition("@")[2])[-2:])
