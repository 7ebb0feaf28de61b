"""The places that hold packs: one contract, which every kind of place keeps against its real server."""

import base64
import hashlib
import http.server
import subprocess
import sys
import threading
import types

import pytest
import remotes
from proxy import CUT_PUT, Proxy

from kcl.remote import stores
from kcl.remote.stores import RemoteFault, fault, shown, store_of

DAY = 86400.0
NAME = f"{hashlib.sha256(b'driver').hexdigest()}/0123456789abcdef"


@pytest.fixture(params=remotes.KINDS)
def place(request, tmp_path, monkeypatch):
    """The address of a new, empty remote of each kind."""
    return remotes.serve(request.param, tmp_path, monkeypatch).address()


class TestContract:
    def test_names(self, place):
        """The same bytes come back, to another reader too. A second put replaces the first, and no other name."""
        store = store_of(place, 10.0)
        assert store.get(NAME) is None
        store.put(NAME, b"a longer pack")
        store.put(NAME + "0", b"another")
        for blob in (bytes(range(256)) * 4000, b"\0", b"short"):
            store.put(NAME, blob)
            assert (store.get(NAME), store.get(NAME + "0")) == (blob, b"another")
            assert store_of(place, 10.0).get(NAME) == blob
        assert store.get("other" + NAME) is None

    def test_listed(self, place):
        """Packs are listed with size and start, and removed one by one; a web server does neither."""
        store = store_of(place, 10.0)
        if place.startswith("http"):
            with pytest.raises(RemoteFault, match="lists no packs"):
                [*store.listed()]
            return
        assert [*store.listed()] == []
        store.put(NAME, b"pack" * 1000)
        store.put(NAME + "0", b"another")
        ((name, size, start), other) = sorted(store.listed())
        assert (name, size, start) == (NAME, 4000, (b"pack" * 1000)[: len(start)])
        assert len(start) >= 400
        assert other == (NAME + "0", 7, b"another")
        store.delete(NAME)
        assert [*store.listed()] == [other]

    def test_a_pack_above_the_limit_is_refused_and_one_of_its_size_is_not(self, place, monkeypatch):
        monkeypatch.setattr(stores, "LIMIT", 1000)
        store = store_of(place, 10.0)
        store.put(NAME, b"x" * 1000)
        assert store.get(NAME) == b"x" * 1000
        store.put(NAME, b"x" * 1001)
        with pytest.raises(RemoteFault, match="limit"):
            store.get(NAME)


class TestMark:
    """A put that stands on what was read before."""

    def test_unchanged(self, place):
        store = store_of(place, 10.0)
        for text in (b"first", b"second", b"third"):
            before, mark = store.look(NAME)
            assert before != text
            assert store.put(NAME, text, mark)
        assert store.get(NAME) == b"third"

    @pytest.mark.parametrize("before", [None, b"old"])
    def test_changed(self, place, before):
        """What another writer put stays; a store that cannot see it says so."""
        store, other = store_of(place, 10.0), store_of(place, 10.0)
        if before is not None:
            other.put(NAME, before)
        assert store.look(NAME)[0] == before
        _found, mark = store.look(NAME)
        other.put(NAME, b"of another")
        if store.remark:
            assert "the later one wins" in store.remark
        else:
            assert not store.put(NAME, b"mine", mark)
            assert store.get(NAME) == b"of another"

    def test_ignores_the_condition(self, tmp_path, monkeypatch, ahead):
        """Once a day a bucket is tried with a wrong version: one that puts all the same is found and said."""
        address = remotes.serve("s3", tmp_path, monkeypatch).address()
        store = store_of(address, 10.0)
        client, modes = store._client, []

        def put(*given, mode, **_more):
            modes.append(mode)
            return client.put(*given, **({} if ahead[0] > 2 * DAY else {"mode": mode}))

        monkeypatch.setattr(store, "_client", types.SimpleNamespace(get=client.get, put=put))
        for day, tries in ((0.0, 1), (0.1, 2), (0.2, 1), (1.3, 2), (2.4, 1)):
            ahead[0] = day * DAY
            modes.clear()
            before, mark = store.look(NAME)
            assert store.put(NAME, b"%d" % len(before or b"") + bytes(9), mark)
            assert len(modes) == tries
            assert ("ignores If-Match" in store.remark) == (day == 2.4)

    def test_no_watch(self):
        """A user of Redis who may not WATCH puts as it is, and the store says what to add."""
        address = remotes.server("redis", None).address()
        import redis

        with redis.Redis.from_url(address) as server:
            rights = {"keys": ["*"], "commands": ["+getrange", "+set", "+select"]}
            server.acl_setuser("plain", enabled=True, reset=True, passwords=["+word"], **rights)
        store = store_of(address.replace("127", "plain:word@127", 1), 10.0)
        assert store.put(NAME, b"pack", store.look(NAME)[1])
        assert store.get(NAME) == b"pack"
        assert "+watch +multi +exec" in store.remark


