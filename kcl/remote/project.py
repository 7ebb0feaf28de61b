"""The project that runs here: what names its packs, however and wherever a program of it is started."""

from __future__ import annotations

import os
import pathlib
import re
import sys
from contextlib import suppress

from kcl.base import process, settings
from kcl.base.settings.file import toml

# Only kcl sets this, for the children of a process with a remote. With the underscore it is no setting.
VARIABLE = "_KCL_FOLDER"
_LARGE = 1 << 20  # bytes of a pyproject.toml, or of git's settings


class ProgramFolder:
    """The folder of the program at the first look-up with a remote; a program may leave or remove its directory."""

    def __init__(self) -> None:
        self.path = settings.variable(VARIABLE) or _find_folder()


_program = process.own(ProgramFolder)


def name() -> str:
    """Return the name of the project that runs here: a written one, else that of its folder."""
    return written() or os.path.basename(folder()) or "root"


def written() -> str:
    """Return the name that the settings or a file give the project; empty if none does.

    That is `remote_name`, else what the nearest `pyproject.toml` above the folder of the program says, else the address
    of git's origin.
    """
    if chosen := settings.read().remote_name:
        return chosen
    here = pathlib.Path(folder())
    above = [here, *here.parents]
    names = (
        *(_of_pyproject(place / "pyproject.toml") for place in above),
        *(_of_origin(place / ".git" / "config") for place in above),
    )
    return next(filter(None, names), "")


def folder() -> str:
    """Return the folder that names the project of this process, as of its first look-up with a remote.

    That is the one of its program, or the working directory where that is a tool; in a child that of its parent.
    """
    return _program().path


def _find_folder() -> str:
    file = os.path.realpath(settings.program_path())
    parent = os.path.dirname(file)
    prefixes = (sys.prefix, sys.base_prefix, os.path.join(settings.home(), ".local"))
    bins = [os.path.realpath(os.path.join(prefix, "bin")) for prefix in prefixes]
    libraries = [
        os.path.realpath(path) for path in (os.path.dirname(os.__file__), settings.PACKAGE)
    ]
    is_tool = (
        not {"site-packages", "dist-packages"}.isdisjoint(file.split(os.sep))
        or parent in bins
        or file.startswith(tuple(f"{library}{os.sep}" for library in libraries))
    )
    # The working directory may have been removed.
    with suppress(OSError):
        return parent if os.path.isfile(file) and not is_tool else os.path.realpath(os.getcwd())
    return os.sep


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
