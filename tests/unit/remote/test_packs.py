"""Pull and push: what comes, what goes, what stays out."""

from __future__ import annotations

import os
import random

import pytest
import remotes

from kcl.bundle import contents
from kcl.bundle.info import CacheInfo
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.errors import DamagedEntry
from kcl.remote import driver, notes, packs, seal, stores
from kcl.remote.stores import RemoteFault, store_of

NAME = "app/run.py"


class Site:
    """A machine with its cache and settings, and the remote; `use` makes this process run there."""

    def __init__(self, folder, address, monkeypatch) -> None:
        self.folder, self.address, self._monkeypatch = folder, address, monkeypatch
        self.settings = {}

    def use(self, **settings):
        """Run here, with settings added."""
        self.settings |= settings
        self._monkeypatch.setenv("XDG_CONFIG_HOME", str(self.folder / "config"))
        self._monkeypatch.setenv("XDG_CACHE_HOME", str(self.folder / "cache"))
        remotes.configure(self.folder / "config", **self.settings)
        return self

    def makes(self, *kernels, size=100):
        """Make an entry of each kernel, as a run that is noted."""
        self.use()  # as another process
        for kernel in kernels:
            entry = row(kernel, size)
            layers.generator().publish(entry.key.digest, entry)
        used = {"generator": [row(kernel, size).key.digest for kernel in kernels]}
        notes.leave(driver.digest(NAME), NAME, used)

    def has(self):
        """Return the kernels in the cache."""
        store = layers.generator().stores[0]
        return {contents.entry_at(at, store.get(at)).metadata["kernel"] for at in store.scan()}


def row(kernel, size=100):
    """Return a row of the generator layer that does not compress."""
    text = random.Random(kernel).randbytes(size)
    return Entry(
        Key([Part("kernel", kernel)]), {"front_end": "loopy", "kernel": kernel}, {"source.cl": text}
    )


@pytest.fixture
def sites(tmp_path, monkeypatch):
    """Return a function that makes a machine."""
    address = remotes.directory(tmp_path / "remote")

    def site(name):
        return Site(tmp_path / name, address, monkeypatch)

    return site


@pytest.fixture
def here(sites):
    """A machine that writes, and reads what it wrote."""
    remotes.demand("cryptography")
    site = sites("here").use()
    return site.use(trusted_keys=[seal.new("team").line])


def content(site):
    """Return the kernels in the pack."""
    name = driver.pack_name(NAME, seal.signing()[0])
    order, data = seal.unseal(name, store_of(site.address, 1.0).get(name), seal.signing()[0])
    return {
        entry.metadata["kernel"] for entry in dict(contents.unpack(data, CacheInfo())).values()
    }, order


class TestTravel:
    def test_there_and_back(self, here, sites):
        """What one machine pushed another one loads, with a line on each entry; an earlier pack is joined."""
        here.makes("one")
        assert packs.push(NAME, here.address).bytes
        here.makes("two")
        assert packs.push(NAME, here.address).entries == 1
        there = sites("there").use(trusted_keys=here.settings["trusted_keys"])
        found = packs.pull(NAME, there.address)
        assert (found.fault, found.entries) == ("", 2)
        assert there.has() == {"one", "two"}
        signer = seal.key_of(here.settings["trusted_keys"][0]).id
        assert notes.arrivals() == {
            ("generator", row(kernel).key.digest): signer for kernel in ("one", "two")
        }
        blob = layers.generator().stores[0].get(row("one").key.digest)
        assert blob == row("one").pack()

    def test_nothing_new(self, here):
        """A run that made nothing that the pack lacks puts nothing, and is not pushed again."""
        here.makes("one")
        packs.push(NAME, here.address)
        assert packs.push(NAME, here.address) == (NAME, "", 0, 0, 0.0, "")
        here.makes("one")
        before = os.stat(
            here.folder.parent / "remote" / driver.pack_name(NAME, seal.signing()[0])
        ).st_mtime_ns
        assert packs.push(NAME, here.address) == (NAME, "", 0, 0, 0.0, "")
        assert (
            os.stat(
                here.folder.parent / "remote" / driver.pack_name(NAME, seal.signing()[0])
            ).st_mtime_ns
            == before
        )
        assert notes.used(driver.digest(NAME)) == {}

    def test_a_bundle(self, here, tmp_path):
        """A bundle is pushed as it is, whatever the cache holds."""
        (tmp_path / "x.kclb").write_bytes(
            contents.pack({("generator", row("one").key.digest): row("one")}, CacheInfo())
        )
        here.makes("two")
        assert packs.push(NAME, here.address, str(tmp_path / "x.kclb")).entries == 1
        assert content(here)[0] == {"one"}
        assert len(notes.used(driver.digest(NAME))) == 1

    def test_other_driver(self, here):
        """The pack of one driver is not that of another."""
        here.makes("one")
        packs.push(NAME, here.address)
        assert packs.pull("other", here.address).bytes == 0

    def test_first_trusted_key(self, here, sites):
        """Of two signers the first trusted one that has a pack is read."""
        here.makes("one")
        packs.push(NAME, here.address)
        second = sites("second").use()
        line = seal.new("second").line
        second.makes("two")
        packs.push(NAME, second.address)
        for keys, kernels in (
            ([line, *here.settings["trusted_keys"]], {"two"}),
            (here.settings["trusted_keys"], {"one"}),
        ):
            there = sites(f"there-{len(keys)}").use(trusted_keys=keys)
            assert packs.pull(NAME, there.address).entries == 1
            assert there.has() == kernels

    def test_unsigned(self, sites):
        """A remote that the settings list by its address needs no key, on either side."""
        here = sites("here").use()
        here.use(remote_unsigned=[here.address])
        here.makes("one")
        assert packs.push(NAME, here.address).entries == 1
        there = sites("there").use(remote_unsigned=[here.address])
        assert packs.pull(NAME, here.address).entries == 1
        assert [*notes.arrivals().values()] == ["unsigned"]
        sites("third").use(remote_unsigned=[there.address + "/x"])
        with pytest.raises(RemoteFault, match="no key is trusted"):
            packs.pull(NAME, here.address)


