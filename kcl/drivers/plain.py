"""Plain: an OpenCL driver that hands out a binary at once and needs nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kcl.cache.entry import Entry
from kcl.drivers import identity

if TYPE_CHECKING:
    import pyopencl as cl

    from kcl.build.driver import Prebuilt, Promise
    from kcl.build.program_key import Slot
    from kcl.build.stage import Build
    from kcl.cache.key import Part


class Plain:
    """What every OpenCL driver does unless its own file says otherwise; see `kcl.build.driver.Driver`."""

    quotes_stay = False
    is_silent = False

    def identity(self, device: cl.Device) -> tuple[Part, ...]:
        """Return the parts of a key that say for which device a binary was built."""
        return identity.identity(device)

    def added_options(self) -> str:
        """Return nothing: the driver adds no build options."""
        return ""

    def mark(self, _source: str, _headers: Callable[[], str]) -> str:
        """Return nothing: the driver has no cache that misses a changed header."""
        return ""

    def described(self, _slot: Slot) -> dict[str, Any]:
        """Return nothing: nobody completes an entry."""
        return {}

    def completed(self, program: cl.Program, slot: Slot, entry: Entry) -> Entry | None:
        """Return the entry with the binary that the driver gives out."""
        import pyopencl as cl

        devices = program.get_info(cl.program_info.DEVICES)
        binary = program.get_info(cl.program_info.BINARIES)[devices.index(slot.device)]
        return Entry(entry.key, {**entry.metadata, "complete": True}, {**entry.parts, "binary": binary})

    def memory(self, binary_bytes: int) -> int:
        """Return what a program takes on Intel's CPUs, measured with binaries of 7, 16 and 101 kB."""
        return (384 << 10) + 11 * binary_bytes

    def launched(self, promises: tuple[Promise, ...]) -> None:
        """Take nothing: no entry was promised."""

    def unseen(self, promises: tuple[Promise, ...]) -> None:
        """Take nothing: no entry was promised."""

    def loading(self, entry: Entry) -> None:
        """Do nothing: the driver has no cache that could spoil the entry's binary."""

    def loaded(self, slot: Slot, entry: Entry) -> None:
        """Take no note."""

    def awaited(self, _slot: Slot, _kernel: str) -> bool:
        """Wait for nobody."""
        return False

    def prebuilt(self, _build: Build, _slots: list[Slot]) -> Prebuilt | None:
        """Return nothing: no program is made ahead."""
        return None
