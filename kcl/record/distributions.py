"""The owner of a module (the standard library, an installed distribution, kcl, or the user) and its text in keys.

The standard library counts by the Python version. An installed distribution counts by its version and by its record of
installed Python and library files, so a key sees a reinstall under the same version. An editable install and every file
outside of distributions are the user's: they count by their code. importlib.metadata has most of this. It takes 4.2 ms
of a warm start for the distributions that loopy requires, and 20 ms more for its import where pyopencl is not imported.
This module takes less than 2 ms: it lists each directory with distributions once a process, and reads records as bytes.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, NamedTuple

import kcl
from kcl.base import process
from kcl.base.settings import PACKAGE

INTERPRETER = (  # counts for the standard library
    f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor} {sys.implementation.cache_tag}"
)

PYTHON, DISTRIBUTION, KCL, USER, ABSENT = "python", "distribution", "kcl", "user", "absent"

# the distributions that turn a recipe into OpenCL C and run it
GENERATORS = (
    *("loopy", "islpy", "pymbolic", "cgen", "genpy", "pytools", "pyopencl", "numpy"),
    *("constantdict", "mako", "markupsafe"),
)
# what these import beside: it decides no text
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

_LIBRARY = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
_PACKAGES = ("site-packages", "dist-packages")
_SUFFIXES = (".py", ".so", ".pyd", ".dll", ".dylib", ".cl", ".h")
# Lines of a record that do not count: those of files outside of the directory, of files about the installation, and of
# files that an editable install leaves beside its metadata; lines without a digest (compiled files, the record itself).
_volatile = re.compile(rb"\.\.|[^,]*\.dist-info/|__editable__|[^/,]*\.(?:pth|egg-link),").match


class Owner(NamedTuple):
    """The owner of a module; ``name`` is the distribution's."""

    kind: str
    name: str = ""


class PackagePlace(NamedTuple):
    """The place of a top-level module: a directory of ``sys.path``, and a file or package directory in it."""

    directory: str
    path: str


class _Site:
    """One directory that modules are imported from, with the distributions installed in it."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        try:
            names = os.listdir(directory)
        except OSError:
            names = []
        self.records: dict[str, bytes] = {}
        self.distributions: dict[str, str] = {}  # normalised name -> name of the folder
        for name in sorted([name for name in names if name.endswith(".dist-info")]):
            self.distributions[_name(name)] = name

    def record(self, name: str) -> bytes:
        """Return the record of the distribution in folder ``name``, empty where it has none."""
        known = self.records.get(name)
        if known is None:
            known = self.records[name] = _read(os.path.join(self.directory, name, "RECORD")) or b""
        return known

    def owner(self, top: str, path: str) -> str | None:
        """Return the folder of the distribution that installed module ``top``; ``path`` is one of its files."""
        likely = self.distributions.get(_normal(top))
        if likely is not None and self.installed(likely, path):
            return likely
        return next(
            (name for name in self.distributions.values() if self.installed(name, path)), None
        )

    def installed(self, name: str, path: str) -> bool:
        """Tell whether the distribution in folder ``name`` brought this module."""
        record = self.record(name)
        inside = path[len(self.directory) :].lstrip(os.sep).replace(os.sep, "/")
        line = os.fsencode(inside) + (b"/" if os.path.isdir(path) else b",")
        return record.startswith(line) or b"\n" + line in record


class State:
    """Memos about installed files; one function fills each memo."""

    def __init__(self) -> None:
        self.path: list[str] = []  # the `sys.path` that `places` holds for
        self.places: dict[str, PackagePlace] = {}
        self.owners: dict[tuple[str, str | None], Owner] = {}
        self.homes: dict[
            str, tuple[_Site, str]
        ] = {}  # distribution -> site of its installation, name of the folder


_state = process.shared(State)


def _normal(name: str) -> str:
    return name.replace("_", "-").replace(".", "-").lower()


def _name(folder: str) -> str:
    """Return the normalised name of the distribution of a dist-info folder."""
    return _normal(folder.partition("-")[0])


_site = functools.cache(_Site)


def _path() -> list[str]:
    """List the directories of ``sys.path`` as they are now."""
    return [os.path.abspath(entry) for entry in sys.path]


def find(name: str) -> ModuleSpec | None:
    """Find a module as an import would, without importing it or its packages; editable installs have own finders."""
    path: Any = None
    spec: ModuleSpec | None = None
    names = name.split(".")
    for end in range(1, len(names) + 1):
        finders: tuple[Any, ...] = (
            (PathFinder,) if path is not None else (PathFinder, *sys.meta_path)
        )
        spec = next(
            filter(None, (_spec(finder, ".".join(names[:end]), path) for finder in finders)), None
        )
        if spec is None:
            return None
        path = spec.submodule_search_locations or []
    return spec


def _spec(finder: Any, name: str, path: Any) -> ModuleSpec | None:
    try:
        found: ModuleSpec | None = finder.find_spec(name, path)
    except Exception:  # a finder of the program may raise anything
        return None
    return found


def locate(name: str) -> PackagePlace | None:
    """Return the place of the top-level module of `name`, where an import finds it; memoised."""
    state = _state()
    if state.path != sys.path:
        state.path = [*sys.path]
        state.places.clear()
    if name not in state.places:
        spec = find(name)
        folders = [*(spec.submodule_search_locations or ())] if spec is not None else []
        file = spec.origin if spec is not None and spec.has_location else next(iter(folders), None)
        if file is None:
            return None
        state.places[name] = _place(name, file)
    return state.places[name]


def _place(name: str, file: str) -> PackagePlace:
    """Return the place of the top-level module, for a file of a module; parts of a namespace differ by their files."""
    file = os.path.abspath(file)
    if file.endswith(".pyc") and not os.path.isfile(file):  # in the archive of an application
        file = file[:-1]
    directory = os.path.dirname(file)
    is_inside = os.path.basename(file).startswith("__init__.")
    for _ in range(name.count(".") + is_inside):
        directory = os.path.dirname(directory)
    package = os.path.join(directory, name.partition(".")[0])
    return PackagePlace(
        directory, package if os.path.isfile(os.path.join(package, "__init__.py")) else file
    )


def owner(name: str) -> Owner:
    """Return the owner of the module ``name``, loaded or not; memoised."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None) if module is not None else None
    owners = _state().owners
    known = owners.get((name, file))
    if known is None:
        known = _find_owner(name, module, file)
        if known.kind != ABSENT:
            owners[name, file] = known
    return known


