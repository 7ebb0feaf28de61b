"""The inventory: the contents of the layers, from the headers of the entries; writes nothing.

It loads neither pytools nor pyopencl, so that a listing starts at once. It reads the stores of every Python version,
and both sorts of the generator layer.

Code that depends on dtypes is found in two steps: the base row, under a key without dtypes, says which arguments are
open, and the row under the key with their dtypes has the code. So a base row only leads to code.

No unreadable entry ends a listing. Each function that reads entries adds them to a list of its caller.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from kcl import drivers
from kcl.base import computed_once, settings
from kcl.base.settings import trust
from kcl.cache import layers
from kcl.cache.entry import Entry, entry_at, header_end, key_from, peek
from kcl.cache.key import Key, Part
from kcl.cache.stores import Head, Stat
from kcl.cache.stores.directory import Directory
from kcl.cache.stores.sqlite import Database
from kcl.errors import CacheFault, DamagedEntry
from kcl.foreign import contents
from kcl.foreign.contents import Contents

K = TypeVar("K")
T = TypeVar("T")

# The bytes that are read first, enough for most headers. A longer header needs a second read.
_HEAD = 4096
# Digits of the digest of a program's text: enough to tell the programs of a cache apart.
_PROGRAM = 16
_FAULTS = (OSError, sqlite3.Error, CacheFault, ValueError)
# The text by which SQL finds entries with code, and the number of first bytes that it searches; inside of a text it would
# be escaped.
_HAS_CODE, _HEADER = b'"parts":[["source.cl",', 1 << 16
# The header of an entry without code lacks this, and a listing of code need not parse it.
_IS_CODE = b'"function":'

# The kinds of rows of the generator layer; FACTS are the outcomes of candidates in the tuning layer.
CODE, BASE, PROOFS, FACTS = "code", "base", "proofs", "facts"
# In the key of a row for certain dtypes this part follows the parts of its base row, and the dtypes follow it.
_SPECIAL = Part("row", "special")


class RecipeSummary(NamedTuple):
    """The recipe of generated code: its file and line, its parameters, and the dtypes of the arguments.

    The parameters are texts by name, and so are the dtypes, as numpy writes them ("<f4").
    """

    site: str = ""
    parameters: Mapping[str, str] = {}
    dtypes: Mapping[str, str] = {}


class ListedEntry:
    """An entry of which only the header was read; `size` is that of the whole entry, in bytes.

    `kind` is the name of the layer, except: in the generator layer it is "code", "base" for a row that leads to code, or
    "proofs" for what earlier runs proved of recorded calls; of the tuning layer it is "facts" for the outcomes of
    candidates. `is_shown` is False for base rows, proofs and facts.

    `modified` is in seconds since the epoch: for a file the time of its last use, to a day or so, for a row the time
    when the entry was made. `built` is that time for both: the file may be a copy, or completed later. `seconds` is
    what making it took. `program` is the start of the digest of the OpenCL C, which code and its programs share.
    """

    def __init__(
        self,
        layer: str,
        address: str,
        stat: Stat,
        key: bytes | Key,
        metadata: dict[str, Any],
        store: layers.Files | None = None,
    ) -> None:
        self._key, self.metadata = key, metadata
        self.layer, self.address, self.size, self._store = layer, address, stat.size, store
        # The digest of the key.
        self.digest = address[-64:]
        created = _read_number(metadata, "created")
        self.modified = stat.used or created
        self.built, self.seconds = created or self.modified, _read_number(metadata, "seconds")
        self.kernel = str(metadata.get("kernel", ""))
        self.program = str(metadata.get("program", ""))[:_PROGRAM]
        self.kind = _find_kind(layer, metadata)
        self.is_shown = self.kind not in (BASE, PROOFS, FACTS)
        self.device, self.platform = (
            _read_name(metadata, "device"),
            _read_name(metadata, "platform"),
        )

    @computed_once
    def key(self) -> Key:
        """The full key; raises DamagedEntry for a header without one."""
        return key_from(self._key) if isinstance(self._key, bytes) else self._key

    @property
    def file(self) -> str:
        """The path of its file, for a row that of the database."""
        return _find_file(self._store, self.address) if self._store is not None else ""

    @property
    def place(self) -> str:
        """The path, for a row with its address."""
        return _write_place(self.file, self.address)

    def read(self, faults: Faults, with_texts: bool = False) -> Entry | None:
        """Return the verified entry; None if it is gone, or cannot be read, which is added to `faults`.

        `with_texts` asks for the row that holds the texts of a recipe: the base row, of a row that has one.
        """
        address = self.address
        try:
            if with_texts and self.layer == settings.GENERATOR:
                address = find_leading(self.key)[-1]
            blob = self._store.get(address) if self._store is not None else None
            return None if blob is None else entry_at(address, blob)
        except _FAULTS as error:
            faults.append(Refusal(self.layer, self.place, str(error)))
            return None

    @computed_once
    def recipe(self) -> RecipeSummary:
        """The recipe of generated code, as far as the entry has it. For a program: its line, with options and headers."""
        try:
            if self.layer == settings.BINARY:
                words = read_options(self) + [
                    part.name.partition(" ")[2]
                    for part in self.key.parts
                    if part.name.startswith("header ")
                ]
                return RecipeSummary(self.metadata.get("site", ""), dict.fromkeys(words, ""))
            recipe = self.metadata.get("recipe", {})
            dtypes = {
                name: dtype for name, _kind, dtype, _required in self.metadata["arguments"] if dtype
            }
            return RecipeSummary(recipe.get("site", ""), dict(recipe.get("parameters", ())), dtypes)
        except (KeyError, TypeError, ValueError, AttributeError):
            return RecipeSummary()


def read_options(entry: ListedEntry | Entry) -> list[str]:
    """Return the build options that are texts: an include directory with its content is none."""
    return [option for option in entry.metadata.get("options", ()) if isinstance(option, str)]


def find_leading(key: Key) -> list[str]:
    """Return the digests by which rows lead to a row with this key: its own, and that of its base row if it has one."""
    return [part.digest for part in dict.fromkeys([key, find_base_key(key)])]


def find_base_key(key: Key) -> Key:
    """Return the key of the base row that leads to a row with this key, without the dtypes; itself if none does."""
    return Key(key.parts[: key.parts.index(_SPECIAL)]) if _SPECIAL in key.parts else key


def identify_launch(entry: ListedEntry | Entry) -> tuple[str, str]:
    """Return the digest of the OpenCL C, and the names of the launched kernels, which together decide the invoker."""
    return entry.metadata.get("program", ""), repr(entry.metadata.get("kernels"))


class Refusal(NamedTuple):
    """A file or folder that cannot be read, or must not be changed, with the reason."""

    cache: str
    place: str
    reason: str

    def __str__(self) -> str:
        # Most errors name the place themselves.
        return f"{self.cache}: {self.reason}" if self.place in self.reason else self.words("")

    def words(self, verdict: str) -> str:
        """Say what happened at the place, and why."""
        return f"{self.cache}: {self.place} {verdict}".rstrip() + f": {self.reason}"


# What cannot be read. A function that is given one adds to it.
Faults = list[Refusal]


def group(things: Iterable[T], name: Callable[[T], K]) -> dict[K, list[T]]:
    """Put things of the same name together, in their order."""
    groups: dict[K, list[T]] = {}
    for thing in things:
        groups.setdefault(name(thing), []).append(thing)
    return groups


def entries(
    *layer_names: str,
    faults: Faults | None = None,
    all_rows: bool = False,
    own: bool = False,
    site: str | None = None,
) -> Iterator[ListedEntry]:
    """Yield the entries of the named layers, or of all layers; add unreadable ones to `faults`.

    Only what is shown is yielded, unless `all_rows` asks for the rest too, such as the rows that lead to code. Entries
    of site directories come last, and not at all if only one's `own` are wanted; with `site` the own ones are those of
    that directory, which its owner fills.
    """
    # Without a list the faults are collected and dropped.
    faults = [] if faults is None else faults
    for layer in layer_names or settings.LAYERS:
        for store in [*find_stores(layer, faults, site), *([] if own else layers.sites(layer))]:
            yield from read_store(layer, store, faults, all_rows)


def find_damaged_below() -> Faults:
    """Return the damaged files of a driver's own cache: PoCL's."""
    return [
        Refusal("pocl", *fault)
        for driver in drivers.every()
        for fault in driver.damaged(contents.files("pocl"))
    ]


def find_stores(layer: str, faults: Faults, site: str | None = None) -> list[layers.Files]:
    """Return the existing stores of a layer, or that of a `site`; empty if the layer's directory cannot be used."""
    if site:
        return [layers.site(layer, site)]
    row = layers.TABLE[layer]
    folder = row.folder()
    try:
        if not trust.check(folder):
            return []
        # Sorted, so that two listings have one order.
        names = sorted(os.listdir(folder))
    except (OSError, CacheFault) as error:
        faults.append(Refusal(layer, folder, str(error)))
        return []
    return row.on_disk(folder, names)