class TestWeb:
    @pytest.fixture
    def asked(self):
        """A web server that keeps the fields of what it is asked, and its port."""
        fields = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                fields.append({name.lower(): text for name, text in self.headers.items()})
                to = self.path.partition("to=")[2].partition("/")[0]
                self.send_response(302 if to else 404)
                if to:
                    self.send_header("Location", f"http://127.0.0.1:{to}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_said):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield server.server_address[1], fields
            server.shutdown()

    @pytest.fixture
    def netrc(self, tmp_path, monkeypatch):
        """Return a function that writes the user's netrc."""
        monkeypatch.setenv("HOME", str(tmp_path))

        def netrc(text):
            (tmp_path / ".netrc").write_text(text)
            (tmp_path / ".netrc").chmod(0o600)

        return netrc

    def test_login(self, asked, netrc):
        """User and password come from the address, else from netrc for this host."""
        port, fields = asked
        assert store_of(f"http://us%65r:w%40rd@127.0.0.1:{port}/x", 5.0).get(NAME) is None
        assert fields[-1]["authorization"] == f"Basic {base64.b64encode(b'user:w@rd').decode()}"
        assert store_of(f"http://127.0.0.1:{port}/x", 5.0).get(NAME) is None
        assert "authorization" not in fields[-1]
        netrc("machine 127.0.0.1 login me password mine\n")
        assert store_of(f"http://127.0.0.1:{port}/x", 5.0).get(NAME) is None
        assert fields[-1]["authorization"] == f"Basic {base64.b64encode(b'me:mine').decode()}"

    def test_headers(self, asked, tmp_path, monkeypatch):
        """Headers of the settings file are sent, and to no other server that this one names."""
        port, fields = asked
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        settings = {"remote_headers": ["Private-Token: word"]}
        remotes.configure(tmp_path / "config", remote=f"http://127.0.0.1:{port}/y", **settings)
        assert store_of(f"http://localhost:{port}/x", 5.0).get(NAME) is None  # another host
        assert "private-token" not in fields[-1]
        assert store_of(f"http://127.0.0.1:{port}/x", 5.0).get(NAME) is None
        assert fields[-1]["private-token"] == "word"
        assert store_of(f"http://u:p@127.0.0.1:{port}/to={port}", 5.0).get(NAME) is None
        secrets = [{"private-token", "authorization"} & sent.keys() for sent in fields[-2:]]
        assert secrets == [{"private-token", "authorization"}, set()]

    def test_plain_text(self, netrc):
        """A password goes to another machine by https alone; a login of netrc stays at home, and refuses nothing."""
        netrc("default login me password mine\n")
        for address in ("http://host.example/x", "https://host.example/x"):
            assert store_of(address, 5.0)._secrets == {}
        with pytest.raises(RemoteFault, match="write https://"):
            store_of("http://user:word@host.example/x", 5.0)


class TestStoreOf:
    @pytest.mark.parametrize("address", ["ftp://host", "host", "", "redis:/host"])
    def test_unknown(self, address):
        with pytest.raises(RemoteFault, match="redis://"):
            store_of(address, 1.0)

    @pytest.mark.parametrize(
        ("address", "package"), [("redis://127.0.0.1", "redis"), ("s3://bucket", "obstore.store")]
    )
    def test_no_client(self, address, package, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, package, None)
        with pytest.raises(RemoteFault, match="pip install"):
            store_of(address, 1.0)

    @pytest.mark.parametrize(
        "address",
        [
            *("rediss://127.0.0.1:1/0", "valkey://127.0.0.1:1/0", "valkeys://127.0.0.1:1"),
            *("gs://bucket/prefix", "az://container/prefix", "https://host/path"),
        ],
    )
    def test_schemes(self, address, monkeypatch):
        """A server that speaks TLS, a Valkey server and every cloud have schemes; nobody is asked for a store."""
        remotes.demand("redis", "obstore")
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "someone")
        assert store_of(address, 1.0)