def _find_owner(name: str, module: ModuleType | None, file: str | None) -> Owner:
    top = name.partition(".")[0]
    if top == "kcl":
        return Owner(KCL)
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
            return owner(top)  # its package made it at run time, as pybind11 does
        return Owner(USER)
    place = (
        _place(name, file)
        if module is not None and file is not None
        else locate(name) or locate(top)
    )
    if place is None:
        return Owner(PYTHON) if top in sys.stdlib_module_names else Owner(ABSENT)
    if top in sys.stdlib_module_names and _in_library(place.path):
        return Owner(PYTHON)
    distribution = _installer(top, place)
    return Owner(USER) if distribution is None else Owner(DISTRIBUTION, distribution)


def _installer(top: str, place: PackagePlace) -> str | None:
    """Return the distribution that installed a top-level module, None where it has none; remember its place."""
    site = _site(place.directory)
    folder = site.owner(top, place.path)
    if folder is None:
        return None
    distribution = _name(folder)
    _state().homes[distribution] = (site, folder)
    return distribution


def _in_library(path: str) -> bool:
    """Tell whether a file belongs to the standard library."""
    path = os.path.realpath(path)
    return path.startswith(_LIBRARY) and not any(
        f"{os.sep}{folder}{os.sep}" in path for folder in _PACKAGES
    )


def _is_installed(distribution: str) -> bool:
    """Return True if a distribution is installed, and remember its place."""
    homes = _state().homes
    for site in [] if distribution in homes else map(_site, reversed(_path())):
        if distribution in site.distributions:
            homes[distribution] = (site, site.distributions[distribution])
    return distribution in homes


def _identify(distribution: str) -> str:
    site, folder = _state().homes[distribution]
    version = folder.rpartition(".")[0].partition("-")[2].partition("-")[0] or "unknown"
    digest = _digest_of_record(site.record(folder))
    if digest:
        return f"{version} {digest}"
    place = locate(distribution.replace("-", "_"))
    return f"{version} {content(place.path)}" if place is not None else version


def _digest_of_record(record: bytes) -> str:
    """Digest the lines of a record that count; return an empty text where no line counts."""
    listed = [line for line in record.splitlines() if line and line[-1:] != b","]
    lines = sorted([line for line in listed if not _volatile(line)])
    return hashlib.sha256(b"\n".join(lines)).hexdigest() if lines else ""


def counted(name: str) -> str:
    """Return the text of a distribution: version and record; one of `GENERATORS` may be editable, or "absent"."""
    whose = owner(name) if name in GENERATORS else Owner(DISTRIBUTION, name)
    if whose.kind == DISTRIBUTION:
        return _identify(whose.name)
    place = locate(name)
    return f"editable {content(place.path)}" if place is not None else ABSENT


def here(name: str) -> str:
    """Return the text of a distribution as `counted` does; "absent" for one that is not installed here."""
    return counted(name) if name in GENERATORS or _is_installed(name) else ABSENT


def own() -> str:
    """Return the text of kcl: its version, and a digest over its files. So a wheel is the same kcl as its checkout."""
    return f"{kcl.__version__} {content(PACKAGE)}"


@functools.cache
def content(path: str) -> str:
    """Return the digest of a file, or of all source and library files below a directory; memoised."""
    hasher = hashlib.sha256()
    for inside, file in sorted(_files(path)):
        data = _read(file)
        if data is None:  # no other process has this digest: what is stored with it never hits
            data = os.urandom(32)
        hasher.update(f"{inside} {len(data)}\n".encode("utf-8", "surrogateescape") + data)
    return hasher.hexdigest()


def _read(file: str) -> bytes | None:
    with suppress(OSError), open(file, "rb") as stream:
        return stream.read()
    return None


def _files(path: str) -> Iterator[tuple[str, str]]:
    if not os.path.isdir(path):
        yield "", path
    for folder, _, names in os.walk(path):
        for name in names:
            if name.endswith(_SUFFIXES) and name[:1] != ".":  # an editor's link to no file
                file = os.path.join(folder, name)
                yield file[len(path) + 1 :].replace(os.sep, "/"), file
