"""Runs loopy for kcl with loopy's own disk caches off.

Those caches know a preamble generator by its name and not by its code, so they may return stale code, which kcl would
store. A bypass stores nothing, so it leaves the caches as the user set them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from kcl import foreign


@contextmanager
def quiet(may_run: bool) -> Iterator[None]:
    """Switch loopy's disk caches off in the block, if loopy is installed and the block may use it (`may_run`)."""
    if not may_run or find_spec("loopy") is None:
        yield
        return
    # Both need a usable cache directory at import: if the user's is not, they get a private one.
    foreign.import_anyway("loopy")
    foreign.import_anyway("pyopencl.invoker")
    with foreign.loopy_disk_caches_off():
        yield
