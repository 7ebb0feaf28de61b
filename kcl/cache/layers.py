"""The table of layers: the switches and stores of each. A new layer is a new row, and a stage (`kcl.cache.lookup`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kcl.base import process, settings
from kcl.cache import places
from kcl.cache.layer import Layer
from kcl.cache.stores.directory import Directory

if TYPE_CHECKING:
    from kcl.cache.stores import Store
    from kcl.cache.stores.sqlite import Database

    Files = Directory | Database  # the sorts of stores that keep entries on disk


class LayerRow(NamedTuple):
    """The description of a layer.

    `owners` maps a front end to the foreign cache whose switches apply too. `stores` returns the stores in order; memory is
    above them. `folder` returns the folder of the layer's files, without opening a store. `on_disk(folder, names)` returns
    the stores in that folder, with those of other Python versions. `own` is the shared folder in which the layer's files
    lie, with a pattern of their names, for removals; `files` is the name of a directory store there. With `keeps_read`
    memory keeps the entries that were read too. Reports show a layer `always`, or only if it was used.
    """

    owners: dict[str, str]
    own: tuple[str, str]
    folder: Callable[[], str]
    stores: Callable[[], list[Store]]
    files: str = ""
    on_disk: Callable[[str, list[str]], list[Files]] = lambda folder, _names: [Directory(folder)]
    keeps_read: bool = True
    always: bool = True


class OpenLayers:
    """The opened layers."""

    def __init__(self) -> None:
        self.layers: dict[str, Layer] = {}

    def on_change(self) -> None:
        """Forget every layer, so that the next look-up reads switches and places again."""
        # A new dictionary: a thread that is opening a layer by the former switches adds it to the old one.
        self.layers = {}


_state = process.own(OpenLayers)


def layer(name: str) -> Layer:
    """Return the layer of this name; the first call opens it and reads its switches and its place."""
    return _state().layers.get(name) or _open(name)


def generator() -> Layer:
    """Return the generator layer."""
    return layer(settings.GENERATOR)


def binary() -> Layer:
    """Return the binary layer."""
    return layer(settings.BINARY)


def unopened(name: str) -> Layer:
    """Return a layer without stores, which shows its current switches and the directory of its files."""
    row = TABLE[name]
    return Layer(name, row.owners, [], settings.read(), place=row.folder())


def off(name: str, front_end: str) -> str:
    """Return why a layer is off now for the kernels of a front end, without opening it; empty if it is on."""
    return unopened(name).off(frozenset({front_end}))


def at(name: str, folder: str) -> Layer:
    """Return a layer with its files in another folder, for a child that stores entries for its parent."""
    return Layer(name, {}, [Directory(folder)], settings.read(), TABLE[name].keeps_read)


def sites(name: str) -> list[Directory]:
    """Return the stores of the site directories, which are only read."""
    options = settings.read()
    others = options.site_owners | {0}
    return [Directory(_folder_in(root, name), others=others) for root in options.site]


def site(name: str, root: str) -> Directory:
    """Return the store by which a site directory is filled; everyone may read its files."""
    return Directory(_folder_in(root, name), everyone=True)


def _folder_in(root: str, name: str) -> str:
    row = TABLE[name]
    return os.path.join(root, row.own[0], row.files)


def opened() -> dict[str, Layer]:
    """Return the layers used so far."""
    return dict(_state().layers)


def reset() -> None:
    """Forget every layer, so that the next look-up reads switches and places again, and warns again."""
    process.on_change()


def _open(name: str) -> Layer:
    # Without a lock, since this imports modules and may run the program's own code in a warning. If two threads open
    # the layer, both get the layer of the first.
    layers, options, row = _state().layers, settings.read(), TABLE[name]
    # A fault of KCL_STRICT is left out here, since each look-up raises it.
    for text in [text for text in options.rejected if text != options.strict_fault]:
        from kcl.cache.faults import warn_once

        warn_once(text, text)
    stores = [*row.stores(), *(sites(name) if options.site else ())]
    return layers.setdefault(name, Layer(name, row.owners, stores, options, row.keeps_read))


def _rows() -> list[Store]:
    """Return the generator layer's store: a database, or on a network file system, where SQLite is unsafe, a directory."""
    from kcl.base.settings.trust import is_network
    from kcl.cache.stores.sqlite import Rows

    folder = places.dictionaries()
    return [Directory(places.generated(), notes_use=True) if is_network(folder) else Rows(folder)]


def _rows_on_disk(folder: str, names: list[str]) -> list[Files]:
    """Return the generator layer's databases of all Python versions, and the directory store if there is one."""
    from kcl.cache.stores.sqlite import Database

    start, end = f"{places.DICTIONARY}{places.GENERATED}", places.DATABASE
    own = [name for name in names if name.startswith(start) and name.endswith(end)]
    databases: list[Files] = [Database(os.path.join(folder, name)) for name in own]
    return [*databases, Directory(places.generated())] if places.GENERATED in names else databases


# By name, in the order of the line.
TABLE = {
    settings.GENERATOR: LayerRow(
        owners={"loopy": "loopy", "opencl": "pyopencl"},
        own=places.ROWS,
        files=places.GENERATED,
        folder=places.dictionaries,
        stores=_rows,
        on_disk=_rows_on_disk,
    ),
    settings.BINARY: LayerRow(
        owners={"loopy": "pyopencl", "opencl": "pyopencl"},
        own=places.PROGRAMS,
        files=places.BINARIES,
        folder=places.binaries,
        stores=lambda: [Directory(places.binaries(), notes_use=True)],
        # The driver keeps a built program: 60 kB for each would only push other data out of the processor's cache.
        keeps_read=False,
    ),
    settings.TUNING: LayerRow(
        owners={"loopy": "pyopencl", "opencl": "pyopencl"},
        own=places.CHOICES,
        files=places.TABLES,
        folder=lambda: places.own(places.TABLES),
        stores=lambda: [Directory(places.own(places.TABLES), notes_use=True)],
        always=False,
    ),
}