def find_named(text: str, listed: Sequence[ListedEntry]) -> list[ListedEntry]:
    """Return the entries that a text names: the start of a digest, an address, or the name of a kernel.

    The digest of a base row stands for the code that it leads to.
    """
    if not text:
        return []
    return [
        entry
        for entry in listed
        if text in (entry.kernel, entry.address) or entry.digest.startswith(text)
    ] or [
        entry
        for entry in listed
        if entry.kind == CODE and any(digest.startswith(text) for digest in find_leading(entry.key))
    ]


def _read_number(metadata: Mapping[str, Any], name: str) -> float:
    """Return a number; a damaged header may hold anything: a wrong type counts as nothing known."""
    number = metadata.get(name)
    return float(number) if isinstance(number, (int, float)) else 0.0


def _read_name(metadata: Mapping[str, Any], what: str) -> str:
    facts = metadata.get(what)
    return str(facts.get("name", "")) if isinstance(facts, dict) else ""


def _find_kind(layer: str, metadata: Mapping[str, Any]) -> str:
    if layer != settings.GENERATOR:
        # The metadata of facts has them under this name.
        return FACTS if FACTS in metadata else layer
    if "proven" in metadata:
        return PROOFS
    return CODE if "function" in metadata else BASE


def read_store(
    layer: str, store: layers.Files, faults: Faults, all_rows: bool = True
) -> Iterator[ListedEntry]:
    """Yield the entries of a store by their headers, as `entries` does; add unreadable ones to `faults`."""
    marker = b"" if all_rows or layer != settings.GENERATOR else _IS_CODE
    try:
        for address, start in store.heads(_HEAD):
            head: Head | Exception | None = start
            try:
                if isinstance(head, Exception):
                    raise head
                if head and len(head[1]) == _HEAD < (end := header_end(head[1])):
                    # Another process may remove the entry meanwhile.
                    head = store.head(address, end)
                if head and (parsed := peek(head[1], head[0].size, marker)):
                    entry = ListedEntry(layer, address, head[0], *parsed, store)
                    if all_rows or entry.is_shown:
                        yield entry
            except (OSError, DamagedEntry) as error:
                faults.append(
                    Refusal(layer, _write_place(_find_file(store, address), address), str(error))
                )
    except _FAULTS as error:
        # A database without its table is one that another process makes at this moment.
        if "no such table" not in str(error):
            faults.append(Refusal(layer, store.location, str(error)))


