"""What a process does with its remote at a miss: it waits within bounds, says one thing, and gets what there is."""

import os
import pathlib
import sys
import threading
import time
import warnings

import proxy
import pytest
import remotes
from at_once import at_once, wait_until
from proxy import Proxy
from remotes import ROW

from kcl.base import process
from kcl.bundle import contents
from kcl.bundle.info import CacheInfo
from kcl.cache import layers, locks
from kcl.errors import CacheFault
from kcl.remote import ask, ending, outcomes, project, seal, used
from kcl.remote.stores import store_of

pytestmark = [pytest.mark.faults, pytest.mark.timeout(60)]
PLACE = ("generator", ROW.key.digest)
SLACK = 1.5  # seconds that a loaded machine may take to start a child


@pytest.fixture
def remote(tmp_path, monkeypatch):
    """Return a function that makes a remote of a kind, with the pack of this process, and sets it."""

    monkeypatch.setattr(project, "name", lambda: "app/run.py")

    def make(kind, through=None, full=True, **settings):
        server = remotes.serve(kind, tmp_path, monkeypatch)
        address = server.address()
        if full:
            pack = contents.pack({PLACE: ROW}, CacheInfo())
            name = seal.pack_name(project.name(), seal.UNSIGNED)
            store_of(address, 10.0).put(name, seal.seal(name, None, pack))
        if through is not None:
            address = address.replace(f":{server.port}", f":{through.port}")
        set_remote(address, **settings)
        return server

    def set_remote(address, **settings):
        monkeypatch.setenv("KCL_REMOTE", address)
        patient = {"remote_unsigned": [address], "remote_timeout": "20s"}  # on a loaded machine
        remotes.configure(tmp_path / "config", **{**patient, **settings})

    make.at = set_remote
    return make


def pulled():
    return outcomes.note_name("pull", project.name(), os.environ["KCL_REMOTE"])


class Asked:
    """What a process saw that asked its remote once."""

    def __init__(self, strict=False) -> None:
        started = time.monotonic()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            self.came = ask.before_a_miss(strict)
        self.seconds = time.monotonic() - started
        self.said = [str(one.message) for one in said]
        self.outcome = outcomes.read(pulled())

    def __repr__(self) -> str:
        return f"<{self.came} {self.seconds:.2f} s {self.said} {self.outcome}>"


def again():
    """Make this process another one, of a moment later."""
    process.reset()
    return Asked()


class TestPull:
    @pytest.mark.parametrize("kind", remotes.KINDS)
    def test_full(self, remote, kind):
        """The pack comes with one get, and nothing is said; a second miss asks nobody."""
        server = remote(kind)
        before = server.asked()
        asked = Asked()
        assert asked.came, asked
        assert asked.said == []
        assert (asked.outcome.fault, asked.outcome.entries) == ("", 1)
        came = ROW.with_metadata(signers=["unsigned"])
        assert layers.generator().read(ROW.key.digest) == came
        assert not Asked().came
        assert server.asked() == before + (kind != "file")

    @pytest.mark.parametrize("kind", ["redis", "http"])
    def test_absent(self, remote, kind, monkeypatch, ahead):
        """A remote without the pack is asked again after an hour, under other terms, or where a miss is an error.

        In the last case an answer counts that another process got since this one began.
        """
        server = remote(kind, full=False)
        before = server.asked()
        assert not Asked().came
        assert not again().came
        assert server.asked() == before + 1
        process.reset()
        assert not Asked(strict=True).came
        assert server.asked() == before + 1
        process.reset()
        monkeypatch.setattr(process, "STARTED", time.time_ns())
        assert not Asked(strict=True).came
        assert server.asked() == before + 2
        ahead[0] = 3700
        assert again().said == []
        assert server.asked() == before + 3
        ahead[0] = 0.0
        remote.at(os.environ["KCL_REMOTE"], trusted_keys=[seal.PublicKey("a", bytes(32)).line])
        assert again().said == []
        assert server.asked() == before + 5  # two names

    def test_refused_push(self, remote):
        """A push that failed stands in the report of a run that misses."""
        remote("file")
        name = outcomes.note_name("push", project.name(), os.environ["KCL_REMOTE"])
        outcomes.write(name, outcomes.Outcome("no right to write"))
        assert Asked().said == []
        assert layers.generator().notes == ["the last push failed: no right to write"]

    def test_threads(self, remote):
        server = remote("http")
        before, came = server.asked(), []
        at_once(lambda _number: came.append(ask.before_a_miss(False)), 4)
        assert came == [True] * 4
        assert server.asked() == before + 1

    def test_without_a_place_for_entries_nobody_is_asked_and_nothing_is_said(
        self, remote, monkeypatch, tmp_path
    ):
        server = remote("http")
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("KCL_CACHE_DIR", str(tmp_path / "file" / "x"))
        before = server.asked()
        asked = Asked()
        assert (asked.came, asked.said) == (False, [])
        assert server.asked() == before


