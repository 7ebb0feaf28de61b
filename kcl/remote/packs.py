"""Pull the packs of a driver into the own cache, and push what its runs used. Both run in a child."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

from kcl import bundle
from kcl.base import settings
from kcl.base.text.layout import counted
from kcl.bundle import contents
from kcl.bundle.contents import Contents
from kcl.bundle.format import read
from kcl.bundle.info import CacheInfo
from kcl.cache import layers, run_memo
from kcl.cache import notes as states
from kcl.cache.entry import Entry
from kcl.errors import CacheFault, DamagedEntry
from kcl.remote import driver, notes, seal, stores, used
from kcl.remote.notes import Outcome
from kcl.remote.stores import RemoteFault
from kcl.remote.used import Place

# A client waits less than its process lives.
_SECONDS = 25.0
_TOGETHER = 64 << 20  # bytes of packs that one process loads
_DAY = 86400.0
_KEYS = 8  # whose packs are asked for
# Seconds before the second try, and before a later one at most.
_PAUSE, _LONGEST = 0.05, 5.0


def pull(name: str, address: str, load: bool = True) -> Outcome:
    """Load the packs of all trusted keys, or only see them; no bytes came if there is none.

    A pack that cannot be read hides no other one. Raises RemoteFault where there can be no pack.
    """
    brought: set[Place] = set()
    faults, remarks = list[str](), list[str]()
    size = 0
    store = stores.store_of(address, _SECONDS)
    keys = driver.believed(address)
    # There may be several keys, or none that can be read.
    with suppress(RemoteFault):
        own = seal.signing()
        # The own pack comes first: at a tie the first one counts.
        keys.sort(key=lambda key: own is None or _id(key) != own[0].id)
    remarks += [f"only {_KEYS} of {len(keys)} keys are asked for"] if len(keys) > _KEYS else []
    for key, pack_name, blob in _packs(store, name, keys):
        signer = key.name if key is not None else seal.UNSIGNED
        if isinstance(blob, Exception):
            faults.append(stores.fault(address, blob))
            continue
        if size + len(blob) > _TOGETHER:
            remarks.append(f"the pack of {signer} is left out: above {_TOGETHER} bytes together")
            continue
        size += len(blob)
        try:
            moment, _order, data = seal.unseal(pack_name, blob, key)
            days = (time.time() - moment) / _DAY
            remarks.append(f"a pack of {len(blob)} bytes signed by {signer} {days:.1f} days ago")
            info = _loaded(_id(key), data) if load else CacheInfo()
        except CacheFault as error:
            cure = "push it with --anew, or forget that key with `kcl key forget NAME`"
            faults.append(f"the pack {pack_name[:12]} of {signer} was not loaded: {error}; {cure}")
            continue
        brought |= {*info.new, *info.held}
        if info.refused:
            faults.append(f"{len(info.refused)} entries refused, first {info.refused[0][1]}")
    fault = "; ".join(dict.fromkeys(faults))
    return Outcome(name, fault, len(brought), size, remark="; ".join(remarks))


def _loaded(signer: str, data: bytes) -> CacheInfo:
    """Load a bundle that came under a key.

    The key is noted for each entry before it is stored, and stays for those that came under some key.
    """
    listed = [(record.kind, record.address) for record in read(data)]
    before = notes.arriving(signer, listed)
    info = bundle.load(data)
    came = {*info.new, *(place for place in info.held if place in before)}
    # Once more: another process may have made one of them meanwhile, and forgotten this key.
    notes.settle(
        signer, came, {*listed} - came - {place for place in before if signer in before[place]}
    )
    return info


def push(
    name: str,
    address: str,
    file: str = "",
    before_asking: Callable[[], object] = lambda: None,
    seconds: float = 60.0,
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
        places = [] if file else stack.enter_context(used.taken(name))
        entries = (
            dict(contents.unpack(bundle.content(file), CacheInfo())) if file else _of_runs(places)
        )
        if not entries:
            return Outcome(name, remark="no run has used an entry here since the last push")
        before_asking()
        store = stores.store_of(address, _SECONDS)
        place = stores.shown(address)
        pack = _Pack(store, place, driver.pack_name(name, key), name, key, private, anew)
        there = _others(store, name, address, key)
        mine, remarks = _mine(entries, there, key)
        joined = pack.join(mine, there, seconds)
        return Outcome(
            name,
            "",
            *joined[:2],
            remark="; ".join(filter(None, [*remarks, joined[2], store.remark])),
        )


class ListedPack(NamedTuple):
    """A pack of the remote, as it says of itself."""

    name: str
    project: str
    key: str
    size: int
    moment: float


def listed() -> list[ListedPack]:
    """Return the packs of the remote by project and key; raises RemoteFault."""
    keys = {key.id: key.name for key in (*seal.trusted(), *seal.forgotten())}
    packs = []
    with _asked() as store:
        for name, size, start in store.listed():
            # The name comes from the server, and is printed.
            signer = "".join(filter(str.isprintable, name.partition("/")[2]))
            moment, project = seal.said(start)
            packs.append(ListedPack(name, project, keys.get(signer, signer), size, moment))
    return sorted(packs, key=lambda pack: pack[1:3])


def drop(names: Iterable[str]) -> None:
    """Remove packs from the remote; raises RemoteFault."""
    with _asked() as store:
        for name in names:
            store.delete(name)


@contextmanager
def _asked() -> Iterator[stores.PackStore]:
    """Give the store of the remote; its errors are RemoteFaults with words."""
    address = stores.chosen()
    try:
        yield stores.store_of(address, _SECONDS)
    except Exception as error:
        # Without the error itself, which may show what is secret in the address.
        raise RemoteFault(f"{stores.shown(address)}: {stores.fault(address, error)}") from None


def remove(signer: str) -> int:
    """Remove the entries that came under a key, given by its id; return their number. Raises OSError."""
    gone = []
    for kind, address in (
        place for place, signers in notes.arrivals().items() if signer in signers
    ):
        target = layers.layer(kind) if kind in settings.LAYERS else run_memo.store(kind)
        target.delete(address)
        # Only what is gone indeed is forgotten.
        if contents.held(target, address) is None:
            gone.append((kind, address))
    notes.settle(signer, gone=gone)
    return len(gone)


class _Pack(NamedTuple):
    """The own pack, in its store at a place."""

    store: stores.PackStore
    place: str
    name: str
    project: str
    key: seal.PublicKey | None
    private: Any
    anew: bool

    def join(self, mine: Contents, there: Contents, seconds: float) -> tuple[int, int, str]:
        """Put what is better in `mine` than in this pack and those that are `there`; return entries, bytes and words.

        Raises RemoteFault where other processes put all the time.
        """
        end, pause = time.monotonic() + seconds, _PAUSE
        while True:
            before, order, mark = self._read()
            new = {
                place: better
                for place, entry in mine.items()
                if contents.improved(there.get(place), entry)
                and (better := contents.improved(before.get(place), entry))
            }
            if not new:
                all_there = f"all of {counted(len(mine), 'entry', 'entries')} are there"
                return 0, 0, all_there if mine else ""
            recent = [*dict.fromkeys(_kernel(entry) for entry in mine.values())]
            blob, kept = _fitting(
                before | new,
                order,
                recent,
                partial(seal.seal, self.name, self.private, project=self.project),
            )
            lost = len(new) - len(new.keys() & kept)
            words = (
                f"{lost} of them do not fit: a pack has {stores.LIMIT >> 20} MiB" if lost else ""
            )
            if lost == len(new):
                return 0, 0, words
            if self._is_due() and self.store.is_blind(self.name, blob):
                return len(new) - lost, len(blob), words
            if self.store.put(self.name, blob, mark):
                return len(new) - lost, len(blob), words
            if time.monotonic() > end:
                raise RemoteFault(
                    f"others pushed at each try for {seconds:.0f} s; the next push has it all"
                )
            # A random pause parts the processes that collide.
            time.sleep(random.uniform(0, pause))
            pause = min(2 * pause, _LONGEST)

    def _read(self) -> tuple[Contents, list[str], Any]:
        """Return the content of the pack as it is now, the order of its kernels, and the mark of both."""
        # A pack is read twice before it counts as damaged.
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

    def _is_due(self) -> bool:
        """Return True once a day and address: there are servers that put what they should refuse."""
        name = f"put {self.place}"
        age = states.age(name)
        if age is not None and age < _DAY:
            return False
        states.write(name, "")
        return True


def _packs(
    store: stores.PackStore, name: str, keys: list[seal.PublicKey | None]
) -> Iterator[tuple[seal.PublicKey | None, str, bytes | Exception]]:
    """Yield those packs of a project that are there, with key and name, or the error of a client; asked for at once."""

    def got(pack_name: str) -> bytes | Exception | None:
        try:
            return store.get(pack_name)
        # An error of one pack hides no other one.
        except Exception as error:
            return error

    names = [driver.pack_name(name, key) for key in keys[:_KEYS]]
    with ThreadPoolExecutor(max(1, len(names))) as threads:
        for key, pack_name, blob in zip(keys[:_KEYS], names, threads.map(got, names), strict=True):
            if blob is not None:
                yield key, pack_name, blob


def _others(
    store: stores.PackStore, name: str, address: str, own: seal.PublicKey | None
) -> Contents:
    """Return what the readable packs of the other trusted keys hold."""
    entries: Contents = {}
    size = 0
    # Without a trusted key there is nothing to read.
    with suppress(RemoteFault):
        keys = [key for key in driver.believed(address) if _id(key) != _id(own)]
        for key, pack_name, blob in _packs(store, name, keys):
            if isinstance(blob, Exception) or size + len(blob) > _TOGETHER:
                continue
            size += len(blob)
            with suppress(CacheFault):
                data = seal.unseal(pack_name, blob, key)[2]
                entries |= dict(contents.unpack(data, CacheInfo()))
    return entries


def _mine(
    entries: Contents, there: Contents, key: seal.PublicKey | None
) -> tuple[Contents, list[str]]:
    """Return the entries that this key may sign, and words on those that came under others and are not there."""
    own, brought = _id(key), notes.arrivals()
    mine, missing = {}, dict[str, int]()
    for place, entry in entries.items():
        strangers = brought.get(place, set()) - {own}
        if not strangers:
            mine[place] = entry
        elif place not in there:
            missing[min(strangers)] = missing.get(min(strangers), 0) + 1
    names = {trusted.id: trusted.name for trusted in seal.trusted()}
    return mine, [
        f"{counted(number, 'entry', 'entries')} came under key {names.get(signer, signer)}, which fills it"
        for signer, number in missing.items()
    ]


def _of_runs(places: list[Place]) -> Contents:
    """Return the entries that runs used, completed, in the order of their last use."""
    for layer, address in places:
        if layer in settings.LAYERS:
            layers.layer(layer).used[address] = None
        elif layer in contents.MEMOS:
            run_memo.use(layer, address)
    entries = contents.used(CacheInfo())
    ranks = {place: rank for rank, place in enumerate(places)}
    return dict(sorted(entries.items(), key=lambda item: ranks.get(item[0], len(ranks))))


def _fitting(
    everything: Contents,
    order: list[str],
    recent: list[str],
    sealed: Callable[[list[str], bytes], bytes],
) -> tuple[bytes, set[Place]]:
    """Return a pack within the limit, and its places: where there is more, kernels go, the least recently used first."""
    there = {_kernel(entry) for entry in everything.values()}
    ordered = [*order, *recent]
    kernels = [
        *sorted(there - {*ordered}),
        *(kernel for kernel in order if kernel in there - {*recent}),
        *recent,
    ]
    of_kernel = dict[str, Contents]()
    for place, entry in everything.items():
        of_kernel.setdefault(_kernel(entry), {})[place] = entry
    # What fits into no pack takes nothing out of this one.
    for kernel, entries in of_kernel.items():
        if (
            sum(len(entry.pack()) for entry in entries.values()) > stores.LIMIT
            and len(sealed([kernel], contents.pack(entries, CacheInfo()))) > stores.LIMIT
        ):
            kernels.remove(kernel)
    while True:
        kept = {*kernels}
        chosen = {place: entry for place, entry in everything.items() if _kernel(entry) in kept}
        blob = sealed(kernels, contents.pack(chosen, CacheInfo()))
        if len(blob) <= stores.LIMIT or not kernels:
            return blob, {*chosen}
        # As many kernels go as the pack is too large, and one at least.
        del kernels[: max(1, round(len(kernels) * (1 - stores.LIMIT / len(blob))))]


def _id(key: seal.PublicKey | None) -> str:
    return key.id if key is not None else seal.UNSIGNED


def _kernel(entry: Entry) -> str:
    return str(entry.metadata.get("kernel") or "")
