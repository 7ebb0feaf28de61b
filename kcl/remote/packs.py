"""Pull the packs of a driver into the own cache, and push what its runs used. Both run in a child."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, NamedTuple

from kcl import bundle
from kcl.base import settings
from kcl.base.text.layout import counted
from kcl.bundle import contents
from kcl.bundle.contents import Contents
from kcl.bundle.info import CacheInfo
from kcl.cache import layers, run_memo
from kcl.cache import notes as states
from kcl.cache.entry import Entry
from kcl.errors import DamagedEntry
from kcl.remote import driver, notes, seal, stores
from kcl.remote.notes import Outcome, Place
from kcl.remote.stores import RemoteFault

_SECONDS = 25.0  # that a client waits: less than its process lives
_TOGETHER = 64 << 20  # bytes of packs that one process loads
_DAY = 86400.0
_PAUSE, _LONGEST = 0.05, 5.0  # seconds before the second try; before a later one, at most


def pull(name: str, address: str, load: bool = True) -> Outcome:
    """Load the packs of all trusted keys, or only see them; no bytes came if there is none.

    Raises RemoteFault, and the errors of the client.
    """
    brought, faults, remarks = [], [], []
    size = 0
    store = stores.store_of(address, _SECONDS)
    keys = driver.believed(address)
    with suppress(RemoteFault):  # several keys, or none that can be read
        own = seal.signing()
        keys.sort(key=lambda key: own is None or key != own[0])  # at a tie the first one counts
    for key, pack_name, blob in _packs(store, name, keys):
        signer = key.name if key is not None else seal.UNSIGNED
        size += len(blob)
        if size > _TOGETHER:
            remarks.append(f"the pack of {signer} is left out: above {_TOGETHER} bytes together")
            continue
        try:
            moment, _order, data = seal.unseal(pack_name, blob, key)
            days = (time.time() - moment) / _DAY
            remarks.append(f"a pack of {len(blob)} bytes signed by {signer} {days:.1f} days ago")
            info = bundle.load(data) if load else CacheInfo()
        except DamagedEntry as error:
            cure = "push it with --anew, or forget that key with `kcl key forget NAME`"
            faults.append(f"the pack {pack_name[:12]} of {signer} was not loaded: {error}; {cure}")
            continue
        notes.arrived(pack_name.rpartition("/")[2], info.new, info.held)
        brought += [*info.new, *info.held]
        if info.refused:
            faults.append(f"{len(info.refused)} entries refused, first {info.refused[0][1]}")
    return Outcome(name, "; ".join(faults), len({*brought}), size, remark="; ".join(remarks))


def push(
    name: str,
    address: str,
    file: str = "",
    before_asking: Callable[[], object] = lambda: None,
    seconds: float = 30.0,
    secret: str = "",
    anew: bool = False,
) -> Outcome:
    """Join a bundle, or what the last runs of a driver used, with the pack of the own key, and put it there.

    Nothing is put if the trusted packs lack nothing of it. Where another process puts at the same time, this one joins
    with its pack and tries again, for some `seconds`. `before_asking` is called when the entries are complete. `secret`
    is the half of a key that signs. A damaged pack of the own key is an error, unless it is written `anew`. Raises as
    `pull`.
    """
    pair = seal.signing(secret)
    if pair is None and not driver.is_unsigned(address):
        raise RemoteFault("no key signs the pack: make one with `kcl key new NAME`")
    key, private = pair or (None, None)
    with ExitStack() as stack:
        places = [] if file else stack.enter_context(notes.taken(driver.digest(name)))
        found = (
            dict(contents.unpack(bundle.content(file), CacheInfo())) if file else _of_runs(places)
        )
        if not found:
            return Outcome(name, remark="no run has used an entry here since the last push")
        before_asking()
        store = stores.store_of(address, _SECONDS)
        pack = _Pack(store, driver.pack_name(name, key), key, private, anew)
        there = _others(store, name, address, key)
        mine, remarks = _mine(found, there, key)
        joined = pack.join(mine, there, seconds)
        return Outcome(
            name,
            "",
            *joined[:2],
            remark="; ".join(filter(None, [*remarks, joined[2], store.remark])),
        )


def remove(signer: str) -> int:
    """Remove the entries that came under a key, given by its id; return their number."""
    brought = [place for place, signers in notes.arrivals().items() if signer in signers]
    for kind, address in brought:
        (layers.layer(kind) if kind in settings.LAYERS else run_memo.store(kind)).delete(address)
    notes.forget(signer)
    return len(brought)


class _Pack(NamedTuple):
    """The own pack, in its store."""

    store: stores.PackStore
    name: str
    key: seal.PublicKey | None
    private: Any
    anew: bool

    def join(self, mine: Contents, there: Contents, seconds: float) -> tuple[int, int, str]:
        """Put what is better in `mine` than in this pack and those that are `there`; return entries, bytes and words.

        Raises RemoteFault where other processes put all the time.
        """
        end, pause = time.monotonic() + seconds, _PAUSE
        while True:
            held, order, mark = self._read()
            new = {
                place: better
                for place, entry in mine.items()
                if (better := contents.improved(held.get(place) or there.get(place), entry))
            }
            if not new:
                return (
                    0,
                    0,
                    f"all of {counted(len(mine), 'entry', 'entries')} are there" if mine else "",
                )
            used = [*dict.fromkeys(_kernel(entry) for entry in mine.values())]
            blob, kept = _fitting(
                held | new, order, used, partial(seal.seal, self.name, self.private)
            )
            lost = len(new) - len(new.keys() & kept)
            words = (
                f"{lost} of them do not fit: a pack has {stores.LIMIT >> 20} MiB" if lost else ""
            )
            if lost == len(new):
                return 0, 0, words
            if self.store.put(self.name, blob, mark) and self._stands(blob):
                return len(new) - lost, len(blob), words
            if time.monotonic() > end:
                raise RemoteFault(
                    f"others pushed at each try for {seconds:.0f} s; the next push has it all"
                )
            time.sleep(random.uniform(0, pause))
            pause = min(2 * pause, _LONGEST)

    def _read(self) -> tuple[Contents, list[str], Any]:
        """Return the content of the pack as it is now, the order of its kernels, and the mark of both."""
        for is_last in (False, True):
            blob, mark = self.store.look(self.name)
            try:
                if blob is None:
                    return {}, [], mark
                _moment, order, data = seal.unseal(self.name, blob, self.key)
                return dict(contents.unpack(data, CacheInfo())), order, mark
            except DamagedEntry as error:
                if self.anew:
                    return {}, [], mark
                if is_last:
                    raise RemoteFault(
                        f"the own pack is damaged: {error}; `kcl push --anew` starts it over"
                    ) from error
        raise AssertionError

    def _stands(self, blob: bytes) -> bool:
        """Read a pack back, once a day, since there are servers that put what they should refuse."""
        name = f"put {type(self.store).__name__} {self.name}"
        age = states.age(name)
        if age is not None and age < _DAY:
            return True
        states.write(name, "")
        return self.store.get(self.name) == blob


def _packs(
    store: stores.PackStore, name: str, keys: list[seal.PublicKey | None]
) -> Iterator[tuple[seal.PublicKey | None, str, bytes]]:
    """Yield those packs of a driver that are there, with key and name, asked for at once."""
    names = [driver.pack_name(name, key) for key in keys]
    with ThreadPoolExecutor(max(1, len(names))) as threads:
        for key, pack_name, blob in zip(keys, names, threads.map(store.get, names), strict=True):
            if blob is not None:
                yield key, pack_name, blob


def _others(
    store: stores.PackStore, name: str, address: str, own: seal.PublicKey | None
) -> Contents:
    """Return what the readable packs of the other trusted keys hold."""
    found: Contents = {}
    with suppress(RemoteFault):  # nobody is trusted
        keys = [key for key in driver.believed(address) if key != own]
        for key, pack_name, blob in _packs(store, name, keys):
            with suppress(DamagedEntry):
                data = seal.unseal(pack_name, blob, key)[2]
                found |= dict(contents.unpack(data, CacheInfo()))
    return found


def _mine(
    found: Contents, there: Contents, key: seal.PublicKey | None
) -> tuple[Contents, list[str]]:
    """Return the entries that this key may sign, and words on those that came under others and are not there."""
    own, brought = key.id if key is not None else seal.UNSIGNED, notes.arrivals()
    mine, missing = {}, dict[str, int]()
    for place, entry in found.items():
        signers = brought.get(place, {own})
        if own in signers:
            mine[place] = entry
        elif place not in there:
            missing[min(signers)] = missing.get(min(signers), 0) + 1
    names = {one.id: one.name for one in seal.trusted()}
    return mine, [
        f"{counted(number, 'entry', 'entries')} came under key {names.get(one, one)}, which fills it"
        for one, number in missing.items()
    ]


def _of_runs(places: list[Place]) -> Contents:
    """Return the entries that runs used, completed, in the order of their last use."""
    for layer, address in places:
        if layer in settings.LAYERS:
            layers.layer(layer).used[address] = None
    found = contents.used(CacheInfo())
    ranks = {place: rank for rank, place in enumerate(places)}
    return dict(sorted(found.items(), key=lambda item: ranks.get(item[0], len(ranks))))


def _fitting(
    found: Contents, order: list[str], used: list[str], sealed: Callable[[list[str], bytes], bytes]
) -> tuple[bytes, set[Place]]:
    """Return a pack within the limit, and its places: where there is more, kernels go, the least recently used first."""
    there = {_kernel(entry) for entry in found.values()}
    known = [*order, *used]
    kernels = [*sorted(there - {*known}), *(one for one in order if one in there - {*used}), *used]
    while True:
        kept = {*kernels}
        chosen = {place: entry for place, entry in found.items() if _kernel(entry) in kept}
        blob = sealed(kernels, contents.pack(chosen, CacheInfo()))
        if len(blob) <= stores.LIMIT or not kernels:
            return blob, {*chosen}
        del kernels[: max(1, round(len(kernels) * (1 - stores.LIMIT / len(blob))))]


def _kernel(entry: Entry) -> str:
    return str(entry.metadata.get("kernel") or "")
