"""What a process with a remote keeps: the work to do at its end, and the folder that names its project."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from kcl.base import port, process, settings

# Set by kcl for the children of a process with a remote. The underscore shows that it is no setting.
_FOLDER = "_KCL_FOLDER"


class Ending:
    """The end of a process that looked something up while there was a remote."""

    def __init__(self) -> None:
        settings.hand_down(_FOLDER, folder())

    def at_exit(self) -> None:
        """Leave what this process used for the next push."""
        port("remote ending").at_exit()

    def in_worker(self) -> None:
        """Do the work of `at_exit` now, since a worker may be killed before its end."""
        port("remote ending").in_worker()


class Folder:
    """The folder of the program, kept from the first look-up on: the program may change or remove its directory."""

    def __init__(self) -> None:
        self.path = settings.variable(_FOLDER) or _folder()


_ending = process.own(Ending)
_program = process.own(Folder)


def begin() -> None:
    """Note that this process uses a remote. The first call makes the state whose `at_exit` does the work at the end."""
    _ending()


def folder() -> str:
    """Return the folder that names the project of this process, as of its first look-up with a remote.

    That is the folder of its program, or the working directory if the program is an installed tool. A child has that of
    its parent.
    """
    return _program().path


def _folder() -> str:
    # The working directory may have been removed.
    with suppress(OSError):
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        place = os.path.realpath(str(main or (getattr(sys, "argv", None) or [""])[0]))
        parent = os.path.dirname(place)
        bins = [os.path.join(prefix, "bin") for prefix in (sys.prefix, sys.base_prefix)]
        bins.append(os.path.join(settings.home(), ".local", "bin"))
        tools = (os.path.dirname(os.__file__), settings.PACKAGE)
        is_tool = (
            not {"site-packages", "dist-packages"}.isdisjoint(place.split(os.sep))
            or parent in map(os.path.realpath, bins)
            or any(place.startswith(os.path.join(os.path.realpath(tool), "")) for tool in tools)
        )
        return parent if os.path.isfile(place) and not is_tool else os.path.realpath(os.getcwd())
    return os.sep
