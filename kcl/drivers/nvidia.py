"""NVIDIA's driver for GPUs."""

from __future__ import annotations

import re
from collections.abc import Callable

from kcl.programs.driver import Driver

# A message that the compiler gives for each kernel, but not for code from the driver's own ComputeCache.
_NOTE = re.compile(
    r"^\(\): Warning: Function \w+ is a kernel, so overriding noinline attribute\..*\n*",
    re.MULTILINE,
)


class Nvidia(Driver):
    """NVIDIA's driver. Its compiler has a useless message for each kernel, and its ComputeCache overlooks some headers."""

    def mark(self, source: str, headers: Callable[[], str]) -> str:
        """Return `-DKCL_HEADERS_<digest>`: the ComputeCache compares options, so a changed header is compiled again."""
        return f"-DKCL_HEADERS_{headers()[:32]}" if "#include" in source.replace(" ", "") else ""

    def messages(self, log: str) -> str:
        """Return a log without the useless messages, since a hit warns with the log."""
        return _NOTE.sub("", log)
