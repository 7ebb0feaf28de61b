"""Pull and push: what comes, what goes, what stays out."""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import sys

import pytest
import remotes

from kcl.bundle import contents
from kcl.bundle.info import CacheInfo
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.remote import driver, packs, seal, stores, used
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
        made(*kernels, size=size)

    def has(self):
        """Return the kernels in the cache."""
        store = layers.generator().stores[0]
        return {contents.entry_at(at, store.get(at)).metadata["kernel"] for at in store.scan()}


def made(*kernels, size=100):
    """Find or make an entry of each kernel, as a run that is noted."""
    for kernel in kernels:
        if layers.generator().read(row(kernel, size).key.digest) is None:
            layers.generator().publish(row(kernel, size).key.digest, row(kernel, size))
    used.leave(NAME, [("generator", row(kernel, size).key.digest) for kernel in kernels])


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


def packed(site):
    """Return the kernels in the own pack, in their order there."""
    key = seal.signing()[0]
    name = driver.pack_name(NAME, key)
    _second, data = seal.unseal(name, store_of(site.address, 1.0).get(name), key)
    return [entry.metadata["kernel"] for _place, entry in contents.unpack(data, CacheInfo())]


def brought():
    """Return the keys under which kernels came."""
    return {
        layers.layer(layer).read(address).metadata["kernel"]: signers
        for (layer, address), signers in contents.find_signed().items()
    }


def waiting():
    """Return what waits for a push, and leave it there."""
    with contextlib.suppress(ZeroDivisionError), used.take(NAME) as found:
        raise ZeroDivisionError
    return found


class TestTravel:
    def test_there_and_back(self, here, sites):
        """What one machine pushed another one loads, with the key on each entry; an earlier pack is joined."""
        here.makes("one")
        assert packs.push(NAME, here.address).bytes
        here.makes("two")
        assert packs.push(NAME, here.address).entries == 1
        there = sites("there").use(trusted_keys=here.settings["trusted_keys"])
        outcome = packs.pull(NAME, there.address)
        assert (outcome.fault, outcome.entries) == ("", 2)
        assert there.has() == {"one", "two"}
        signer = seal.key_of(here.settings["trusted_keys"][0]).id
        assert brought() == {"one": [signer], "two": [signer]}
        came = layers.generator().read(row("one").key.digest)
        assert came == row("one").described(signers=[signer])
        assert packs.pull("other", here.address).bytes == 0

    def test_nothing_new(self, here):
        """A run that made nothing that the pack lacks puts nothing, and is not pushed again."""
        here.makes("one")
        packs.push(NAME, here.address)
        here.use()  # as another process
        assert packs.push(NAME, here.address).remark.startswith("no run has used")
        here.makes("one")
        before = os.stat(
            here.folder.parent / "remote" / driver.pack_name(NAME, seal.signing()[0])
        ).st_mtime_ns
        outcome = packs.push(NAME, here.address)
        assert outcome == ("", 0, 0, 0.0, "all of 1 entry are there", 0)
        assert (
            os.stat(
                here.folder.parent / "remote" / driver.pack_name(NAME, seal.signing()[0])
            ).st_mtime_ns
            == before
        )
        assert waiting() == []

    def test_a_bundle(self, here, tmp_path):
        """A bundle is pushed as it is, whatever the cache holds."""
        (tmp_path / "x.kclb").write_bytes(
            contents.pack({("generator", row("one").key.digest): row("one")}, CacheInfo())
        )
        here.makes("two")
        assert packs.push(NAME, here.address, str(tmp_path / "x.kclb")).entries == 1
        assert {*packed(here)} == {"one"}
        assert len(waiting()) == 1

    def test_all_trusted_keys(self, here, sites):
        """The packs of all trusted keys are read; what two of them brought is noted under both."""
        here.makes("one", "both")
        packs.push(NAME, here.address)
        second = sites("second").use()
        line = seal.new("second").line
        second.makes("two", "both")
        packs.push(NAME, second.address)
        keys = [line, *here.settings["trusted_keys"]]
        there = sites("there").use(trusted_keys=keys)
        found = packs.pull(NAME, there.address)
        assert (found.entries, found.fault) == (3, "")
        assert re.fullmatch(
            r"a pack .* by second 0\.0 days ago; a pack .* by team 0\.0 days ago", found.remark
        )
        assert there.has() == {"one", "two", "both"}
        assert {*brought()["both"]} == {seal.key_of(one).id for one in keys}
        assert contents.remove(seal.key_of(line).id) == 2
        assert there.has() == {"one"}

    @pytest.mark.parametrize(
        ("error", "words"),
        [(None, "of bad was not loaded"), (TimeoutError("too slow"), "too slow")],
        ids=["damaged", "not fetched"],
    )
    def test_bad_pack_beside(self, here, sites, monkeypatch, error, words):
        """A pack that is damaged or cannot be fetched hides no other one, and is said."""
        here.makes("one")
        packs.push(NAME, here.address)
        bad = seal.PublicKey("bad", bytes(32))
        get = stores.FileStore.get

        def get_bad(self, name):
            if name != driver.pack_name(NAME, bad):
                return get(self, name)
            if error is not None:
                raise error
            return b"no pack"

        monkeypatch.setattr(stores.FileStore, "get", get_bad)
        there = sites("there").use(trusted_keys=[bad.line, *here.settings["trusted_keys"]])
        outcome = packs.pull(NAME, there.address)
        assert there.has() == {"one"}
        assert (outcome.entries, words in outcome.fault) == (1, True)

    def test_made_again(self, here, sites):
        """What came, was removed and was made again here is pushed under the own key; what is hit is not."""
        here.makes("one", "two")
        packs.push(NAME, here.address)
        there = sites("there").use()
        there.use(trusted_keys=[*here.settings["trusted_keys"], seal.new("mine").line])
        packs.pull(NAME, there.address)
        layers.generator().publish(row("one").key.digest, row("one"))
        there.use(trusted_keys=[])
        there.makes("one", "two")
        assert packs.push(NAME, there.address).entries == 1
        assert {*packed(there)} == {"one"}

    def test_made_here(self, here, sites):
        """What was made here before a pack brought the same is of no key."""
        here.makes("one")
        packs.push(NAME, here.address)
        there = sites("there").use(trusted_keys=here.settings["trusted_keys"])
        there.makes("one")
        packs.pull(NAME, there.address)
        assert brought() == {}

    def test_too_much_together(self, here, sites, monkeypatch):
        """Above a bound on all packs the later ones are left out, and that is said."""
        monkeypatch.setattr(packs, "_TOGETHER", 1500)
        here.makes("one", size=1000)
        packs.push(NAME, here.address)
        second = sites("second").use()
        line = seal.new("second").line
        second.makes("two", size=1000)
        packs.push(NAME, second.address)
        there = sites("there").use(trusted_keys=[line, *here.settings["trusted_keys"]])
        assert "the pack of team is left out" in packs.pull(NAME, there.address).remark
        assert there.has() == {"two"}

    def test_unsigned(self, sites):
        """A remote that the settings list by its address needs no key, on either side."""
        here = sites("here").use()
        here.use(remote_unsigned=[here.address])
        here.makes("one")
        assert packs.push(NAME, here.address).entries == 1
        there = sites("there").use(remote_unsigned=[here.address])
        assert packs.pull(NAME, here.address).entries == 1
        assert brought() == {"one": ["unsigned"]}
        sites("third").use(remote_unsigned=[there.address + "/x"])
        with pytest.raises(RemoteFault, match="no key is trusted"):
            packs.pull(NAME, here.address)