CASES = [
    *((kind, fault, "") for kind in ("redis", "http") for fault in proxy.FAULTS),
    *(("http", fault, answer) for fault, answer in proxy.HTTP.items()),
    *(("redis", fault, answer) for fault, answer in proxy.REDIS.items()),
]


class TestFaults:
    @pytest.mark.parametrize(
        ("kind", "fault", "answer"), CASES, ids=lambda value: value if len(value) < 20 else ""
    )
    @pytest.mark.slow_cases(3)  # each waits for its second, and all end in the same few lines
    def test_fault(self, remote, kind, fault, answer):
        """A fault is a miss: no exception, one warning at most, a bounded wait, and a minute without a second try."""
        server = remotes.server(kind, None)
        with Proxy(server.port, fault, answer) as bad:
            remote(kind, bad, remote_timeout="1s")
            asked = Asked()
            assert asked.seconds < 1.0 + SLACK, asked
            assert len(asked.said) <= 1, asked
            if not asked.came and fault != "404":
                assert asked.said, asked
                assert "http" in asked.said[0] or "redis" in asked.said[0]
            wait_until(lambda: bad.connections)  # the child starts late on a loaded machine
            if answer:
                # The child may still read it, such as one redirection after another. It holds the lock until it ends.
                with locks.hold_alone(used.open_lock(seal.project_digest(project.name()))):
                    pass
            connections = bad.connections
            later = again()
            assert later.seconds < SLACK
            assert later.said == []
            assert bad.connections == connections

    @pytest.mark.parametrize(
        "address", ["redis://127.0.0.1:{}/0", "http://127.0.0.1:{}/x", "https://127.0.0.1:{}/x"]
    )
    def test_a_dead_port_costs_no_timeout(self, remote, address):
        remotes.demand("redis", "obstore")
        remote.at(address.format(remotes.free_port()), remote_timeout="5s")
        asked = Asked()
        assert asked.outcome.fault
        assert asked.outcome.seconds < 3.0
        assert len(asked.said) == 1

    @pytest.mark.parametrize(
        ("address", "cure"),
        [
            ("ftp://host/x", "redis://"),
            ("file://here", "file:///net"),
            ("s3://no-such-bucket/x", "make the bucket"),
        ],
    )
    def test_what_is_wrong_with_an_address_is_said_once_with_its_cure(self, remote, address, cure):
        remote("s3", full=False)
        remote.at(address)
        (said,) = Asked().said
        assert cure in said
        assert again().said == []

    def test_strict_fault(self, remote, monkeypatch):
        remote.at("ftp://host/x")
        monkeypatch.setenv("KCL_STRICT", "fault")
        with pytest.raises(CacheFault, match="ftp"):
            ask.before_a_miss(False)

    def test_late(self, remote):
        """The child of a process that waits no longer goes on, and its entries are there for the next one."""
        server = remotes.server("http", None)
        with Proxy(server.port, "slow") as slow:
            remote("http", slow, remote_timeout="0.1s")
            asked = Asked()
            assert not asked.came
            # On a busy machine the child takes a part of the time.
            assert "no answer in 0." in asked.said[0]
            wait_until(lambda: layers.generator().read(ROW.key.digest) is not None)

    def test_waiter(self, remote):
        """Who waits for the child of another process waits within the same bound, and starts none."""
        server = remote("http", remote_timeout="0.2s")
        before = server.asked()
        with locks.hold_alone(used.open_lock(seal.project_digest(project.name()))):
            asked = Asked()
        assert (asked.came, asked.said) == (False, [])
        assert asked.seconds < 0.2 + SLACK
        assert server.asked() == before

    def test_fork(self, remote):
        """A fork during a pull waits for nothing, and leaves the child to itself."""
        server = remotes.server("http", None)
        with Proxy(server.port, "slow") as slow:
            remote("http", slow, remote_timeout="20s")
            came = []
            asking = threading.Thread(target=lambda: came.append(ask.before_a_miss(False)))
            asking.start()
            wait_until(lambda: slow.connections)
            if (forked := os.fork()) == 0:
                os._exit(int(ask.before_a_miss(False)))
            assert os.waitpid(forked, 0)[1] == 0
            asking.join()
            assert came == [True]

    def test_push_at_exit(self, remote, monkeypatch):
        server = remotes.server("redis", None)
        with Proxy(server.port, "swallowed") as bad:
            remote("redis", bad, remote_write="exit", remote_timeout="0.1s")
            layers.generator().publish(ROW.key.digest, ROW)
            assert not Asked().came
            monkeypatch.setattr(ending, "_SECONDS", 0.3)
            started = time.monotonic()
            layers.generator().used[ROW.key.digest] = True
            ending.at_exit()
            assert time.monotonic() - started < 0.3 + SLACK

    def test_strict(self, remote):
        """Where a miss is an error, the child is waited for in full."""
        server = remotes.server("http", None)
        with Proxy(server.port, "slow") as slow:
            remote("http", slow, remote_timeout="0.1s")
            asked = Asked(strict=True)
            assert asked.came
            assert asked.said == []

    def test_nobody_trusted(self, remote):
        """Without a trusted key nothing comes, and if others can write the keys; the warning says so."""
        remote("file")
        remote.at(os.environ["KCL_REMOTE"], remote_unsigned=[])
        (words,) = Asked().said
        assert "kcl key trust" in words
        remote.at(os.environ["KCL_REMOTE"])
        seal.trust_key(seal.PublicKey("team", bytes(32)))
        os.chmod(seal.path_of("team", seal.TRUSTED), 0o666)
        asked = again()
        assert not asked.came
        assert "others can write" in asked.said[0]

    def test_another_python(self, remote, monkeypatch):
        """A program with Python inside cannot start a child, and says what can be done."""
        remote("file")
        monkeypatch.setattr(sys, "executable", "/usr/bin/blender")
        (said,) = Asked().said
        assert "kcl pull" in said


class TestIsolation:
    def test_modules_of_the_project(self, remote, tmp_path, monkeypatch):
        """A module of the project does not run in the child, whatever name it has."""
        remote("redis")
        for name in ("redis", "obstore", "json", "kcl", "sitecustomize"):
            (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        assert Asked().came
        assert not (tmp_path / "ran").exists()

    def test_no_client_here(self, remote, monkeypatch):
        """This process imports no client, and no child of it is left to be waited for."""
        remote("redis")
        clients = {"redis", "obstore", "cryptography"}
        for name in [name for name in sys.modules if name.partition(".")[0] in clients]:
            monkeypatch.delitem(sys.modules, name)
        # The servers of the tests are children, too.
        children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children")
        before = children.read_text() if children.exists() else ""
        assert Asked().came
        assert not clients & sys.modules.keys()
        assert (children.read_text() if children.exists() else "") == before
