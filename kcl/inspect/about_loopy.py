"""The remarks of the report on loopy: the module that imported it, and why, where the generator layer held all code."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from itertools import dropwhile
from types import ModuleType

from kcl.base import events, settings
from kcl.cache import layers
from kcl.cache.run_memo import driver_name
from kcl.record import imports

_MOST = 5  # questions in a report
_NEITHER = frozenset({"loopy", "kcl"})  # packages whose modules are never blamed


def remarks() -> list[str]:
    """Say why loopy was imported although the generator layer held all code."""
    made = events.total()["made"]
    if made:
        frequent = sorted(made.items(), key=lambda one: -one[1])[:_MOST]
        shown = [f"{question}: {count:.0f}" for question, count in frequent]
        more = [f"and {len(made) - _MOST} more"] if len(made) > _MOST else []
        return [f"loopy was asked what only it can answer: {'; '.join([*shown, *more])}"]
    if _is_for_nothing() and not _is_unchanged():
        return [f"loopy was imported though nothing was generated: {_why()}"]
    return []


def _is_for_nothing() -> bool:
    """Tell whether the generator layer held all code, and nothing was verified."""
    stats = events.total()[settings.GENERATOR]
    generated = stats["misses"] + stats["errors"] + stats["bypassed"]
    return bool(stats["hits"]) and not generated and not any(layer.chosen.verify for layer in layers.opened().values())


def _is_unchanged() -> bool:
    """Tell whether kcl runs in a program that was not written for it: the imports of that program are not judged."""
    integrations = sys.modules.get("kcl.integrations")
    return integrations is not None and bool(integrations.is_installed())


def _why() -> str:
    """Say why loopy was imported, and name the cure; an import that the next run repeats comes first."""
    proofs = sys.modules.get("kcl.record.proofs")
    files = proofs.unproven() if proofs is not None else ()
    before, importer = imports.importer()
    if files and not (before or importer):
        return (
            f"no earlier run proved the calls in {', '.join(files)}; proofs are kept by the name of the file, and the "
            "next run has them"
        )
    if not before:
        name = importer or "a module"
        return f"{name} imports it; import {importer or 'that'} by kcl.lazy, or where it is needed"
    culprit = _culprit()
    line = "" if culprit else _line()
    if "kcl.recipe" in sys.modules:
        found = f"{culprit} imports it at its head; make that `import kcl.loopy as lp`, " if culprit else ""
        found = f"{line} at its head; " if line else found
        return f"{found}import it inside recipes, or use kcl.lazy"
    if culprit or line:
        return f"{line or f'{culprit} imports it'} above `import kcl.loopy`; move that import below"
    return "an import above `import kcl.loopy` needs it; move that import below"


def _culprit() -> str:
    """Name the module that imported loopy before kcl's face was in place; empty where no module shows it."""
    found = next((name for name, module in _later() if _holds_loopy(module)), "")
    return driver_name() if found == "__main__" else found


def _later() -> Iterator[tuple[str, ModuleType]]:
    """Yield the modules that may have imported loopy, by name.

    A module that imports loopy is imported, and listed, after it; the program itself stands first.
    """
    later = list(dropwhile(lambda name: name != "loopy", list(sys.modules)))
    for name in (*later, "__main__"):
        module = sys.modules.get(name)
        if type(module) is ModuleType and name.partition(".")[0] not in _NEITHER:
            yield name, module


def _holds_loopy(module: ModuleType) -> bool:
    """Tell whether a module holds loopy, or a module, class or function of it, under a name."""
    for value in list(vars(module).values()):
        if isinstance(value, (ModuleType, type)) or type(value).__name__ == "function":
            own = vars(value).get("__name__" if isinstance(value, ModuleType) else "__module__")
            if isinstance(own, str) and own.partition(".")[0] == "loopy":
                return True
    return False


def _line() -> str:
    """Write "driver.py:7 imports loopy.version" for the first file whose text shows it; empty where none does."""
    for name, module in _later():
        is_program = name == "__main__"  # Python takes its `__file__` away as it ends
        file = sys.argv[0] if is_program and sys.argv else getattr(module, "__file__", "")
        place, is_above = _first_import(str(file))
        if place and (is_above or is_program or not vars(module).get(imports.FACED)):
            return place
    return ""


def _first_import(file: str) -> tuple[str, bool]:
    """Find the first import of loopy at the head of a file, and tell whether it stands above `import kcl.loopy`."""
    try:
        with open(file, "rb") as stream:
            text = stream.read() if file.endswith(".py") else b""
        lines = ast.parse(text).body if b"loopy" in text else []
    except (OSError, SyntaxError, ValueError, RecursionError):
        return "", False
    place = ""
    for line in lines:
        names = _imported(line)
        if "kcl.loopy" in names:
            return place, True
        name = next((name for name in names if name.partition(".")[0] == "loopy"), "")
        place = place or (f"{os.path.basename(file)}:{line.lineno} imports {name}" if name else "")
    return place, False


def _imported(line: ast.stmt) -> list[str]:
    """Return the modules that a statement imports, and the names that it imports from them as if these were modules."""
    if isinstance(line, ast.Import):
        return [one.name for one in line.names]
    if isinstance(line, ast.ImportFrom) and line.module and not line.level:
        return [line.module, *(f"{line.module}.{one.name}" for one in line.names)]
    return []
