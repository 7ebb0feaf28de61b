"""The presence of the owners of caches, OpenCL drivers among them, on this machine; loads none of them.

A driver is present where an ICD file names its library. An owner is present where its package is installed, or where
the system reports its version. An unknown presence, as on systems without ICD files, counts as present.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress

from kcl.base import settings
from kcl.caches import contents
from kcl.caches.table import ROWS

FOLDERS = (os.path.join(sys.prefix, "etc", "OpenCL", "vendors"), "/etc/OpenCL/vendors")


def is_here(name: str) -> bool:
    """Tell whether the owner of the cache `name` is on this machine."""
    row = ROWS[name]
    library = row.icd or row.library
    if contents.version(name) or sys.platform != "linux" or not (library or row.package):
        return True
    return bool(library) and library in _named()


def is_platform_here(platform: str) -> bool:
    """Tell whether the driver of an OpenCL platform is on this machine; True for a name that is in no row."""
    owners = [name for name, row in ROWS.items() if platform in row.platforms]
    return not owners or any(map(is_here, owners))


def _named() -> str:
    """Return the libraries named by the ICD files in the places of the ICD loaders, in the current environment."""
    given = [settings.variable(name) for name in ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES")]
    return "\n".join(text for place in (*given, *FOLDERS) if place for text in _texts(place))


def _texts(place: str) -> Iterator[str]:
    """Yield the contents of ICD files: the files of a folder, or the files and libraries of a list."""
    with suppress(OSError):
        listed = (
            [os.path.join(place, name) for name in os.listdir(place)]
            if os.path.isdir(place)
            else place.split(os.pathsep)
        )
        for path in listed:
            yield path
            if path.endswith(".icd"):
                with suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
                    yield stream.read(4096)