def _find_file(store: layers.Files, address: str) -> str:
    return os.path.join(store.location, address) if isinstance(store, Directory) else store.location


def _write_place(file: str, address: str) -> str:
    return file if file.endswith(address) else f"{file}: {address}"


def measure(layer: str, stores: Sequence[layers.Files]) -> Contents:
    """Count the entries of stores that are shown, and the bytes of their files. Raises nothing."""
    measured = measure_files(stores)
    # All entries of the binary layer are shown, so the files are counted.
    if layer == settings.BINARY:
        return measured
    entries = 0
    for store in stores:
        try:
            # SQL counts the rows with code, and no header leaves the database.
            entries += (
                store.count(_HAS_CODE, _HEADER)
                if isinstance(store, Database)
                else sum(1 for _entry in read_store(layer, store, [], False))
            )
        except (OSError, sqlite3.Error, CacheFault) as error:
            measured = measured._replace(fault=f"{store.location}: {error}")
    return measured._replace(entries=entries)


def measure_files(stores: Iterable[layers.Files]) -> Contents:
    """Count the files of stores and their bytes, as far as folders can be listed; opens none."""
    paths = list[str]()
    for store in stores:
        # A folder that vanishes meanwhile, or that cannot be listed, counts with what was seen of it.
        with suppress(OSError):
            paths.extend(
                [store.location]
                if isinstance(store, Database)
                else (item.path for _address, item in store.items())
            )
    return contents.count(paths, ".*")
