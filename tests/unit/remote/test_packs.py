"""Pull and push: what comes, what goes, what stays out."""

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
from kcl.inspect import inventory, purge
from kcl.remote import packs, seal, stores, used
from kcl.remote.stores import RemoteFault, store_of

NAME = "app/run.py"


class Site:
    """A machine with its cache and settings, and the remote; `use` makes this process run there."""

    def __init__(self, folder, address, monkeypatch) -> None:
        self.folder, self.address, self._monkeypatch = folder, address, monkeypatch
        self.settings = {}

    def use(self, **settings):
        """Run here, as another process, with settings added."""
        self.settings |= settings
        self._monkeypatch.setenv("XDG_CONFIG_HOME", str(self.folder / "config"))
        self._monkeypatch.setenv("XDG_CACHE_HOME", str(self.folder / "cache"))
        remotes.configure(self.folder / "config", **self.settings)
        return self

    def signs(self, name):
        return self.use() and seal.new(name).line

    def makes(self, *kernels, size=100):
        self.use()
        made(*kernels, size=size)

    def pushes(self, *kernels, size=100):
        self.makes(*kernels, size=size)
        return packs.push(NAME, self.address)

    def pulls(self):
        self.use()
        return packs.pull(NAME, self.address)

    def has(self):
        return {entry.kernel for entry in inventory.entries("generator", all_rows=True)}

    def pack(self):
        store, name = store_of(self.address, 1.0), seal.pack_name(NAME, seal.signing()[0])
        return store, name, store.get(name)

    def packed(self):
        _store, name, blob = self.pack()
        _second, data = seal.unseal(name, blob, seal.signing()[0])
        return [entry.metadata["kernel"] for _place, entry in contents.unpack(data, CacheInfo())]


def made(*kernels, size=100):
    """Find or make an entry of each kernel, as a run that is noted."""
    for kernel in kernels:
        if layers.generator().read(row(kernel, size).key.digest) is None:
            layers.generator().publish(row(kernel, size).key.digest, row(kernel, size))
    used.leave(NAME, [("generator", row(kernel, size).key.digest) for kernel in kernels])


def row(kernel, size=100):
    text = random.Random(kernel).randbytes(size)
    return Entry(
        Key([Part("kernel", kernel)]), {"front_end": "loopy", "kernel": kernel}, {"source.cl": text}
    )


def bundled(kernel):
    return contents.pack({("generator", row(kernel).key.digest): row(kernel)}, CacheInfo())


def brought():
    return {entry.kernel: signers for entry, signers in purge.list_signed([])}


def waiting():
    """Return what waits for a push, and leave it there."""
    with contextlib.suppress(ZeroDivisionError), used.take(NAME) as places:
        raise ZeroDivisionError
    return places


@pytest.fixture
def sites(tmp_path, monkeypatch):
    """Return a function that makes a machine, which trusts the keys with these lines."""
    remotes.demand("cryptography")
    address = remotes.directory(tmp_path / "remote")

    def site(name, *lines):
        return Site(tmp_path / name, address, monkeypatch).use(trusted_keys=[*lines])

    return site


@pytest.fixture
def here(sites):
    here = sites("here")
    here.line = here.signs("team")
    return here.use(trusted_keys=[here.line])


@pytest.fixture
def there(sites, here):
    return sites("there", here.line)


@pytest.fixture
def mine(there):
    """The same, which writes under a key of its own, too."""
    own = there.signs("mine")
    return there.use(trusted_keys=[*there.settings["trusted_keys"], own])


