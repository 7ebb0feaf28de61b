"""Finds the owner of a module (the standard library, an installed distribution, kcl, or the user) and its text in keys.

The standard library counts by the Python version. A distribution counts by its version and its files, wherever they lie.
One whose code decides no program text counts by its record of installed files. An editable install, and every file
outside of distributions, belongs to the user unless it is a generator's.

importlib.metadata could do most of this, but would take 4.2 ms of a warm start for the distributions that loopy requires,
and 20 ms more for its import if pyopencl is not imported. This module lists each directory with distributions once in a
process, and reads records as bytes.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, NamedTuple

import kcl
from kcl.base import process
from kcl.base.settings import PACKAGE
from kcl.generate import GENERATORS, ONLY_RUN, files

# The text of the standard library in keys.
INTERPRETER = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor} {sys.implementation.cache_tag}"

# The kinds of owners. `KCL` is also the name of kcl's distribution, `ABSENT` also the text of a missing distribution.
PYTHON, DISTRIBUTION, KCL, USER, ABSENT = "python", "distribution", "kcl", "user", "absent"

# The packages that make loopy units from graphs of arrays.
GRAPHS = ("arraycontext", "grudge", "meshmode", "mirgecom", "pytato")
# Distributions that the generators import, but that decide no program text.
HARMLESS = frozenset(
    {
        "attrs",
        "codepy",
        "colorama",
        "platformdirs",
        "pygments",
        "setuptools",
        "siphash24",
        "typing-extensions",
    }
)

# Distributions that count by their files, even in an editable install.
_ANYWHERE = frozenset({*GENERATORS, *GRAPHS})
# The folder of an application made by PyInstaller, below which its modules have their paths.
ARCHIVE = getattr(sys, "_MEIPASS", "")
_LIBRARY = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
_PACKAGES = ("site-packages", "dist-packages")


class Owner(NamedTuple):
    """The owner of a module; ``name`` is the distribution's."""

    kind: str
    name: str = ""


class PackagePlace(NamedTuple):
    """The place of a top-level module: a directory of ``sys.path``, and the module's file or package directory in it."""

    directory: str
    path: str


