"""The presence of the owners of caches, OpenCL drivers among them, on this machine; loads none of them.

A driver is present if an ICD file names its library, and a package if it is installed. On systems without ICD files
every owner counts as present.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from kcl.base import settings
from kcl.caches import contents
from kcl.caches.table import ROWS

FOLDERS = (os.path.join(sys.prefix, "etc", "OpenCL", "vendors"), "/etc/OpenCL/vendors")


def is_here(name: str) -> bool:
    """Return True if the owner of the cache `name` is on this machine."""
    icd = ROWS[name].icd
    return sys.platform != "linux" or bool(icd and icd in _named()) or bool(contents.version(name))


def is_platform_here(platform: str) -> bool:
    """Return True if the driver of an OpenCL platform is on this machine, or if no row has its name."""
    owners = [name for name, row in ROWS.items() if platform in row.platforms]
    return not owners or any(map(is_here, owners))


def _named() -> str:
    """Return the libraries named by the ICD files, and the lists of libraries, that the ICD loaders look at."""
    given = [settings.variable(name) for name in ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES")]
    listed = [part for one in given if one for part in one.split(os.pathsep)]
    files = [file for place in (*listed, *FOLDERS) for file in (Path(place), *Path(place).glob("*.icd"))]
    texts = []
    for file in files:
        with suppress(OSError):
            texts.append(file.read_text("utf-8", "replace"))
    return "\n".join([*listed, *texts])
