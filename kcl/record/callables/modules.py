"""Modules of the user that a recipe imports inside its body, or uses as a whole.

The walk imports them for the key, as the recipe would import them, so that names in them lead to values. Their source
also counts as a whole, with the user's modules that it imports: an import may do more than bind names.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.util import find_spec
from types import CodeType, ModuleType
from typing import Any

from kcl.base import process
from kcl.record.callables import distributions
from kcl.record.callables.distributions import ABSENT, PYTHON, USER
from kcl.record.callables.notes import Notes
from kcl.record.callables.readings import digest, references
from kcl.record.callables.references import GLOBAL, IMPORT, NAME, TOUCH, UNKNOWN

# Names of functions that read. After a module is loaded, no watcher sees the reads of its import.
_READING = frozenset(
    (
        *("open", "read", "read_text", "read_bytes", "read_binary", "open_text", "open_binary", "readlink"),
        *("environ", "environb", "getenv", "getenvb", "getcwd", "cwd", "expanduser", "expandvars"),
        *("load", "loadtxt", "genfromtxt", "fromfile", "fromregex", "memmap"),  # numpy's
        *("get_data", "files"),  # of packages
        *("ConfigParser", "RawConfigParser", "ElementTree", "ZipFile", "TarFile"),
    )
)


class State:
    """The modules that keys have imported, and the code of loaded modules, which holds as long as their spec does."""

    def __init__(self) -> None:
        self.imported: set[str] = set()
        self.codes: dict[str, tuple[Any, CodeType | None]] = {}


_state = process.shared(State)


def _code_of(name: str, spec: Any) -> CodeType | None:
    """Return the code of a module's source, as an import reads it; memoised for a module that is loaded."""
    known = _state().codes.get(name)
    if known is not None and known[0] is spec:
        return known[1]
    try:
        code: CodeType | None = spec.loader.get_code(name)
    except (AttributeError, ImportError, OSError, SyntaxError, ValueError, EOFError):
        code = None  # the module has no source
    if name in sys.modules:
        _state().codes[name] = spec, code
    return code


def _spec_of(name: str) -> Any:
    """Return the spec of a module, loaded or not; None where it has none."""
    try:
        return find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return getattr(sys.modules.get(name), "__spec__", None)


def _names(source: CodeType) -> set[str]:
    """List every name that a code object and its nested code objects use."""
    nested = [_names(constant) for constant in source.co_consts if isinstance(constant, CodeType)]
    return set(source.co_names).union(*nested)


class Modules:
    """The modules that one walk has imported, and the modules that count as a whole in it."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.counted: set[str] = set()

    def load(self, name: str, attributes: tuple[str, ...] = ()) -> ModuleType | None:
        """Import a module of the user with submodules among these names; None where Python cannot import it."""
        loaded = sys.modules.get(name)
        if loaded is not None and all(attribute in loaded.__dict__ for attribute in attributes):
            return loaded
        before = set(sys.modules)
        try:
            importlib.__import__(name, None, None, attributes or ("",), 0)
        except ImportError:
            return None
        except (Exception, SystemExit) as error:
            self.notes.refuse(f"the import of {name} fails: {type(error).__name__}: {error}")
        finally:
            _state().imported |= sys.modules.keys() - before
        loaded = sys.modules.get(name)
        _code_of(name, getattr(loaded, "__spec__", None))  # the code as it was imported, before the file changes
        return loaded

    def touch(self, name: str, attributes: tuple[str, ...]) -> None:
        """Take note of an import; its effects may be its purpose. The program's own modules had theirs before."""
        if name not in sys.modules or name in _state().imported:
            self.whole(name)
        self.load(name, attributes)
        for inner in [f"{name}.{attribute}" for attribute in attributes]:
            if inner in sys.modules and inner in _state().imported:
                self.whole(inner)

    def whole(self, name: str) -> str:
        """Count a module by its source, its packages, and the modules that it imports; return its name."""
        short = name.rpartition(".")[2]
        if name and name not in self.counted:
            self.counted.add(name)
            parent = name.rpartition(".")[0]
            if parent and self.notes.owner(parent).kind == USER:
                self.touch(parent, ())
            spec = _spec_of(name)
            source = _code_of(name, spec)
            if source is not None:
                self.notes.add(f"module {short}", digest(source))
                self.scan(name, source, spec.submodule_search_locations is not None)
            else:
                self.without_source(name, short, spec)
        return f"module {short}"

    def without_source(self, name: str, short: str, spec: Any) -> None:
        """Count an extension module by its file; count nothing of a folder without a file."""
        file = getattr(sys.modules.get(name), "__file__", None) or getattr(spec, "origin", None)
        if isinstance(file, str) and os.path.isfile(file):
            self.notes.add(f"module {short}", distributions.content(file))
        elif spec is None:
            self.notes.add(f"module {short}", ABSENT)

    def scan(self, name: str, source: CodeType, is_package: bool) -> None:
        """Take note of the references in a module's code."""
        package = name if is_package else name.rpartition(".")[0]
        found = references(source)
        self.notes.mentions |= found.mentions
        names = _names(source).union(*[reference.attributes for reference in found.chains]) - found.stored
        reading = sorted(name for name in names if name in _READING or name.startswith("read_"))
        if reading:
            self.notes.refuse(
                f"imports {name}, which uses {reading[0]} and may read something while it is imported; "
                "import it at the top of the recipe's module, or pass the value as a parameter of the recipe"
            )
        for reference in found.chains:
            if reference.root in (TOUCH, IMPORT):
                target = reference.module(package)
                if target == "os" and UNKNOWN in reference.attributes:
                    self.notes.refuse(f"imports {name}, which computes the name of something of os; write os.<name>")
                self.imported(target, reference.attributes, reference.root)
            elif reference.root in (GLOBAL, NAME) and not reference.attributes and reference.name not in found.stored:
                self.notes.judge(f"builtins.{reference.name}")

    def imported(self, target: str, attributes: tuple[str, ...], root: int) -> None:
        """Take note of a module that the source of another one imports."""
        whose = self.notes.owner(target)
        if whose.kind == USER:
            self.whole(target)
            package = getattr(_spec_of(target), "submodule_search_locations", None) is not None
            for inner in [f"{target}.{attribute}" for attribute in attributes] if package else ():
                if _spec_of(inner) is not None:
                    self.whole(inner)
        elif whose.kind != ABSENT and root == IMPORT:
            self.notes.library(target, attributes, whose)
        elif whose.kind not in (ABSENT, PYTHON):
            self.notes.library(target, (), whose)
