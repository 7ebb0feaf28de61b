"""Modules of the user that a recipe imports inside its body, and that no module has imported yet.

They are not imported for the key: a helper module that imports loopy at its top would cost a warm start what it saves.
Instead their source counts as a whole, with the sources of the user's modules that it imports, without comments and
docstrings. Once a module counts so in a process it goes on doing so as long as it holds the values that its import gave
it (`kcl.record.callables.import_watch`): the key of the second recipe of a cold run must be that of a warm run.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl.base import process
from kcl.record.callables import distributions, import_watch
from kcl.record.callables.distributions import ABSENT, PYTHON, USER
from kcl.record.callables.readings import digest, references
from kcl.record.callables.references import GLOBAL, IMPORT, NAME, TOUCH, UNKNOWN

if TYPE_CHECKING:
    from zipimport import zipimporter


# Once a module is loaded, kcl does not see what the import of the module has read.
_READING = frozenset(
    (
        *("open", "read", "read_text", "read_bytes", "read_binary", "open_text", "open_binary", "readlink"),
        *("environ", "environb", "getenv", "getenvb", "getcwd", "cwd", "expanduser", "expandvars"),
        *("load", "loadtxt", "genfromtxt", "fromfile", "fromregex", "memmap"),  # numpy's
        *("get_data", "files"),  # of packages
        *("ConfigParser", "RawConfigParser", "ElementTree", "ZipFile", "TarFile"),
    )
)


class _Source(NamedTuple):
    """The code of a source file, and what the file looked like when it was read."""

    path: str | None
    stamp: tuple[int, ...]
    code: CodeType | None
    path_list: list[str]  # what modules are imported from


class State:
    """The source files that were read, by the name of the module."""

    def __init__(self) -> None:
        self.sources: dict[str, _Source] = {}


_state = process.shared(State)


def exists(name: str) -> bool:
    """Tell whether a module could be imported."""
    return _code_of(name) is not None


def _code_of(name: str) -> CodeType | None:
    """Return the code of a module's source file without running it; memoised as long as an import would run it."""
    sources = _state().sources
    known = sources.get(name)
    if known is None or (name not in sys.modules and not _is_fresh(known)):
        path = _find(name)
        stamp = _stamp(path)
        known = sources[name] = _Source(path, stamp, _compile(name, path), [*sys.path])
    return known.code


def _is_fresh(known: _Source) -> bool:
    return known.path is not None and _stamp(known.path) == known.stamp and known.path_list == sys.path


def _stamp(path: str | None) -> tuple[int, ...]:
    if path is None:
        return ()
    try:
        found = os.stat(path)
    except NotADirectoryError:
        return _stamp(os.path.dirname(path))  # the archive that it lies in
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _find(name: str) -> str | None:
    """Return the source file of a module."""
    path = _path_of(name)
    if path is None:
        return None
    folder = os.path.join(path, "__init__")
    for candidate in (path, f"{folder}.py", f"{path}.py", f"{folder}.pyc", f"{path}.pyc"):
        if os.path.isfile(candidate):
            return candidate
    try:
        return _archive_of(name).get_filename(name.rpartition(".")[2])
    except (ImportError, OSError):
        return None


def _archive_of(name: str) -> zipimporter:
    """Return the loader of the archive that a module lies in; raises ImportError or OSError where there is none."""
    import zipimport

    return zipimport.zipimporter(os.path.dirname(_path_of(name) or ""))


def _compile(name: str, path: str | None) -> CodeType | None:
    """Read a module's code as an import would, from its compiled file where that is fresh."""
    if path is None or not path.endswith((".py", ".pyc")):
        return None
    try:
        if not os.path.isfile(path):
            return _archive_of(name).get_code(name.rpartition(".")[2])
        loader = SourceFileLoader if path.endswith(".py") else SourcelessFileLoader
        return loader(name, path).get_code(name)
    except (OSError, SyntaxError, ValueError, ImportError, EOFError):
        return None


def _is_unchanged(name: str) -> bool:
    """Tell whether a module's source file still has the code that was counted."""
    now, before = _compile(name, _find(name)), _code_of(name)
    return now is not None and before is not None and digest(now) == digest(before)


def _names(source: CodeType) -> set[str]:
    """List every name that a code object and those nested in it use."""
    names = set(source.co_names)
    for constant in source.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


