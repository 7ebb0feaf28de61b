"""The remarks of the report on loopy: why it was imported where the generator layer held all code."""

from __future__ import annotations

import sys

from kcl.base import events, settings
from kcl.cache import layers

_MOST = 5  # questions in a report


def remarks() -> list[str]:
    """Say why loopy was imported although the generator layer held all code."""
    made = events.total()["made"]
    if made:
        frequent = sorted(made.items(), key=lambda one: -one[1])[:_MOST]
        shown = [f"{question}: {count:.0f}" for question, count in frequent]
        more = [f"and {len(made) - _MOST} more"] if len(made) > _MOST else []
        return [f"loopy was asked what only it can answer: {'; '.join([*shown, *more])}"]
    stats, integrations = events.total()[settings.GENERATOR], sys.modules.get("kcl.integrations")
    is_for_nothing = stats["hits"] and not stats["misses"] + stats["errors"] + stats["bypassed"]
    is_verified = any(layer.chosen.verify for layer in layers.opened().values())
    # The imports of a program that was not written for kcl are not judged.
    if is_for_nothing and not is_verified and not (integrations and integrations.is_installed()):
        return [f"loopy was imported though nothing was generated: {_why()}"]
    return []


def _why() -> str:
    """Say why loopy was imported, as far as that is known, and name the cure."""
    proofs = sys.modules.get("kcl.record.proofs")
    files = proofs.unproven() if proofs is not None else ()
    if files:
        return (
            f"no earlier run proved the calls in {', '.join(files)}; proofs are kept by the name of the file, and the "
            "next run has them"
        )
    return (
        "a module imports it, see python -X importtime; make that `import kcl.loopy as lp`, import it inside recipes, "
        "import the module below `import kcl.loopy`, or use kcl.lazy"
    )
