"""The program that runs: its short name, and the path that tells it from others."""

from __future__ import annotations

import os
import sys
import zlib

from kcl.base import settings


def driver_name(program: str | None = None) -> str:
    """Return the short name of a program, by default of this one; empty where it is unknown.

    A package is named by its folder. What has no file that is known has a word for a name, as "notebook" or "-c".
    """
    path = program_path() if program is None else program
    if not os.path.isabs(path):
        return path.partition(" ")[0]
    return os.path.basename(path.removesuffix(f"{os.sep}__main__.py"))


def program_path() -> str:
    """Return what tells this program from others: the path of its file, or of a package's module `__main__`.

    A worker has that of its parent; one of pytest-xdist has the session.
    """
    main, arguments = sys.modules.get("__main__"), getattr(sys, "argv", None)
    first = arguments[0] if isinstance(arguments, list) and arguments else ""
    if not isinstance(first, str):
        return ""
    if os.path.basename(first) == "ipykernel_launcher.py":
        named = settings.variable("JPY_SESSION_NAME") or getattr(main, "__vsc_ipynb_file__", "")
        return os.path.abspath(named) if named else f"notebook {sys.argv}"
    # With a specification Python, or the parent, has set the argument.
    if getattr(main, "__spec__", None) is None:
        first = getattr(main, "__file__", None) or first
    # There is no file: the program is a text, or comes from stdin.
    if first[:1] in ("", "-", "<"):
        session = settings.variable("PYTEST_XDIST_TESTRUNUID")
        if session and "execnet" in sys.modules:
            return f"pytest {session}"
        return f"{first} {zlib.crc32(repr(sys.orig_argv).encode())}" if first else ""
    return os.path.abspath(first)
