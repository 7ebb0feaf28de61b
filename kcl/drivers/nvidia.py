"""Nvidia: NVIDIA's driver for GPUs."""

from __future__ import annotations

import re
from collections.abc import Callable

from kcl.programs.driver import Driver

# The compiler says it of each kernel; with code from its ComputeCache the driver says nothing.
_NOTE = re.compile(
    r"^\(\): Warning: Function \w+ is a kernel, so overriding noinline attribute\..*\n*",
    re.MULTILINE,
)


class Nvidia(Driver):
    """NVIDIA's driver: it notes something about each kernel, and its ComputeCache may not see a changed header."""

    def mark(self, source: str, headers: Callable[[], str]) -> str:
        """Return a definition that no code reads: with another one the ComputeCache looks again."""
        return f"-DKCL_HEADERS_{headers()[:32]}" if "#include" in source.replace(" ", "") else ""

    def messages(self, log: str) -> str:
        """Leave the notes out: hits give the messages as a warning."""
        return _NOTE.sub("", log)