class TestPush:
    def test_a_lost_server(self, here, sites, tmp_path):
        """A new server is filled by the next machine that has the key; another one says which key does it."""
        here.makes("one", "two")
        packs.push(NAME, here.address)
        there = sites("there").use()
        there.use(trusted_keys=[*here.settings["trusted_keys"], seal.new("mine").line])
        packs.pull(NAME, there.address)
        address = remotes.directory(tmp_path / "new")
        there.makes("one", "two")
        found = packs.push(NAME, address)
        assert (found.bytes, found.remark) == (0, "2 entries came under key team, which fills it")
        here.makes("one", "two")
        assert packs.push(NAME, address).entries == 2
        there.makes("one", "two")
        assert packs.push(NAME, address).remark == ""

    def test_held_by_another_key(self, here, sites):
        """What the pack of another trusted key holds is not pushed again under the own one."""
        here.makes("one")
        packs.push(NAME, here.address)
        there = sites("there").use()
        there.use(trusted_keys=[*here.settings["trusted_keys"], seal.new("mine").line])
        there.makes("one", "two")
        assert packs.push(NAME, there.address).entries == 1
        assert {*packed(there)} == {"two"}

    def test_foreign_content(self, here, sites):
        """What came under another key too, or in part, is not signed: its bytes may be those of the other one."""
        here.makes("one")
        packs.push(NAME, here.address)
        second = sites("second").use()
        line = seal.new("second").line
        second.makes("one")
        second.use(trusted_keys=[])
        packs.push(NAME, second.address)
        there = sites("there").use()
        there.use(trusted_keys=[*here.settings["trusted_keys"], line, seal.new("mine").line])
        packs.pull(NAME, there.address)
        there.use(trusted_keys=[])
        there.makes("one")
        found = packs.push(NAME, there.address)
        assert (found.entries, "came under key" in found.remark) == (0, True)

    def test_at_once(self, here):
        """What another process puts between reading and putting is kept."""
        here.makes("one")
        name, put = driver.pack_name(NAME, seal.signing()[0]), stores.FileStore.put

        def late(self, *given):
            stores.FileStore.put = put
            entry = row("other")
            blob = seal.seal(
                name,
                seal.signing()[1],
                contents.pack({("generator", entry.key.digest): entry}, CacheInfo()),
            )
            assert put(self, name, blob)
            return put(self, *given)

        stores.FileStore.put = late
        try:
            assert packs.push(NAME, here.address).entries == 1
        finally:
            stores.FileStore.put = put
        assert {*packed(here)} == {"one", "other"}

    def test_beside_others_for_ever(self, here, monkeypatch):
        """A push that never gets its turn is an error, and its entries wait for the next one."""
        here.makes("one")
        monkeypatch.setattr(stores.FileStore, "put", lambda *_given: False)
        with pytest.raises(RemoteFault, match="others pushed at each try"):
            packs.push(NAME, here.address, seconds=0.0)
        monkeypatch.undo()
        here.use()
        assert len(waiting()) == 1

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
        assert {*packed(here)} == {"one", "two"}

    def test_damaged_pack(self, here):
        """A damaged pack of the own key is an error with its cure; `anew` starts it over."""
        here.makes("one")
        packs.push(NAME, here.address)
        name = driver.pack_name(NAME, seal.signing()[0])
        store_of(here.address, 1.0).put(name, b"no pack")
        here.makes("two")
        with pytest.raises(RemoteFault, match="kcl push --anew"):
            packs.push(NAME, here.address)
        assert packs.push(NAME, here.address, anew=True).entries == 1
        assert {*packed(here)} == {"two"}

    def test_damaged_once(self, here, monkeypatch):
        """One damaged read loses nothing: the pack is read again."""
        here.makes("one")
        packs.push(NAME, here.address)
        look, reads = stores.FileStore.look, []

        def damaged(self, name):
            reads.append(name)
            blob, mark = look(self, name)
            return (blob[:-1] if len(reads) == 1 else blob), mark

        monkeypatch.setattr(stores.FileStore, "look", damaged)
        here.makes("two")
        assert packs.push(NAME, here.address).entries == 1
        assert len(reads) == 3  # the last time as it is put
        assert {*packed(here)} == {"one", "two"}

    def test_bound(self, here, monkeypatch):
        """Where there is too much, entries go, the least recently used first."""
        monkeypatch.setattr(stores, "LIMIT", 100_000)
        for kernel in ("a", "b", "c"):
            here.makes(kernel, size=30_000)
            packs.push(NAME, here.address)
        here.makes("a", size=30_000)
        here.makes("d", size=30_000)
        packs.push(NAME, here.address)
        assert packed(here) == ["c", "a", "d"]

    def test_full(self, here, monkeypatch):
        """What cannot fit is said, and the pack still takes what can."""
        monkeypatch.setattr(stores, "LIMIT", 100_000)
        here.makes("a", size=30_000)
        packs.push(NAME, here.address)
        here.makes("huge", size=200_000)
        found = packs.push(NAME, here.address)
        assert (found.entries, found.fault) == (0, "")
        assert "1 of them do not fit" in found.remark
        here.makes("huge", size=200_000)
        here.makes("b", size=30_000)
        assert packs.push(NAME, here.address).entries == 1
        assert {*packed(here)} == {"a", "b"}