class TestTravel:
    def test_there_and_back(self, here, there):
        """What is pushed is loaded elsewhere, with the key on each entry; what was made there before is of no key."""
        assert here.pushes("one").bytes
        assert here.pushes("two").entries == 1
        outcome = there.pulls()
        assert (outcome.fault, outcome.entries) == ("", 2)
        assert there.has() == {"one", "two"}
        signer = seal.key_of(here.line).id
        assert brought() == {"one": [signer], "two": [signer]}
        came = layers.generator().read(row("one").key.digest)
        assert came == row("one").with_metadata(signers=[signer])
        assert packs.pull("other", here.address).bytes == 0
        here.pushes("three")
        there.makes("three")
        there.pulls()
        assert brought() == {"one": [signer], "two": [signer]}

    def test_nothing_new(self, here):
        """A run that made nothing that the pack lacks puts nothing, and is not pushed again."""
        here.pushes("one")
        here.use()
        assert packs.push(NAME, here.address).remark.startswith("no run has used")
        _store, name, _blob = here.pack()
        path = here.folder.parent / "remote" / name
        before = path.stat().st_mtime_ns
        assert here.pushes("one") == ("", 0, 0, 0.0, "all of 1 entry are there", 0)
        assert path.stat().st_mtime_ns == before
        assert waiting() == []

    def test_a_bundle(self, here, tmp_path):
        (tmp_path / "x.kclb").write_bytes(bundled("one"))
        here.makes("two")
        assert packs.push(NAME, here.address, str(tmp_path / "x.kclb")).entries == 1
        assert here.packed() == ["one"]
        assert len(waiting()) == 1

    def test_all_trusted_keys(self, here, sites):
        """The packs of all trusted keys are read; what two of them brought is noted under both."""
        here.pushes("one", "both")
        second = sites("second")
        line = second.signs("second")
        second.pushes("two", "both")
        there = sites("there", line, here.line)
        outcome = there.pulls()
        assert (outcome.entries, outcome.fault) == (3, "")
        assert re.fullmatch(
            r"a pack .* by second 0\.0 days ago; a pack .* by team 0\.0 days ago", outcome.remark
        )
        assert there.has() == {"one", "two", "both"}
        assert {*brought()["both"]} == {seal.key_of(key).id for key in (line, here.line)}
        removal = purge.carry_out(signer=seal.key_of(line).id)
        assert (sum(len(item.addresses) for item in removal.items), removal.refusals) == (2, [])
        assert there.has() == {"one"}

    @pytest.mark.parametrize(
        ("error", "words"),
        [(None, "of bad was not loaded"), (TimeoutError("too slow"), "too slow")],
        ids=["damaged", "not fetched"],
    )
    def test_bad_pack_beside(self, here, sites, monkeypatch, error, words):
        here.pushes("one")
        bad, get = seal.PublicKey("bad", bytes(32)), stores.FileStore.get

        def get_bad(self, name):
            if name != seal.pack_name(NAME, bad):
                return get(self, name)
            if error is not None:
                raise error
            return b"no pack"

        monkeypatch.setattr(stores.FileStore, "get", get_bad)
        there = sites("there", bad.line, here.line)
        outcome = there.pulls()
        assert there.has() == {"one"}
        assert (outcome.entries, words in outcome.fault) == (1, True)

    def test_made_again(self, here, mine):
        """What came, was removed and was made again here is pushed under the own key; what is hit is not."""
        here.pushes("one", "two")
        mine.pulls()
        layers.generator().publish(row("one").key.digest, row("one"))
        mine.use(trusted_keys=[])
        assert mine.pushes("one", "two").entries == 1
        assert mine.packed() == ["one"]

    def test_too_much_together(self, here, sites, monkeypatch):
        monkeypatch.setattr(packs, "_TOGETHER", 1500)
        here.pushes("one", size=1000)
        second = sites("second")
        line = second.signs("second")
        second.pushes("two", size=1000)
        there = sites("there", line, here.line)
        assert "the pack of team is left out" in there.pulls().remark
        assert there.has() == {"two"}

    def test_unsigned(self, sites):
        here = sites("here")
        here.use(remote_unsigned=[here.address])
        assert here.pushes("one").entries == 1
        assert sites("there").use(remote_unsigned=[here.address]).pulls().entries == 1
        assert brought() == {"one": ["unsigned"]}
        with pytest.raises(RemoteFault, match="no key is trusted"):
            sites("third").use(remote_unsigned=[here.address + "/x"]).pulls()