class TestPush:
    def test_entries_of_others(self, here, sites):
        """What came from another signer is used here, and not pushed under the own name."""
        here.makes("one")
        packs.push(NAME, here.address)
        there = sites("there").use()
        there.use(trusted_keys=[*here.settings["trusted_keys"], seal.new("mine").line])
        packs.pull(NAME, there.address)
        there.makes("one", "two")
        packs.push(NAME, there.address)
        assert content(there)[0] == {"two"}

    def test_lost(self, here):
        """The last writer wins; a later push carries all that its run used, so what was lost comes back."""
        here.makes("one")
        packs.push(NAME, here.address)
        store, name = store_of(here.address, 1.0), driver.pack_name(NAME, seal.signing()[0])
        before = store.get(name)
        here.makes("two")
        packs.push(NAME, here.address)
        store.put(name, before)  # by a process that had read it before
        here.makes("one", "two")
        assert packs.push(NAME, here.address).entries == 1
        assert content(here)[0] == {"one", "two"}

    def test_damaged_pack(self, here):
        """A damaged pack is written anew."""
        here.makes("one")
        packs.push(NAME, here.address)
        name = driver.pack_name(NAME, seal.signing()[0])
        store_of(here.address, 1.0).put(name, b"no pack")
        here.makes("two")
        assert packs.push(NAME, here.address).entries == 1
        assert content(here)[0] == {"two"}

    def test_bound(self, here, monkeypatch):
        """Where there is too much, whole kernels go, those pushed longest ago first; this run's stay."""
        monkeypatch.setattr(stores, "LIMIT", 100_000)
        for kernel in ("a", "b", "c"):
            here.makes(kernel, size=30_000)
            packs.push(NAME, here.address)
        here.makes("a", "d", size=30_000)  # `a` is pushed lately
        packs.push(NAME, here.address)
        kernels, order = content(here)
        assert kernels == {"a", "c", "d"}
        assert order == ["c", "a", "d"]
        here.makes("huge", size=200_000)
        with pytest.raises(RemoteFault, match="above the limit"):
            packs.push(NAME, here.address)
        assert content(here)[0] == {"a", "c", "d"}


class TestLies:
    """A remote that lies."""

    @pytest.fixture
    def pack(self, here):
        """A good pack, with the functions to read and replace it."""
        here.makes("one", "two")
        packs.push(NAME, here.address)
        store, name = store_of(here.address, 1.0), driver.pack_name(NAME, seal.signing()[0])
        return store, name, store.get(name)

    def refused(self, here, sites):
        """Pull on a fresh machine: nothing may come."""
        there = sites(f"there-{random.random()}").use(trusted_keys=here.settings["trusted_keys"])
        with pytest.raises(DamagedEntry, match=r"(team|pack of kcl).*kcl key forget"):
            packs.pull(NAME, here.address)
        assert there.has() == set()
        assert notes.arrivals() == {}

    def test_replayed(self, here, sites, pack):
        """A pack of another driver, signed by the trusted key."""
        store, name, _blob = pack
        here.makes("three")
        packs.push("other", here.address)
        store.put(name, store.get(driver.pack_name("other", seal.signing()[0])))
        self.refused(here, sites)

    def test_unsigned_in_place(self, here, sites, pack):
        """A pack without a signature under the name of a key."""
        store, name, blob = pack
        store.put(name, seal.seal(name, None, *seal.unseal(name, blob, None)))
        self.refused(here, sites)

    def test_older(self, here, sites, pack):
        """An older pack of the key is believed: it costs time only."""
        store, name, blob = pack
        here.makes("three")
        packs.push(NAME, here.address)
        store.put(name, blob)
        there = sites("there").use(trusted_keys=here.settings["trusted_keys"])
        assert packs.pull(NAME, here.address).entries == 2
        assert there.has() == {"one", "two"}
