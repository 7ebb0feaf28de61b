"""Origins: where a kernel's code comes from. A pure recipe is walked; any other recipe runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kcl.cache.key import Key
    from kcl.code import Code
    from kcl.generate.rows import Base, Dtypes, Outcome
    from kcl.record.evidence import Evidence

SLOW = 0.05  # processor seconds of a recipe's own Python in a warm run: waiting for other threads is no work of its own


class Origin(Protocol):
    """Where a kernel's code comes from: what knows its key, and makes it where nothing is stored."""

    name: str
    own_seconds: float
    remark: str  # what the event of the next look-up says, if that hits; empty where there is nothing to say

    @property
    def recipe(self) -> str:
        """File and name of a recipe whose result may be new in every run; empty where it cannot."""

    @property
    def front_ends(self) -> frozenset[str]:
        """The front ends that the result may belong to; empty where that is not known."""

    @property
    def directory(self) -> str:
        """The directory that stored code may belong to; empty where it belongs to none."""

    def key(self) -> Key:
        """Return the generator key; raises UnknownInput where it cannot be known."""

    def as_of_now(self, base: Base) -> Base:
        """Return a base with the content that everything read had at the first look-up."""

    def outcome(self) -> Outcome:
        """Return the result in the hands of its front end, what was read, and why it must not be stored."""

    def generate(self, dtypes: Dtypes) -> tuple[Code, str, bool]:
        """Generate code: (Code, why it must not be stored, whether the result alone decides it)."""

    def anew(self, dtypes: Dtypes) -> Code:
        """Make the result and its code once more, for verification."""

    def place(self) -> Evidence:
        """Return where the recipe stands, and the texts of its code; slow."""

    def options(self) -> tuple[str, ...] | None:
        """Return the build options that this run decides; None where those of the stored code stand."""