class _Site:
    """One directory of ``sys.path``, with the distributions installed in it."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        try:
            names = os.listdir(directory)
        except OSError:
            names = []
        self.records: dict[str, bytes] = {}
        # Normalised name of a distribution -> name of its folder.
        self.distributions: dict[str, str] = {}
        for name in sorted([name for name in names if name.endswith(".dist-info")]):
            self.distributions[_name(name)] = name

    def record(self, name: str) -> bytes:
        """Return the content of RECORD of the distribution in folder ``name``; empty if it has none."""
        content = self.records.get(name)
        if content is None:
            content = b""
            with suppress(OSError), open(self.path(name), "rb") as stream:
                content = stream.read()
            self.records[name] = content
        return content

    def path(self, name: str) -> str:
        """Return the path of RECORD of the distribution in folder ``name``."""
        return os.path.join(self.directory, name, files.RECORD)

    def owner(self, top: str, path: str) -> str | None:
        """Return the folder of the distribution that installed module ``top``; ``path`` is one of its files."""
        likely = self.distributions.get(normalised(top))
        if likely is not None and self.installed(likely, path):
            return likely
        return next(
            (name for name in self.distributions.values() if self.installed(name, path)), None
        )

    def installed(self, name: str, path: str) -> bool:
        """Return True if the distribution in folder ``name`` installed the module at `path`."""
        record = self.record(name)
        inside = path[len(self.directory) :].lstrip(os.sep).replace(os.sep, "/")
        # A record names files with slashes on every system, and a comma ends a name.
        line = os.fsencode(inside) + (b"/" if os.path.isdir(path) else b",")
        return record.startswith(line) or b"\n" + line in record


class InstallationMemos:
    """Memos of the functions of this module."""

    def __init__(self) -> None:
        # The `sys.path` for which `places` is valid.
        self.path: list[str] = []
        self.places: dict[str, PackagePlace | None] = {}
        self.owners: dict[tuple[str, str | None], Owner] = {}
        # Distribution -> the site in which it is installed, and the name of its folder there.
        self.homes: dict[str, tuple[_Site, str]] = {}
        # Distribution -> its text in keys, the files that the text covers, and their `files.stamp` when they were read.
        self.texts: dict[str, str] = {}
        self.roots: dict[str, files.Roots] = {}
        self.stamps: dict[str, str] = {}


_state = process.shared(InstallationMemos)


def normalised(name: str) -> str:
    """Normalise the name of a distribution, so that all its spellings are equal."""
    return name.replace("_", "-").replace(".", "-").lower()


def _name(folder: str) -> str:
    """Return the normalised name of the distribution of a dist-info folder."""
    return normalised(folder.partition("-")[0])


_site = functools.cache(_Site)


def _path() -> list[str]:
    """Return the absolute directories of ``sys.path``."""
    return [os.path.abspath(entry) for entry in sys.path]


def find(name: str) -> ModuleSpec | None:
    """Find a module as an import would, also by finders of editable installs, without importing it or its packages."""
    path: Any = None
    spec: ModuleSpec | None = None
    names = name.split(".")
    for end in range(1, len(names) + 1):
        finders: list[Any] = [PathFinder]
        # kcl's own finders are left out, since they act only on real imports.
        if path is None:
            finders += [other for other in sys.meta_path if type(other).__module__[:4] != "kcl."]
        spec = next(
            filter(None, (_spec(finder, ".".join(names[:end]), path) for finder in finders)), None
        )
        if spec is None:
            return None
        path = spec.submodule_search_locations or []
    return spec


def _spec(finder: Any, name: str, path: Any) -> ModuleSpec | None:
    try:
        spec: ModuleSpec | None = finder.find_spec(name, path)
    except Exception:
        # A finder of the program may raise anything.
        return None
    return spec


def locate(name: str) -> PackagePlace | None:
    """Return the place where an import would find the top-level module of `name`; memoised."""
    state = _state()
    if state.path != sys.path:
        state.path = [*sys.path]
        state.places.clear()
    if name not in state.places:
        spec = find(name)
        folders = [*(spec.submodule_search_locations or ())] if spec is not None else []
        file = spec.origin if spec is not None and spec.has_location else next(iter(folders), None)
        state.places[name] = _place(name, file) if file is not None else None
    return state.places[name]


def _place(name: str, file: str) -> PackagePlace:
    """Return the place of the top-level module, given the file of a module in it.

    For a namespace package that is the file itself, since parts of the namespace may have different owners.
    """
    file = os.path.abspath(file)
    # In an archive of PyInstaller a module's file is a .pyc that does not exist.
    if file.endswith(".pyc") and not os.path.isfile(file):
        file = file[:-1]
    directory = os.path.dirname(file)
    is_inside = os.path.basename(file).startswith("__init__.")
    for _ in range(name.count(".") + is_inside):
        directory = os.path.dirname(directory)
    package = os.path.join(directory, name.partition(".")[0])
    return PackagePlace(
        directory, package if os.path.isfile(os.path.join(package, "__init__.py")) else file
    )


def is_others(name: str) -> bool:
    """Return True if a module belongs neither to Python, nor to kcl, nor to a generator."""
    top = name.partition(".")[0]
    return not (top in sys.stdlib_module_names or top == KCL or top in GENERATORS)


def owner(name: str) -> Owner:
    """Return the owner of the module ``name``, loaded or not; memoised."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None) if module is not None else None
    owners = _state().owners
    memo = owners.get((name, file))
    if memo is None:
        memo = _find_owner(name, module, file)
        # Not memoised if it is absent, since it may be installed later.
        if memo.kind != ABSENT:
            owners[name, file] = memo
    return memo


