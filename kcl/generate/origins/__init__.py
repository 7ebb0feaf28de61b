"""Origins: where a kernel's code comes from. A pure recipe is walked; any other recipe runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcl.cache import layer

if TYPE_CHECKING:
    from typing import TypeAlias

    from kcl.generate.origins.recorded import RecordedOrigin
    from kcl.generate.origins.walked import WalkedOrigin

    Origin: TypeAlias = RecordedOrigin | WalkedOrigin

SLOW = 0.05  # processor seconds of a recipe's own Python in a warm run: waiting for other threads is no work of its own


def advise(kernel: str, seconds: float) -> None:
    """Advise to declare a recipe pure if its own Python took more than `SLOW` in a warm run; once per kernel name.

    `seconds` is the time of a run in which loopy had nothing to do. The warning names the line outside of kcl that
    asked for the kernel. Raises nothing.
    """
    if seconds > SLOW:
        layer.warn_once(
            f"slow recipe {kernel}",
            f"recipe {kernel!r} ran for {1e3 * seconds:.0f} ms although its code was in the cache; if its "
            "parameters alone decide what it returns, @kcl.kernel(pure=True, version='1') skips it on a hit",
        )
