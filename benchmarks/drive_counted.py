"""Run the driver of a side once more, and count the libraries in PoCL's cache that came out of no stored binary.

python drive_counted.py SIDE BINARIES ARGUMENT...

SIDE is kcl or floor, BINARIES the directory with what it loads, the rest is for its driver. Prints, as JSON, how many
libraries PoCL's cache holds while the programs are alive, and how many of them PoCL has generated itself: those that
are in no binary. Where its cache is off PoCL unpacks and generates in the same place and removes it in the end.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import sys
from typing import Any

import kernels
import pyopencl as cl

from kcl.cache.entry import Entry
from kcl.drivers.pocl import poclbin


def stored(directory: pathlib.Path) -> set[str]:
    """Return the libraries in all binaries below a directory, which are files or entries, as paths in PoCL's cache."""
    found = set()
    for path in directory.rglob("*"):
        if path.is_file() and path.suffix in ("", ".bin"):
            blob = path.read_bytes()
            container = poclbin.read(
                blob if path.suffix == ".bin" else Entry.unpack(blob).parts["binary"]
            )
            found |= {container.program + path for path in container.code()}
    return {path for path in found if path.endswith(".so")}


def present() -> set[str]:
    """Return the libraries in PoCL's cache now."""
    # kcache/ or uncached/, then the directory of the program
    root = pathlib.Path(os.environ["XDG_CACHE_HOME"], "pocl")
    return {str(pathlib.Path(*path.relative_to(root).parts[1:])) for path in root.rglob("*.so")}


def _keep_alive() -> None:
    """Keep every kernel that is launched: PoCL removes what an uncached program had when that is released."""
    enqueue, kept = cl.enqueue_nd_range_kernel, []

    def enqueued(queue: Any, kernel: Any, *arguments: Any, **keywords: Any) -> Any:
        kept.append(kernel)
        return enqueue(queue, kernel, *arguments, **keywords)

    cl.enqueue_nd_range_kernel = enqueued


def main() -> None:
    side, binaries = sys.argv[1], pathlib.Path(sys.argv[2])
    del sys.argv[1:3]
    checksum = kernels.Arguments.checksum
    libraries: set[str] = set()

    def counted(arguments: kernels.Arguments) -> str:
        made = checksum(arguments)
        libraries.update(present())
        return made

    kernels.Arguments.checksum = counted  # type: ignore[method-assign, assignment]
    _keep_alive()
    importlib.import_module(f"drive_{side}").main()
    print(json.dumps({"libraries": len(libraries), "generated": len(libraries - stored(binaries))}))


if __name__ == "__main__":
    main()