def _find_owner(name: str, module: ModuleType | None, file: str | None) -> Owner:
    top = name.partition(".")[0]
    if top == "kcl":
        return Owner(KCL)
    if top in _ANYWHERE:
        return Owner(DISTRIBUTION, top)
    if name == "__main__":
        return Owner(USER)
    if module is not None and file is None and not hasattr(module, "__path__"):
        if top in sys.builtin_module_names or top in sys.stdlib_module_names:
            return Owner(PYTHON)
        parent = sys.modules.get(top)
        if (
            getattr(module, "__spec__", None) is None
            and parent is not None
            and parent is not module
        ):
            # The package made the module at run time, as pybind11 does.
            return owner(top)
        return Owner(USER)
    place = _place(name, file) if file is not None else locate(name) or locate(top)
    if place is None:
        return Owner(PYTHON) if top in sys.stdlib_module_names else Owner(ABSENT)
    if top in sys.stdlib_module_names and _in_library(place.path):
        return Owner(PYTHON)
    site = _site(place.directory)
    folder = site.owner(top, place.path)
    if folder is None:
        return Owner(USER)
    _state().homes[_name(folder)] = (site, folder)
    return Owner(DISTRIBUTION, _name(folder))


def _in_library(path: str) -> bool:
    """Return True if a file belongs to the standard library."""
    path = os.path.realpath(path)
    return path.startswith(_LIBRARY) and not any(
        f"{os.sep}{folder}{os.sep}" in path for folder in _PACKAGES
    )


def home_of(distribution: str) -> tuple[_Site, str] | None:
    """Return the site of a distribution and the name of its folder there, as `importlib.metadata` finds them."""
    homes = _state().homes
    for site in [] if distribution in homes else map(_site, reversed(_path())):
        if distribution in site.distributions:
            homes[distribution] = (site, site.distributions[distribution])
    return homes.get(distribution)


def roots_of(name: str) -> files.Roots:
    """Return the files by which a distribution counts: its record if it is in `ONLY_RUN`, else all; empty if missing."""
    if name == KCL:
        return ((KCL, PACKAGE),)
    module = name.replace("-", "_")
    place = place_of(module)
    home = home_of(normalised(name))
    if home is not None and name in ONLY_RUN:
        return ((files.RECORD, home[0].path(home[1])),)
    paths = {module: place.path} if place is not None else {}
    if home is not None and name not in _ANYWHERE:
        lines = files.lines(home[0].record(home[1]))
        tops = {os.fsdecode(line.partition(b",")[0].partition(b"/")[0]) for line in lines}
        paths = {top: os.path.join(home[0].directory, top) for top in sorted(tops)} or paths
    return tuple(paths.items())


def place_of(name: str) -> PackagePlace | None:
    """Return the place of a top-level module that is loaded, else the place where an import would find it."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return _place(name, file) if file else locate(name)


def count(names: Iterable[str]) -> None:
    """Compute the texts in keys of distributions that have none yet; their files are read together."""
    state = _state()
    packages = {name: roots_of(name) for name in names if name not in state.texts}
    state.roots |= {name: roots for name, roots in packages.items() if roots}
    digests = files.digests({name: roots for name, roots in packages.items() if roots})
    for name in packages:
        digest, state.stamps[name] = digests.get(name, ("", ""))
        state.texts[name] = f"{version_of(name)} {digest}" if digest else ABSENT


def version_of(name: str) -> str:
    """Return the version of a distribution, from the name of its folder; "unknown" if it is not installed."""
    home = home_of(normalised(name))
    version = home[1].rpartition(".")[0].partition("-")[2].partition("-")[0] if home else "unknown"
    return kcl.__version__ if name == KCL else version


def counted(name: str) -> str:
    """Return a distribution's text in keys: its version and the digest of its files; "absent" if it is missing."""
    text = _state().texts.get(name)
    if text is None:
        count((name,))
        text = _state().texts[name]
    return text


def changed() -> str:
    """Return the name of a distribution whose loaded code may differ from its text in keys; empty if there is none.

    That is so if a file changed since its digest was computed, or since kcl was imported. For a module that was imported
    before kcl, it is a change since the start of the process.
    """
    state = _state()
    packages = [(name, roots) for name, roots in [*state.roots.items()] if name != KCL]
    for name, roots in packages:
        is_early = name.replace("-", "_") in process.BEFORE
        since, listed = process.began() if is_early else process.STARTED, [*files.listed(roots)]
        is_as_read = files.stamp(listed) == state.stamps[name]
        if not (is_as_read and all(file.changed <= since for file in listed)):
            return name
    return ""