class TestFiles:
    def test_no_directory(self, tmp_path):
        """A path is absolute. A directory that is not there, as one that is not mounted, is not made."""
        with pytest.raises(RemoteFault, match="file:///net"):
            store_of("file://packs", 1.0)
        with pytest.raises(RemoteFault, match="make it, or correct the address"):
            store_of((tmp_path / "net").as_uri(), 1.0)
        assert not (tmp_path / "net").exists()

    def test_killed(self, tmp_path):
        store = store_of(tmp_path.as_uri(), 1.0)
        store.put("a/b", b"old")
        code = "import resource, signal, sys\nfrom kcl.remote.stores import store_of\nstore = store_of(sys.argv[1], 1.0)\n"
        code += "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\nstore.put('a/b', bytes(100_000))"
        command = [sys.executable, "-c", code, tmp_path.as_uri()]
        assert subprocess.run(command, capture_output=True).returncode
        assert store.get("a/b") == b"old"
        assert (tmp_path / "a" / "b").stat().st_mode & 0o044


def test_redis_killed():
    server = remotes.server("redis", None)
    address = server.address()
    store_of(address, 5.0).put("a/b", b"old")
    with Proxy(server.port, CUT_PUT) as bad:
        store = store_of(address.replace(f":{server.port}", f":{bad.port}"), 5.0)
        with pytest.raises(Exception, match=r"closed|reset|Broken"):
            store.put("a/b", bytes(1_000_000))
    assert store_of(address, 5.0).get("a/b") == b"old"


def test_no_bucket(tmp_path, monkeypatch):
    """It is a fault, and no missing pack."""
    remotes.serve("s3", tmp_path, monkeypatch)
    with pytest.raises(FileNotFoundError, match="NoSuchBucket"):
        store_of("s3://no-such-bucket/x", 10.0).get(NAME)


class TestWords:
    @pytest.mark.parametrize(
        ("address", "said"),
        [
            ("redis://host/0", "redis://host/0"),
            ("redis://user:word@host:1/0?password=word", "redis://host:1/0"),
            ("rediss://:word@host", "rediss://host"),
            ("redis://user:w@rd@host", "redis://host"),
            ("https://word@host/path?sig=word", "https://host/path"),
        ],
    )
    def test_shown(self, address, said):
        assert shown(address) == said

    def test_fault(self):
        error = ValueError("cannot reach redis://it:s%40x@host:\n s%40x is wrong, s@x is")
        words = fault("redis://it:s%40x@host", error)
        assert words == "ValueError: cannot reach redis://host: *** is wrong, *** is"
        assert "signed" not in fault(
            "https://host/x?sig=signed", ValueError("https://host/y?sig=signed")
        )
        assert fault("file:///x", RemoteFault("do this")) == "do this"
        assert fault("file:///x", OSError()) == "OSError: no reason given"
        assert len(fault("file:///x", OSError("x" * 5000))) == 300
        assert fault("redis://host", ValueError("NOAUTH")).endswith("a user who may read there")
