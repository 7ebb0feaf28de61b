"""The listing of the entries, kept in a file, so that no command reads the whole of a large cache again.

    file    = digest newline columns    hex digits of the SHA-256 of the rest
    columns = JSON: {"stamp": [...], "recipes": [[kernel, site, parameters, number of the dtypes]...],
              "dtypes": [{name: dtype}...], "devices": [[platform, device]...], and for each of COLUMNS a list}

The file is a summary that can be made again at any time. Where the stamp of the whole is unchanged nothing else is
read, since entries are put in place by renaming. An entry whose own stamp differs was replaced and is read again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from kcl.cache import places
from kcl.cache.stores.base import address
from kcl.cache.stores.directory import Directory
from kcl.errors import CacheFault

# This number of entries is read quickly; the file is written only for more.
FEW = 256
COLUMNS = ("addresses", "stamps", "kinds", "recipe", "device", "sizes", "built", "seconds", "programs")
KINDS = ("code", "base", "pointer", "proofs")  # of rows; an entry of another layer is of the kind of its layer

_SETTLED = 2_000_000_000  # ns: a place that changed so lately can change again without a trace in its time

Stamp = list[int]


class RecipeSummary(NamedTuple):
    """The recipe of generated code: its file and line, its parameters, and the dtypes of the arguments.

    The parameters are texts by name, and so are the dtypes, as numpy writes them ("<f4").
    """

    site: str = ""
    parameters: Mapping[str, str] = {}
    dtypes: Mapping[str, str] = {}


class Summary(NamedTuple):
    """An entry in a listing; `built` is in seconds since the epoch, `seconds` is the time that making it took.

    `kind` is the layer, or in the generator layer "code", "base", "pointer" (see `kcl.generate.rows`) or "proofs" (see
    `kcl.record.proofs`). `program` is the start of the digest of the OpenCL C, which code and its programs share.
    """

    layer: str
    address: str
    kind: str
    kernel: str
    platform: str
    device: str
    size: int
    built: float
    seconds: float
    program: str = ""
    recipe: RecipeSummary = RecipeSummary()

    @property
    def digest(self) -> str:
        """The digest of the key, as in the address."""
        return self.address[-64:]


Known = dict[str, tuple[Stamp, Summary]]


def stamp_of(place: str) -> Stamp:
    """Return the stamp of a file, or of a directory and its folders: it changes with each addition or removal.

    The stamp consists of inodes and the times of the last changes. It is empty where a change was a moment ago, or
    where a time is not known.
    """
    try:
        found = [place]
        if not place.endswith(places.DATABASE):
            with os.scandir(place) as items:
                found += [item.path for item in items if item.is_dir(follow_symlinks=False)]
        statuses = [os.lstat(path) for path in found]
    except OSError:
        return []
    if any(status.st_mtime_ns > time.time_ns() - _SETTLED for status in statuses):
        return []
    return sorted(number for status in statuses for number in (status.st_ino, status.st_mtime_ns))


def load(place: str, layer: str) -> tuple[Stamp, Known]:
    """Return the saved listing of a file or directory of a layer: its stamp, and the entries by address."""
    with suppress(OSError, CacheFault, ValueError, TypeError, KeyError, IndexError):
        blob = store().get(_address(place))
        if blob is not None and hashlib.sha256(blob[65:]).hexdigest().encode() == blob[:64]:
            document = json.loads(blob[65:])
            return document["stamp"], _decoded(layer, document)
    return [], {}


def save(place: str, stamp: Stamp, known: Known) -> None:
    """Save a listing; a failure is no error."""
    with suppress(OSError, CacheFault, ValueError):
        columns = json.dumps({"stamp": stamp, **_encoded(known)}, separators=(",", ":")).encode()
        blob = hashlib.sha256(columns).hexdigest().encode() + b"\n" + columns
        store().put(_address(place), blob)


def store() -> Directory:
    """Return the directory of the summaries."""
    return Directory(places.own(places.LISTING))


def _address(place: str) -> str:
    return address(hashlib.sha256(os.fsencode(place)).hexdigest(), label="summary")


def _encoded(known: Known) -> dict[str, object]:
    dtypes: dict[str, int] = {}
    recipes: dict[str, int] = {}
    devices: dict[tuple[str, str], int] = {}
    columns = [
        (
            found.address,
            stamp,
            KINDS.index(found.kind) if found.kind in KINDS else len(KINDS),
            recipes.setdefault(_recipe(found, dtypes), len(recipes)),
            devices.setdefault((found.platform, found.device), len(devices)),
            found.size,
            found.built,
            found.seconds,
            found.program,
        )
        for stamp, found in known.values()
    ]
    listed = dict(zip(COLUMNS, map(list, zip(*columns, strict=True)), strict=True)) if columns else {}
    tables = {"recipes": list(map(json.loads, recipes)), "dtypes": list(map(json.loads, dtypes))}
    return {**tables, "devices": list(devices), **listed}


def _recipe(found: Summary, dtypes: dict[str, int]) -> str:
    """Write a recipe as JSON; its dtypes, which most recipes share, by their place in a table."""
    number = dtypes.setdefault(json.dumps(found.recipe.dtypes), len(dtypes))
    return json.dumps([found.kernel, found.recipe.site, found.recipe.parameters, number])


def _decoded(layer: str, document: dict[str, list[Any]]) -> Known:
    devices = document["devices"]
    recipes = [
        (kernel, RecipeSummary(site, parameters, document["dtypes"][number]))
        for kernel, site, parameters, number in document["recipes"]
    ]
    known: Known = {}
    for place, stamp, kind, number, device, size, built, seconds, program in zip(
        *(document[name] for name in COLUMNS), strict=True
    ):
        platform, name = devices[device]
        kernel, recipe = recipes[number]
        known[place] = (
            stamp,
            Summary(
                layer,
                place,
                KINDS[kind] if kind < len(KINDS) else layer,
                kernel,
                platform,
                name,
                size,
                built,
                seconds,
                program,
                recipe,
            ),
        )
    return known