class TestPush:
    def test_a_lost_server(self, here, mine, tmp_path):
        """A new server is filled by the next machine that has the key; another one says which key does it."""
        here.pushes("one", "two")
        mine.pulls()
        here.address = mine.address = remotes.directory(tmp_path / "new")
        outcome = mine.pushes("one", "two")
        assert (outcome.bytes, outcome.remark) == (
            0,
            "2 entries came under key team, which fills it",
        )
        assert here.pushes("one", "two").entries == 2
        assert mine.pushes("one", "two").remark == ""

    def test_held_by_another_key(self, here, mine):
        """What the pack of another trusted key holds is not pushed again under the own one."""
        here.pushes("one")
        assert mine.pushes("one", "two").entries == 1
        assert mine.packed() == ["two"]

    def test_foreign_content(self, here, sites):
        """What came under another key too, or in part, is not signed: its bytes may be those of the other one."""
        here.pushes("one")
        second = sites("second")
        line = second.signs("second")
        second.pushes("one")
        there = sites("there", here.line, line)
        there.use(trusted_keys=[here.line, line, there.signs("mine")])
        there.pulls()
        there.use(trusted_keys=[])
        outcome = there.pushes("one")
        assert (outcome.entries, "came under key" in outcome.remark) == (0, True)

    def test_at_once(self, here, monkeypatch):
        """What another process puts between reading and putting is kept."""
        here.makes("one")
        _store, name, _blob = here.pack()
        put = stores.FileStore.put

        def put_late(self, *given):
            monkeypatch.setattr(stores.FileStore, "put", put)
            assert put(self, name, seal.seal(name, seal.signing()[1], bundled("other")))
            return put(self, *given)

        monkeypatch.setattr(stores.FileStore, "put", put_late)
        assert packs.push(NAME, here.address).entries == 1
        assert {*here.packed()} == {"one", "other"}

    def test_beside_others_for_ever(self, here, monkeypatch):
        here.makes("one")
        with monkeypatch.context() as patched:
            patched.setattr(stores.FileStore, "put", lambda *_given: False)
            with pytest.raises(RemoteFault, match="others pushed at each try"):
                packs.push(NAME, here.address, seconds=0.0)
        here.use()
        assert len(waiting()) == 1

    def test_lost(self, here):
        """The last writer wins; a later push carries all that its run used, so what was lost comes back."""
        here.pushes("one")
        store, name, before = here.pack()
        here.pushes("two")
        store.put(name, before)  # by a process that had read it before
        assert here.pushes("one", "two").entries == 1
        assert {*here.packed()} == {"one", "two"}

    def test_damaged_pack(self, here, monkeypatch):
        """A damaged pack of the own key starts over, and a remark says so; one damaged read loses nothing."""
        here.pushes("one")
        store, name, _blob = here.pack()
        store.put(name, b"no pack")
        outcome = here.pushes("two")
        assert (outcome.entries, outcome.fault) == (1, "")
        assert "the own pack was damaged: it starts over" in outcome.remark
        assert here.packed() == ["two"]
        look, reads = stores.FileStore.look, []

        def damaged(self, name):
            reads.append(name)
            blob, mark = look(self, name)
            return (blob[:-1] if len(reads) == 1 else blob), mark

        monkeypatch.setattr(stores.FileStore, "look", damaged)
        outcome = here.pushes("three")
        assert (outcome.entries, "damaged" in outcome.remark) == (1, False)
        assert len(reads) == 3  # the last time as it is put
        assert {*here.packed()} == {"two", "three"}

    def test_damaged_pack_of_another_writer(self, here, monkeypatch):
        """What another process puts in place of the damaged pack is kept."""
        here.pushes("one")
        store, name, whole = here.pack()
        store.put(name, b"no pack")
        put = stores.FileStore.put

        def put_late(self, *given):
            monkeypatch.setattr(stores.FileStore, "put", put)
            put(self, name, whole)
            return put(self, *given)

        monkeypatch.setattr(stores.FileStore, "put", put_late)
        outcome = here.pushes("two")
        assert (outcome.entries, "damaged" in outcome.remark) == (1, False)
        assert {*here.packed()} == {"one", "two"}

    def test_damaged_pack_beside_others(self, here, mine):
        """A damaged pack is replaced also if the packs of others have all entries."""
        here.pushes("one")
        mine.pushes("two")
        store, name, _whole = mine.pack()
        store.put(name, b"no pack")
        assert mine.pushes("one").entries == 1
        assert mine.packed() == ["one"]

    def test_bound(self, here, monkeypatch):
        """Where there is too much, entries go, the least recently used first; what fits into no pack is said."""
        monkeypatch.setattr(stores, "LIMIT", 100_000)
        for kernel in ("a", "b", "c"):
            here.pushes(kernel, size=30_000)
        here.makes("a", size=30_000)
        here.pushes("d", size=30_000)
        assert here.packed() == ["c", "a", "d"]
        outcome = here.pushes("huge", size=200_000)
        assert (outcome.entries, outcome.fault) == (0, "")
        assert "1 of them do not fit" in outcome.remark
        here.makes("huge", size=200_000)
        assert here.pushes("b", size=30_000).entries == 1
        assert here.packed() == ["a", "d", "b"]


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
        blob = store_of(address, 10.0).get(seal.pack_name(NAME, seal.UNSIGNED))
        held = dict(contents.unpack(seal.unseal("", blob, seal.UNSIGNED)[1], CacheInfo()))
        assert {entry.metadata["kernel"] for entry in held.values()} == {
            f"{number}-{kernel}" for number in range(4) for kernel in range(4)
        }


class TestLies:
    """A remote that lies."""

    @pytest.fixture
    def pack(self, here):
        here.pushes("one", "two")
        return here.pack()

    @pytest.fixture
    def refused(self, there):
        """Return a function that pulls on another machine: nothing may come."""

        def refused():
            outcome = there.pulls()
            assert re.search(r"(team|pack of kcl).*kcl key forget", outcome.fault)
            assert outcome.entries == 0
            assert there.has() == set()
            assert brought() == {}

        return refused

    def test_replaced(self, here, pack, refused):
        """A pack of another driver, signed by the trusted key, and one without a signature under the name of a key."""
        store, name, blob = pack
        here.use()
        used.leave("other", [("generator", row("one").key.digest)])
        packs.push("other", here.address)
        store.put(name, store.get(seal.pack_name("other", seal.signing()[0])))
        refused()
        store.put(name, seal.seal(name, None, seal.unseal(name, blob, seal.UNSIGNED)[1]))
        refused()

    def test_older(self, here, there, pack):
        """An older pack of the key is believed: it costs time only."""
        store, name, blob = pack
        here.pushes("three")
        store.put(name, blob)
        assert there.pulls().entries == 2
        assert there.has() == {"one", "two"}