CROWD = """
import sys
from test_packs import NAME, made
from kcl.remote import packs

address, number = sys.argv[1:]
made(*(f"{number}-{kernel}" for kernel in range(4)))
print("ready", flush=True)
sys.stdin.readline()
packs.push(NAME, address, seconds=120.0)
"""


class TestCrowd:
    @pytest.mark.parametrize(("kind", "caches"), [("file", 1), ("file", 4), ("redis", 4)])
    def test_at_once(self, kind, caches, tmp_path, monkeypatch):
        """Of several processes that push at once, of one machine and of many, none loses anything."""
        server = remotes.server(kind, tmp_path)
        for name, text in server.variables.items():
            monkeypatch.setenv(name, text)
        address, started = server.address(), []
        remotes.configure(tmp_path / "config", remote_unsigned=[address])
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.path.dirname(__file__), *sys.path]))
        for number in range(4):
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"cache-{number % caches}"))
            command = [sys.executable, "-c", CROWD, address, str(number)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            started.append(subprocess.Popen(command, **pipes))
        for one in started:
            assert one.stdout.readline() == "ready\n"
        for one in started:
            one.stdin.write("\n")
            one.stdin.flush()
        for one in started:
            one.communicate(timeout=200)
            assert one.returncode == 0
        blob = store_of(address, 10.0).get(driver.pack_name(NAME, seal.UNSIGNED))
        held = dict(contents.unpack(seal.unseal("", blob, seal.UNSIGNED)[1], CacheInfo()))
        assert {entry.metadata["kernel"] for entry in held.values()} == {
            f"{number}-{kernel}" for number in range(4) for kernel in range(4)
        }


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
        found = packs.pull(NAME, here.address)
        assert re.search(r"(team|pack of kcl).*kcl key forget", found.fault)
        assert found.entries == 0
        assert there.has() == set()
        assert brought() == {}

    def test_replayed(self, here, sites, pack):
        """A pack of another driver, signed by the trusted key."""
        store, name, _blob = pack
        used.leave("other", [("generator", row("one").key.digest)])
        packs.push("other", here.address)
        store.put(name, store.get(driver.pack_name("other", seal.signing()[0])))
        self.refused(here, sites)

    def test_unsigned_in_place(self, here, sites, pack):
        """A pack without a signature under the name of a key."""
        store, name, blob = pack
        store.put(name, seal.seal(name, None, seal.unseal(name, blob, seal.UNSIGNED)[1]))
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
