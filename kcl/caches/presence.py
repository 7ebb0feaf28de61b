"""Which owners of caches, OpenCL drivers among them, are on this machine; loads none of them.

A driver is here where an ICD file names its library. So is any owner whose package is installed, or whose version the
system tells. What cannot be known, as on systems without ICD files, counts as being here.
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
    """Tell whether the driver of an OpenCL platform is on this machine; of a name that is in no row it may be."""
    owners = [name for name, row in ROWS.items() if platform in row.platforms]
    return not owners or any(map(is_here, owners))


def _named() -> str:
    """Return the libraries that the ICD files name where the ICD loaders look, in the environment as it is now."""
    given = [settings.variable(name) for name in ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES")]
    return "\n".join(text for place in (*given, *FOLDERS) if place for text in _texts(place))


def _texts(place: str) -> Iterator[str]:
    """Yield what ICD files say: those of a folder, or the files and libraries of a list."""
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
