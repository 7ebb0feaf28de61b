"""Remarks for the report: which module imported loopy, and why, although the generator layer had all code."""

from __future__ import annotations

import sys
from itertools import dropwhile
from types import ModuleType

from kcl.base import events, settings
from kcl.cache import layers

_MOST = 5  # questions in a report
# Packages whose modules are never blamed.
_BLAMELESS = frozenset({"loopy", "kcl"})


def remarks() -> list[str]:
    """Say why loopy was imported although the generator layer held all code."""
    made = events.total()["made"]
    if made:
        frequent = sorted(made.items(), key=lambda item: -item[1])[:_MOST]
        shown = [f"{question}: {count:.0f}" for question, count in frequent]
        more = [f"and {len(made) - _MOST} more"] if len(made) > _MOST else []
        return [f"loopy was asked what only it can answer: {'; '.join([*shown, *more])}"]
    integrations = sys.modules.get("kcl.integrations")
    # The imports of a program that was not written for kcl are not judged.
    if integrations and integrations.is_installed():
        return []
    # A hit generates code for a dump.
    if any(layer.options.dump for layer in layers.opened().values()):
        return []
    stats = events.total()[settings.GENERATOR]
    if not stats["hits"] or stats["misses"] + stats["errors"] + stats["bypassed"]:
        return []
    return [f"loopy was imported though nothing was generated: {_name_cure()}"]


def _name_cure() -> str:
    """Say why loopy was imported, and name the cure; an import that the next run repeats comes first."""
    proofs = sys.modules.get("kcl.frontends.loopy.proofs")
    files = proofs.unproven() if proofs is not None else ()
    importer = _find_importer()
    if files and not importer:
        return (
            f"no earlier run proved the calls in {', '.join(files)}; proofs are kept by the name of the file, and the "
            "next run has them"
        )
    if "kcl.recipe" in sys.modules:
        first = f"{importer} imports it at its head; make that `import kcl.loopy as lp`, "
        return f"{first if importer else ''}import it inside recipes, or use kcl.lazy"
    if not importer:
        return "an import needs it; move that import below `import kcl.loopy`, or use kcl.lazy"
    return f"{importer} imports it; move that import below `import kcl.loopy`, or import {importer} by kcl.lazy"


def _find_importer() -> str:
    """Name the module that imported loopy; empty if no module holds anything of it.

    A module that imports loopy is imported, and listed, after it; the program itself stands first.
    """
    later = dropwhile(lambda name: name != "loopy", list(sys.modules))
    for name in (*later, "__main__"):
        # A program may put any object into `sys.modules`: only plain modules are looked at.
        module = sys.modules.get(name)
        is_judged = type(module) is ModuleType and name.partition(".")[0] not in _BLAMELESS
        if is_judged and module is not None and _holds_loopy(module):
            return settings.driver_name() if name == "__main__" else name
    return ""


def _holds_loopy(module: ModuleType) -> bool:
    """Return True if a module holds loopy, or a module, class or function of it, under a name."""
    # The list is a copy: another thread may add names to the module meanwhile.
    for value in list(vars(module).values()):
        # Attributes are read from the dictionaries, so that no code of the program runs.
        if isinstance(value, (ModuleType, type)) or type(value).__name__ == "function":
            own = vars(value).get("__name__" if isinstance(value, ModuleType) else "__module__")
            if isinstance(own, str) and own.partition(".")[0] == "loopy":
                return True
    return False
