"""Pull a driver's pack into the own cache, and push what its runs used. Both run in a child (`kcl.remote.child`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from kcl import bundle
from kcl.base import settings
from kcl.bundle import contents
from kcl.bundle.contents import Contents
from kcl.bundle.info import CacheInfo
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.errors import DamagedEntry
from kcl.remote import driver, notes, seal, stores
from kcl.remote.notes import Outcome
from kcl.remote.stores import RemoteFault

_SECONDS = 25.0  # that a client waits: less than its process lives


def pull(name: str, address: str, load: bool = True) -> Outcome:
    """Load the pack of the first trusted key that has one, or only see it; no bytes came if there is none.

    Raises RemoteFault, DamagedEntry for a pack that is not to be believed, and the errors of the client.
    """
    store = stores.store_of(address, _SECONDS)
    for key in driver.believed(address):
        pack_name = driver.pack_name(name, key)
        blob = store.get(pack_name)
        if blob is None:
            continue
        if not load:
            return Outcome(name, bytes=len(blob))
        try:
            info = bundle.load(seal.unseal(pack_name, blob, key)[1])
        except DamagedEntry as error:
            cure = "push it again, or forget that key with `kcl key forget NAME`"
            raise DamagedEntry(
                f"the pack {pack_name[:12]} was not loaded: {error}; {cure}"
            ) from error
        notes.arrived(pack_name, info.new)
        fault = (
            f"{len(info.refused)} entries refused, first {info.refused[0][1]}"
            if info.refused
            else ""
        )
        return Outcome(name, fault, sum(map(len, info.artifacts.values())), len(blob))
    return Outcome(name)


def push(
    name: str, address: str, file: str = "", before_asking: Callable[[], object] = lambda: None
) -> Outcome:
    """Join a bundle, or what the last runs of a driver used, with the pack of the own key, and put it there.

    Nothing is put if the pack lacks nothing. `before_asking` is called when the entries are complete. Raises as `pull`.
    """
    pair = seal.signing()
    if pair is None and not driver.is_unsigned(address):
        raise RemoteFault("no key signs the pack: make one with `kcl key new NAME`")
    key, private = pair or (None, None)
    pack_name, digest = driver.pack_name(name, key), driver.digest(name)
    found = dict(contents.unpack(bundle.content(file), CacheInfo())) if file else _of_runs(digest)
    brought, own = notes.arrivals(), key.id if key is not None else ""
    mine = {place: entry for place, entry in found.items() if brought.get(place, own) == own}
    before_asking()
    store = stores.store_of(address, _SECONDS)
    held, order = _old(pack_name, store.get(pack_name), key)
    new = {
        place: better
        for place in mine
        if (better := contents.improved(held.get(place), mine[place]))
    }
    blob = b""
    if new:
        stay = {_kernel(entry) for entry in mine.values()}
        blob = _fitting(held | new, order, stay, partial(seal.seal, pack_name, private))
        store.put(pack_name, blob)
    if not file:
        with suppress(FileNotFoundError):
            os.unlink(notes.path(f"{digest}.used"))
    return Outcome(name, "", len(new), len(blob))


def _of_runs(digest: str) -> Contents:
    """Return the entries that runs used, completed."""
    for layer, address in notes.used(digest):
        if layer in settings.LAYERS:
            layers.layer(layer).used[address] = None
    return contents.used(CacheInfo())


def _old(
    pack_name: str, blob: bytes | None, key: seal.PublicKey | None
) -> tuple[Contents, list[str]]:
    """Return the content of the earlier pack; a damaged one is written anew."""
    with suppress(DamagedEntry):
        if blob is not None:
            order, data = seal.unseal(pack_name, blob, key)
            return dict(contents.unpack(data, CacheInfo())), order
    return {}, []


def _fitting(
    found: Contents, order: list[str], stay: set[str], sealed: Callable[[list[str], bytes], bytes]
) -> bytes:
    """Return a pack within the limit: where there is more, whole kernels go, the first in `order` first.

    The kernels that `stay` are the last in the new order.
    """
    there = {_kernel(entry) for entry in found.values()}
    others = [
        *sorted(there - {*order} - stay),
        *(kernel for kernel in order if kernel in there - stay),
    ]
    while True:
        kept = {*others, *stay}
        chosen = {place: entry for place, entry in found.items() if _kernel(entry) in kept}
        blob = sealed([*others, *sorted(stay)], contents.pack(chosen, CacheInfo()))
        if len(blob) <= stores.LIMIT:
            return blob
        if not others:
            raise RemoteFault(
                f"the entries of this run take {len(blob)} bytes, above the limit of {stores.LIMIT}"
            )
        del others[: max(1, round(len(others) * (1 - stores.LIMIT / len(blob))))]


def _kernel(entry: Entry) -> str:
    return str(entry.metadata.get("kernel") or "")