class Modules:
    """The modules that count as a whole in one walk."""

    def __init__(self, walk: Any) -> None:  # a Walk, whose module imports this one
        self.walk = walk
        self.seen: set[str] = set()

    def whole(self, name: str, module: ModuleType | None) -> str:
        """Count a module by its source and by what it imports; return its name."""
        if module is None:
            import_watch.watch(name, import_watch.ImportWatch(lambda: _is_unchanged(name), self.walk.holds))
        if name not in self.seen:
            self.seen.add(name)
            self.count(name, module)
            self.parent(name.rpartition(".")[0])
        return f"module {name.rpartition('.')[2]}"

    def count(self, name: str, module: ModuleType | None) -> None:
        short = name.rpartition(".")[2]
        source = _code_of(name)
        if source is None:
            if os.path.isdir(_path_of(name) or ""):
                return  # its modules count where they are named
            file = getattr(module, "__file__", None) or _library(name)
            self.walk.add(f"module {short}", distributions.content(file) if file else ABSENT)
            return
        self.walk.add(f"module {short}", digest(source))
        self.scan(name, source)

    def parent(self, name: str) -> None:
        """Count the package of a module, which an import runs first."""
        loaded = sys.modules.get(name)
        if not name or (loaded is not None and not self.walk.chains.covers(name, loaded)):
            return
        if _code_of(name) is not None and distributions.owner(name).kind == USER:
            self.whole(name, loaded)

    def below(self, name: str, attributes: tuple[str, ...]) -> None:
        """Count the modules that a chain of names leads through below a package that counts by its source."""
        for attribute in attributes:
            name = f"{name}.{attribute}"
            if not _is_user_module(name):
                return
            loaded = sys.modules.get(name)
            if loaded is None or self.walk.chains.covers(name, loaded):
                self.whole(name, loaded)

    def scan(self, name: str, source: CodeType) -> None:
        """Take note of what a module's code refers to."""
        package = name if "__init__." in os.path.basename(_find(name) or "") else name.rpartition(".")[0]
        found = references(source)
        self.walk.mentions |= found.mentions
        own = found.stored
        names = _names(source).union(*[reference.attributes for reference in found.chains]) - own
        reading = sorted(name for name in names if name in _READING or name.startswith("read_"))
        if reading:
            self.walk.refuse(
                f"imports {name}, which uses {reading[0]} and may read something while it is imported; "
                "import it at the top of the recipe's module, or pass the value as a parameter of the recipe"
            )
        for reference in found.chains:
            if reference.root in (TOUCH, IMPORT):
                target = reference.module(package)
                if target == "os" and UNKNOWN in reference.attributes:
                    self.walk.refuse(f"imports {name}, which computes the name of something of os; write os.<name>")
                self.imported(target, reference.attributes, reference.root, name.rpartition(".")[2])
            elif reference.root in (GLOBAL, NAME) and not reference.attributes and reference.name not in own:
                self.walk.judge(f"builtins.{reference.name}")

    def imported(self, target: str, attributes: tuple[str, ...], root: int, label: str) -> None:
        whose = distributions.owner(target)
        if whose.kind == USER:
            loaded = sys.modules.get(target)
            self.whole(target, loaded)
            inner = [name for name in attributes if _is_user_module(f"{target}.{name}")]
            for name in inner:
                self.whole(f"{target}.{name}", sys.modules.get(f"{target}.{name}"))
            if root == IMPORT:
                self.below(target, attributes)
                if loaded is not None:
                    self.live(loaded, attributes, label)
            elif loaded is not None:
                for name in attributes:
                    if name not in inner and not isinstance(loaded.__dict__.get(name), ModuleType):
                        self.live(loaded, (name,), label)
        elif whose.kind != ABSENT and root == IMPORT:
            self.walk.library(target, attributes, whose)
        elif whose.kind not in (ABSENT, PYTHON):
            self.walk.library(target, (), whose)

    def live(self, module: ModuleType, chain: tuple[str, ...], label: str) -> None:
        """Count what a loaded module holds now under a name that another one takes of it."""
        name = module.__name__
        if self.walk.chains.covers(name, module):
            self.walk.chains.changed(name, chain, name, label)
        elif not chain or chain[0] == UNKNOWN:
            self.walk.contents(module)
        else:
            self.walk.chains.value("import", module, name, chain, label)


def _path_of(name: str) -> str | None:
    """Return where a module lies if its packages are folders: a file or folder, or its path without a suffix."""
    top, *rest = name.split(".")
    place = distributions.locate(top)
    return os.path.join(place.path, *rest) if place is not None else None


def _is_user_module(name: str) -> bool:
    return distributions.owner(name).kind == USER and _find(name) is not None


def _library(name: str) -> str | None:
    """Return the file of an extension module."""
    place = distributions.locate(name.partition(".")[0])
    return place.path if place is not None else None
