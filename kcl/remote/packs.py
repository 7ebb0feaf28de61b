"""Pulls the packs of a project into the user's cache, and pushes the entries that its runs used; runs in a child."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

from kcl import bundle
from kcl.base.text.layout import counted
from kcl.bundle import contents
from kcl.bundle.contents import Contents
from kcl.bundle.info import CacheInfo
from kcl.cache.entry import signers
from kcl.errors import CacheFault, DamagedEntry
from kcl.remote import seal, stores, used
from kcl.remote.outcomes import Outcome
from kcl.remote.seal import PublicKey
from kcl.remote.stores import PackStore, RemoteFault

# The time-out of a client, which is less than the lifetime of its process.
_SECONDS = 25.0
_TOGETHER = 64 << 20  # bytes of packs that one process loads at most
_DAY = 86400.0
_KEYS = 8  # whose packs are asked for at most
# Seconds before the second try, and before a later one at most.
_PAUSE, _LONGEST = 0.05, 5.0


def pull(project: str, address: str, load: bool = True) -> Outcome:
    """Fetch the packs of all trusted keys, and load their entries unless `load` is False.

    The outcome has 0 bytes if there is no pack. If one pack cannot be read, the others are still loaded. Raises RemoteFault
    for a wrong address, and if no key is trusted.
    """
    brought, size = set[str](), 0
    faults, remarks = list[str](), list[str]()
    store = stores.store_of(address, _SECONDS)
    keys = seal.believed(address)
    # The signing key is unknown if there are several, or if it cannot be read.
    with suppress(RemoteFault):
        if own := seal.signing():
            # The own pack comes first: of two equally complete entries the first one is kept.
            keys.sort(key=lambda key: key.id != own[0].id)
    if len(keys) > _KEYS:
        remarks.append(f"only {_KEYS} of {len(keys)} keys are asked for")
    for key, data, remark, fault in _fetch(store, project, address, keys):
        remarks += filter(None, [remark])
        faults += filter(None, [fault])
        size += len(data or b"")
        if data is not None and load:
            info = contents.load(data, signer=key.id)
            brought.update(*info.artifacts.values())
            if info.refused:
                words = f"in the pack of {key.name} are refused, first: {info.refused[0][1]}"
                faults.append(f"{counted(len(info.refused), 'entry', 'entries')} {words}")
    fault = "; ".join(dict.fromkeys(faults))
    return Outcome(fault, len(brought), size, remark="; ".join(remarks))


def push(
    project: str,
    address: str,
    file: str = "",
    seconds: float = 60.0,
    secret: str = "",
) -> Outcome:
    """Add entries to the pack of the user's own key on the remote: those of a bundle `file`, or those that runs used.

    Nothing is written if the trusted packs have all these entries. If another process writes the pack at the same time,
    its entries are merged and the write is tried again, for up to `seconds`. `secret` is the secret half of the key that
    signs. If the own pack is damaged, it starts over, and a remark says so. Raises as `pull` does.
    """
    pair = seal.signing(secret) or (seal.UNSIGNED, None)
    key, private = pair
    if private is None and not seal.is_unsigned(address):
        raise RemoteFault("no key signs the pack: make one with `kcl key new NAME`")
    with ExitStack() as stack:
        entries = (
            dict(contents.unpack(bundle.read_file(file), CacheInfo()))
            if file
            else contents.collect(stack.enter_context(used.take(project)), CacheInfo())
        )
        if not entries:
            return Outcome(remark="no run has used an entry here since the last push")
        store = stores.store_of(address, _SECONDS)
        there = _read_others(store, project, address, key)
        mine, remarks = _select_mine(entries, there, key)
        outcome = _join(store, project, pair, mine, there, seconds)
        words = [*remarks, outcome.remark, store.remark]
        return outcome._replace(remark="; ".join(filter(None, words)))


class ListedPack(NamedTuple):
    """A pack in a listing of the remote; project and time are from its head, whose signature is not checked."""

    name: str
    project: str
    key: str
    size: int
    moment: float


def listed() -> list[ListedPack]:
    """Return the packs of the remote, sorted by project and key; raises RemoteFault."""
    names = seal.known_names()
    packs = []
    with _open_store() as store:
        for name, size, start in store.listed():
            # The name comes from the server and will be printed, so control characters are removed.
            signer = "".join(filter(str.isprintable, name.partition("/")[2]))
            moment, project = seal.read_head(start)
            packs.append(ListedPack(name, project, names.get(signer, signer), size, moment))
    return sorted(packs, key=lambda pack: pack[1:3])


def drop(names: Iterable[str]) -> None:
    """Remove packs from the remote; raises RemoteFault."""
    with _open_store() as store:
        for name in names:
            store.delete(name)


@contextmanager
def _open_store() -> Iterator[PackStore]:
    """Yield the store of the remote; every error in the block becomes a RemoteFault with a readable message."""
    address = stores.chosen()
    try:
        yield stores.store_of(address, _SECONDS)
    except Exception as error:
        # `from None`, because the original error may contain secrets of the address.
        raise RemoteFault(f"{stores.shown(address)}: {stores.fault(address, error)}") from None


def _join(
    store: PackStore,
    project: str,
    pair: tuple[PublicKey, Any],
    mine: Contents,
    there: Contents,
    seconds: float,
) -> Outcome:
    """Add the entries of `mine` that are missing, or less complete, in the own pack and in the packs `there`.

    Raises RemoteFault if other processes write the pack at every try.
    """
    key, private = pair
    name = seal.pack_name(project, key)
    wanted = {place: mine[place] for place in contents.improvements(there, mine)}
    end, pause = time.monotonic() + seconds, _PAUSE
    while True:
        before, mark, damage = _read_own(store, name, key)
        # A damaged pack is written in any case, since nobody can read it.
        new = mine if damage else contents.improvements(before, wanted)
        if not new:
            all_there = f"all of {counted(len(mine), 'entry', 'entries')} are there"
            return Outcome(remark=all_there if mine else "")
        joined = before | new
        # Entries are ordered by their last use, so those of `mine` go to the end.
        joined |= {place: joined.pop(place) for place in mine if place in joined}
        blob, kept = _fit(joined, lambda data: seal.seal(name, private, data, project))
        count = len(new.keys() & kept.keys())
        lost = f"{len(new) - count} of them do not fit: a pack has {stores.LIMIT >> 20} MiB"
        remarks = [lost if count < len(new) else "", damage if count else ""]
        if not count or store.put(name, blob, mark):
            return Outcome(
                "", count, len(blob) if count else 0, remark="; ".join(filter(None, remarks))
            )
        if time.monotonic() > end:
            raise RemoteFault(
                f"others pushed at each try for {seconds:.0f} s; the next push has it all"
            )
        # After a random pause two processes are less likely to collide again.
        time.sleep(random.uniform(0, pause))
        pause = min(2 * pause, _LONGEST)


def _read_own(store: PackStore, name: str, key: PublicKey) -> tuple[Contents, Any, str]:
    """Return the entries of the own pack, the mark by which `put` notices that it has changed since, and its damage."""
    # A pack that seems damaged is read again: it may have been changing.
    for _time in range(2):
        blob, mark = store.look(name)
        try:
            data = seal.unseal(name, blob, key)[1] if blob else b""
            return dict(contents.unpack(data, CacheInfo())) if blob else {}, mark, ""
        except DamagedEntry as error:
            damage = f"the own pack was damaged: it starts over ({error})"
    return {}, mark, damage


def _fit(entries: Contents, sealed: Callable[[bytes], bytes]) -> tuple[bytes, Contents]:
    """Return the bytes of a pack and the entries in it; if not all fit, those used longest ago are left out."""
    # Entries that are too large by themselves are left out first.
    kept = [item for item in entries.items() if len(item[1].pack()) <= stores.LIMIT]
    while True:
        blob = sealed(contents.pack(dict(kept), CacheInfo()))
        if len(blob) <= stores.LIMIT:
            return blob, dict(kept)
        # The share of entries to drop is the share of bytes that are too many; at least one entry is dropped.
        del kept[: max(1, round(len(kept) * (1 - stores.LIMIT / len(blob))))]


def _fetch(
    store: PackStore, project: str, address: str, keys: list[PublicKey]
) -> Iterator[tuple[PublicKey, bytes | None, str, str]]:
    """Yield (key, bundle, remark, fault) for each pack that exists; the bundle is None if it cannot be used."""
    names = [seal.pack_name(project, key) for key in keys[:_KEYS]]
    room = _TOGETHER
    with ThreadPoolExecutor(_KEYS) as threads:
        answers = [threads.submit(store.get, name) for name in names]
    for key, name, answer in zip(keys, names, answers, strict=False):
        # An error with one pack must not keep the others from being loaded.
        try:
            blob = answer.result()
            if blob is None:
                continue
            if len(blob) > room:
                remark = f"the pack of {key.name} is left out: above {_TOGETHER} bytes together"
                yield key, None, remark, ""
                continue
            room -= len(blob)
            moment, data = seal.unseal(name, blob, key)
        except DamagedEntry as error:
            cure = (
                f"remove it with `kcl remote rm {name[:12]} --key {key.name}`, "
                "or forget that key with `kcl key forget NAME`"
            )
            words = f"the pack {name[:12]} of {key.name} was not loaded: {error}; {cure}"
            yield key, None, "", words
        except Exception as error:
            yield key, None, "", stores.fault(address, error)
        else:
            days = (time.time() - moment) / _DAY
            signed = f"a pack of {len(blob)} bytes signed by {key.name} {days:.1f} days ago"
            yield key, data, signed, ""


def _read_others(store: PackStore, project: str, address: str, own: PublicKey) -> Contents:
    """Return the entries in the packs of the other trusted keys, as far as they can be read."""
    entries: Contents = {}
    # `believed` raises this if no key is trusted.
    with suppress(RemoteFault):
        keys = [key for key in seal.believed(address) if key.id != own.id]
        for _key, data, *_words in _fetch(store, project, address, keys):
            with suppress(CacheFault):
                entries.update(contents.unpack(data or b"", CacheInfo()))
    return entries


def _select_mine(entries: Contents, there: Contents, key: PublicKey) -> tuple[Contents, list[str]]:
    """Return the entries that this key may sign, and remarks on entries of other keys that the remote lacks.

    A key signs only entries that were made here or came under the key itself.
    """
    mine, missing = Contents(), Counter[str]()
    for place, entry in entries.items():
        strangers = {*signers(entry.metadata)} - {key.id}
        if not strangers:
            mine[place] = entry
        elif place not in there:
            missing[min(strangers)] += 1
    names = seal.known_names()
    return mine, [
        f"{counted(number, 'entry', 'entries')} came under key {names.get(signer, signer)}, which fills it"
        for signer, number in missing.items()
    ]
