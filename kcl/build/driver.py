"""Driver: what the OpenCL driver of a context does differently. `kcl.drivers` has the table of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kcl.build import identity
from kcl.cache.entry import Entry

if TYPE_CHECKING:
    import pyopencl as cl

    from kcl.build.program_key import ProgramSlot
    from kcl.cache.key import Part


class Promise(NamedTuple):
    """An entry without its binary, for the address where the driver's helper is to publish it whole.

    Made by the second stage on a miss; ends in the queue of the helper.
    """

    address: str
    entry: Entry


class ProgramAhead(Protocol):
    """A program that was made of an entry before anybody asked for it."""

    entry: Entry
    program: cl.Program
    is_built: bool


class ContextHolder(Protocol):
    """The stage of a context, which holds what a driver makes ahead for it."""

    ahead: Any
    context: cl.Context


class Driver:
    """An OpenCL driver that hands out a binary at once and needs nothing else; one that differs is a subclass.

    Stateless: what a driver keeps for a context lies in `Build.ahead`. `quotes_stay` says that the quotes around an
    include directory count as a part of its path. `is_silent` says that the driver says of a binary at most what it
    said of the source: it is not asked for a log then.
    """

    quotes_stay = False
    is_silent = False

    def identity(self, device: cl.Device) -> tuple[Part, ...]:
        """Return the parts of a key that say for which device a binary was built."""
        return identity.identity(device)

    def added_options(self) -> str:
        """Return the build options that the driver adds to those that it is given."""
        return ""

    def mark(self, _source: str, _headers: Callable[[], str]) -> str:
        """Return a build option that shows the driver's own cache a changed header; `headers` digests them."""
        return ""

    def described(self, _slot: ProgramSlot) -> dict[str, Any]:
        """Return what an entry says for whoever completes it."""
        return {}

    def completed(self, program: cl.Program, slot: ProgramSlot, entry: Entry) -> Entry | None:
        """Return an entry with its binary, None where the driver is slow to give that out; raises cl.Error."""
        import pyopencl as cl

        devices = program.get_info(cl.program_info.DEVICES)
        binary = program.get_info(cl.program_info.BINARIES)[devices.index(slot.device)]
        return Entry(entry.key, {**entry.metadata, "complete": True}, {**entry.parts, "binary": binary})

    def memory(self, binary_bytes: int) -> int:
        """Return how many bytes a program with its kernels takes, by those of its binary, or 0 where it has none."""
        return (384 << 10) + 11 * binary_bytes  # on Intel's CPUs, measured with binaries of 7, 16 and 101 kB

    def launched(self, promises: tuple[Promise, ...]) -> None:
        """Take the entries of a program that was launched: they can be completed now."""

    def unseen(self, promises: tuple[Promise, ...]) -> None:
        """Take the entries of a program whose launches kcl does not see: they can be completed as the process ends."""

    def loading(self, entry: Entry) -> None:
        """See that the driver will use the binary of an entry, of which a program is about to be made."""

    def loaded(self, slot: ProgramSlot, entry: Entry) -> None:
        """Take note of a program that was made of an entry."""

    def awaited(self, _slot: ProgramSlot, _kernel: str, _is_there: bool = False) -> bool:
        """Wait for whoever completes the entry of a slot; False where nobody does, or that takes too long.

        An entry that `is_there` may lack what was launched later.
        """
        return False

    def prebuilt(self, _holder: ContextHolder, _slots: list[ProgramSlot]) -> ProgramAhead | None:
        """Return a program that was made ahead for these slots, and see that the next ones are."""
        return None
