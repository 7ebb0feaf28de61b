"""Pull a driver's pack into the own cache, and push what its runs used. Both run in a child (`kcl.remote.child`)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kcl import bundle
from kcl.bundle import contents
from kcl.bundle.contents import Contents
from kcl.bundle.info import CacheInfo
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.errors import DamagedEntry
from kcl.remote import driver, notes, seal, stores
from kcl.remote.notes import ABSENT, FAILED, PULLED, REFUSED, Arrival, Outcome
from kcl.remote.stores import RemoteFault

_SECONDS = 25.0  # that a client waits: less than its process lives
THERE, _PUSHED, _NOTHING = "there", "pushed", "nothing new"


def outcome(work: Callable[..., Outcome], name: str, address: str, **given: Any) -> Outcome:
    """Return the outcome of a pull or a push of a driver's pack; raises nothing."""
    started = time.monotonic()
    try:
        found = work(name, address, **given)
    except BaseException as error:  # a client may be written in Rust, whose panics are no Exceptions
        state = REFUSED if isinstance(error, DamagedEntry) else FAILED
        found = Outcome(name, state, stores.fault(address, error))
    return found._replace(seconds=time.monotonic() - started)


def pull(name: str, address: str) -> Outcome:
    """Load the pack of the first trusted key that has one; raises RemoteFault and the errors of the client."""
    store, keys = stores.store_of(address, _SECONDS), driver.believed(address)
    for key in keys:
        pack_name = driver.pack_name(name, key)
        blob = store.get(pack_name)
        if blob is None:
            continue
        try:
            info = bundle.load(seal.unseal(pack_name, blob, key).bundle)
        except DamagedEntry as error:
            cure = "push it again, or forget that key with `kcl key forget NAME`"
            raise DamagedEntry(f"the pack {pack_name[:12]} was not loaded: {error}; {cure}") from error
        signer = (key.id, key.name) if key is not None else (seal.UNSIGNED, seal.UNSIGNED)
        notes.arrived(Arrival(*place, *signer, pack_name) for place in info.new)
        refused = f"{len(info.refused)} entries refused, first {info.refused[0][1]}" if info.refused else ""
        return Outcome(name, PULLED, refused, sum(map(len, info.artifacts.values())), len(blob))
    return Outcome(name, ABSENT)


def attempt(name: str, address: str) -> Outcome:
    """Ask for the pack of the first trusted key, and load nothing; raises as `pull`."""
    blob = stores.store_of(address, _SECONDS).get(driver.pack_name(name, driver.believed(address)[0]))
    return Outcome(name, ABSENT if blob is None else THERE, bytes=len(blob or b""))


def push(name: str, address: str, file: str = "", before_asking: Callable[[], object] = lambda: None) -> Outcome:
    """Join a bundle, or what the last runs of a driver used, with the pack of the own key, and put it there."""
    pair = seal.signing()
    if pair is None and not driver.is_unsigned(address):
        raise RemoteFault("no key signs the pack: make one with `kcl key new NAME`")
    key, private = pair or (None, None)
    pack_name, digest = driver.pack_name(name, key), driver.digest(name)
    found = _of_bundle(file) if file else _of_runs(digest)
    others = {(one.layer, one.address) for one in notes.arrivals() if key is None or one.signer != key.id}
    mine = {place: entry for place, entry in found.items() if place not in others}
    before_asking()
    store = stores.store_of(address, _SECONDS)
    held, order = _old(pack_name, store.get(pack_name), key)
    new = {place: better for place in mine if (better := contents.improved(held.get(place), mine[place]))}
    blob = b""
    if new:
        stay = {_kernel(entry) for entry in mine.values()}
        order |= dict.fromkeys(stay, time.time())
        blob = _fitting(held | new, stay, order, lambda pack: seal.seal(pack_name, pack, private))
        store.put(pack_name, blob)
    if not file:
        with suppress(FileNotFoundError):
            os.unlink(notes.path(f"{digest}.used"))
    return Outcome(name, _PUSHED if new else _NOTHING, "", len(new), len(blob))


def _of_bundle(file: str) -> Contents:
    blob = bundle.content(file)
    return {(kind, at): entry for kind, at, entry in contents.unpack(blob, CacheInfo())}


def _of_runs(digest: str) -> Contents:
    """Return the entries that runs used, completed."""
    for layer, addresses in notes.used(digest).items():
        layers.layer(layer).used.update(addresses)
    return contents.used(CacheInfo())


def _old(pack_name: str, blob: bytes | None, key: seal.PublicKey | None) -> tuple[Contents, dict[str, float]]:
    """Return the content of the earlier pack; a damaged one is written anew."""
    if blob is None:
        return {}, {}
    try:
        pack = seal.unseal(pack_name, blob, key)
        return {(kind, at): one for kind, at, one in contents.unpack(pack.bundle, CacheInfo())}, pack.order
    except DamagedEntry:
        return {}, {}


def _fitting(found: Contents, stay: set[str], order: dict[str, float], sealed: Callable[[seal.Pack], bytes]) -> bytes:
    """Return a pack within the limit: where there is more, whole kernels go, those pushed longest ago first."""
    found = dict(found)
    while True:
        kernels = {_kernel(entry) for entry in found.values()}
        order = {kernel: order.get(kernel, 0.0) for kernel in kernels}
        blob = sealed(seal.Pack(contents.pack(found, CacheInfo()), order))
        if len(blob) <= stores.LIMIT:
            return blob
        others = sorted(kernels - stay, key=lambda kernel: order[kernel])
        if not others:
            raise RemoteFault(f"the entries of this run take {len(blob)} bytes, above the limit of {stores.LIMIT}")
        gone = set(others[: max(1, round(len(others) * (1 - stores.LIMIT / len(blob))))])
        found = {place: entry for place, entry in found.items() if _kernel(entry) not in gone}


def _kernel(entry: Entry) -> str:
    return str(entry.metadata.get("kernel") or "")
