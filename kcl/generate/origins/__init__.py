"""Origins: where a kernel's code comes from. A pure recipe is walked; any other recipe runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeAlias

    from kcl.generate.origins.recorded import RecordedOrigin
    from kcl.generate.origins.walked import WalkedOrigin

    Origin: TypeAlias = RecordedOrigin | WalkedOrigin

SLOW = 0.05  # processor seconds of a recipe's own Python in a warm run: waiting for other threads is no work of its own
