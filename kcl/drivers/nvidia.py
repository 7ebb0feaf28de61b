"""Nvidia: NVIDIA's driver for GPUs."""

from __future__ import annotations

from collections.abc import Callable

from kcl.build.driver import Driver


class Nvidia(Driver):
    """NVIDIA's driver: its ComputeCache does not see a changed header."""

    def mark(self, source: str, headers: Callable[[], str]) -> str:
        """Return a definition that no code reads: with another one the ComputeCache looks again."""
        return f"-DKCL_HEADERS_{headers()[:32]}" if "#include" in source.replace(" ", "") else ""
