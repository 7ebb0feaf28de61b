"""loopy generates for kcl: its own disk caches are off.

They know a preamble generator by its name and not by its code. A bypass leaves them as the user set them, since nothing of
it is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from kcl import foreign


@contextmanager
def quiet(may_run: bool) -> Iterator[None]:
    """Keep loopy's disk caches off in a block, if loopy is installed and may run there."""
    if not may_run or find_spec("loopy") is None:
        yield
        return
    # Both fail at their import without a usable cache directory: then they get a private one.
    foreign.import_anyway("loopy")
    foreign.import_anyway("pyopencl.invoker")
    with foreign.loopy_disk_caches_off():
        yield
