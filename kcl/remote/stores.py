"""The kinds of remotes: Redis, buckets, directories and web servers, all with the methods of `PackStore`.

If a store has a `remark`, it cannot notice that another process has just written a pack: the later writer wins.
A client library is imported when its store is made. Clients do not retry, and return at most `LIMIT` bytes. Their errors
are not caught here; `fault` turns them into readable text.
"""

from __future__ import annotations

import base64
import glob
import os
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

from kcl.base import settings
from kcl.base.settings import trust
from kcl.cache import notes
from kcl.cache.locks import hold_alone
from kcl.cache.stores.directory import publish
from kcl.errors import CacheFault

LIMIT = 16 << 20  # bytes of a pack
_PREFIX = "kcl:pack:"  # of the keys in a Redis server
_DIGITS = 64  # of the first half of a pack's name
HEAD = 512  # bytes of a pack that a listing reads
_DAY = 86400.0
_BLIND = "of two that push at once the later one wins"
_CURES = (
    (("NoSuchBucket",), "make the bucket, or correct the address"),
    (
        ("NOAUTH", "WRONGPASS", "NOPERM", "Authentication", "401", "403"),
        "name a user who may read there",
    ),
    (("READONLY",), "name the server that takes writes"),
    (("OOM",), "the server is full: set its maxmemory-policy to allkeys-lru"),
)


class RemoteFault(CacheFault):
    """The remote cannot be used: the message says why, and the cure."""


def chosen() -> str:
    """Return the address of the remote; raises RemoteFault without one."""
    address = settings.read().remote
    if not address:
        raise RemoteFault("no remote is set: set KCL_REMOTE, or remote in the settings file")
    return address


def store_of(address: str, seconds: float) -> PackStore:
    """Return the store for an address; its client has the time-out `seconds`. Raises RemoteFault for a wrong address."""
    scheme = address.partition("://")[0].lower()
    if scheme in _STORES:
        store: PackStore = _STORES[scheme](address, seconds)
        return store
    schemes = ", ".join(f"{name}://" for name in _STORES)
    raise RemoteFault(f"no remote has the scheme {scheme[:20]!r}: write one of {schemes}")


def shown(address: str) -> str:
    """Return an address without user, password, and the fields behind its path."""
    scheme, mark, rest = address.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}{mark}{place.rpartition('@')[2]}{slash}{path.partition('?')[0]}"


def fault(address: str, error: BaseException) -> str:
    """Return a message of one line for an error of a store, without the secrets of the address."""
    # obstore appends text for its own developers.
    message = " ".join(str(error).partition("\nDebug source:")[0].split()) or "no reason given"
    words = message if isinstance(error, CacheFault) else f"{type(error).__name__}: {message}"
    parts = urlsplit(address)
    secrets = [address, parts.query, *parts.netloc.rpartition("@")[0].partition(":")[::2]]
    # The message may have a secret as it is written in the address, or decoded.
    for text in filter(None, (*secrets, *map(unquote, secrets))):
        words = words.replace(text, shown(address) if text == address else "***")
    cures = [f"; {cure}" for words_of, cure in _CURES if any(word in words for word in words_of)]
    # The message is shortened after that, so that no part of a secret is left.
    return f"{words[:300]}{''.join(cures[:1])}"


class PackStore(Protocol):
    """A store of packs: name -> bytes.

    `look` may return a mark, by which `put` notices that the pack has changed since. Without a mark it overwrites the pack.
    """

    remark: str = ""

    def get(self, name: str) -> bytes | None:
        """Return the bytes of a pack; None for a missing name."""
        return self.look(name)[0]

    def look(self, name: str) -> tuple[bytes | None, Any]:
        """Return the bytes of a pack, or None, and a mark of its present state: any object that `put` understands."""

    def put(self, name: str, blob: bytes, mark: Any = None) -> bool:
        """Write a pack as a whole or not at all; write nothing and return False if it has changed since `mark`."""

    def listed(self) -> Iterator[tuple[str, int, bytes]]:
        """Yield the names of all packs, with the size and the first bytes of each."""
        raise RemoteFault("a web server lists no packs: look there")

    def delete(self, name: str) -> None:
        """Remove a pack."""


class RedisStore(PackStore):
    """Packs as values of a Redis or Valkey server."""

    def __init__(self, address: str, seconds: float) -> None:
        redis, backoff, retry = map(client, ("redis", "redis.backoff", "redis.retry"))
        self._client = redis.Redis.from_url(
            address.replace("valkey", "redis", 1) if address.startswith("valkey") else address,
            # Protocol 3 would cost one more round trip at the start.
            protocol=2,
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            retry=retry.Retry(backoff.NoBackoff(), 0),
        )

    def get(self, name: str) -> bytes | None:
        return self._read(self._client, name)

    def _read(self, client: Any, name: str) -> bytes | None:
        # So the server sends at most the limit and a byte; for a missing key it sends nothing.
        return check_size(client.getrange(_PREFIX + name, 0, LIMIT)) or None

    def look(self, name: str) -> tuple[bytes | None, Any]:
        # The server refuses the put if the key has changed since it was watched.
        watch = self._client.pipeline()
        try:
            watch.watch(_PREFIX + name)
        except client("redis.exceptions").ResponseError:
            self.remark = f"this user may not WATCH, so {_BLIND}: add +watch +multi +exec"
            return self.get(name), None
        return self._read(watch, name), watch

    def put(self, name: str, blob: bytes, mark: Any = None) -> bool:
        if mark is None:
            self._client.set(_PREFIX + name, blob)
            return True
        mark.multi()
        mark.set(_PREFIX + name, blob)
        try:
            mark.execute()
        except client("redis.exceptions").WatchError:
            return False
        return True

    def listed(self) -> Iterator[tuple[str, int, bytes]]:
        for key in self._client.scan_iter(_PREFIX + "*", count=1000):
            name = key.decode("utf-8", "replace").removeprefix(_PREFIX)
            yield name, self._client.strlen(key), self._client.getrange(key, 0, HEAD)

    def delete(self, name: str) -> None:
        self._client.delete(_PREFIX + name)


class ObjectStore(PackStore):
    """Packs as objects of a bucket."""

    def __init__(self, address: str, seconds: float) -> None:
        wait = f"{max(1, round(seconds * 1000))}ms"
        self._client, self._note = client("obstore"), f"put {shown(address)}"
        self._store = client("obstore.store").from_url(
            # The user chooses the endpoint of a bucket, which may use plain http.
            address,
            client_options={"timeout": wait, "connect_timeout": wait, "allow_http": "true"},
            retry_config={"max_retries": 0},
        )

    def look(self, name: str) -> tuple[bytes | None, Any]:
        try:
            answer = self._client.get(self._store, name)
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise
            return None, "create"
        blob = bytearray()
        # Read in pieces, so that a server cannot send much more than the limit.
        for piece in answer.stream():
            blob += piece
            if len(blob) > LIMIT:
                break
        mark = {name: answer.meta[name] for name in ("e_tag", "version") if answer.meta[name]}
        self.remark = "" if mark else f"this server names no version: {_BLIND}"
        return check_size(blob), mark

    def put(self, name: str, blob: bytes, mark: Any = None) -> bool:
        age = notes.age(self._note)
        if mark not in (None, "create") and (age is None or age > _DAY):
            # Some servers ignore the condition of a put. A put under a mark that no pack has tests this once a day.
            notes.write(self._note, "")
            if self._put(name, blob, {"e_tag": '"of-no-pack"'}):
                self.remark = self.remark or f"this server ignores If-Match: {_BLIND}"
                return True
        return self._put(name, blob, mark)

    def _put(self, name: str, blob: bytes, mark: Any) -> bool:
        faults = client("obstore.exceptions")
        try:
            self._client.put(self._store, name, blob, use_multipart=False, mode=mark or "overwrite")
        except (faults.PreconditionError, faults.AlreadyExistsError):
            return False
        except (faults.NotSupportedError, NotImplementedError):
            if mark is None:
                raise
            self.remark = f"this server compares no version: {_BLIND}"
            return self._put(name, blob, None)
        return True

    def listed(self) -> Iterator[tuple[str, int, bytes]]:
        for item in (meta for chunk in self._client.list(self._store) for meta in chunk):
            size = min(item["size"], HEAD)
            start = self._client.get_range(self._store, item["path"], start=0, length=size)
            yield item["path"], item["size"], bytes(start)

    def delete(self, name: str) -> None:
        self._client.delete(self._store, name)


class FileStore(PackStore):
    """Packs as files below a directory that several machines may have mounted."""

    def __init__(self, address: str, _seconds: float) -> None:
        parts = urlsplit(address)
        self._root = unquote(parts.path)
        if parts.netloc not in ("", "localhost"):
            raise RemoteFault(f"{address} names a host: write an address such as file:///net/kcl")
        if not os.path.isdir(self._root):
            raise RemoteFault(f"{self._root} is no directory: make it, or correct the address")

    def look(self, name: str) -> tuple[bytes | None, Any]:
        try:
            # Opening the file makes NFS ask its server for the present state.
            with trust.open_to_read(os.path.join(self._root, name)) as stream:
                status = os.fstat(stream.fileno())
                mark = status.st_ino, status.st_mtime_ns, status.st_size
                return check_size(stream.read(LIMIT + 1)), mark
        except FileNotFoundError:
            return None, ()

    def put(self, name: str, blob: bytes, mark: Any = None) -> bool:
        path = os.path.join(self._root, name)
        folder = os.path.dirname(path)
        os.makedirs(folder, exist_ok=True)
        # On NFS a lock needs a file that is open for writing.
        with hold_alone(os.open(os.path.join(folder, ".lock"), os.O_RDWR | os.O_CREAT, 0o666)):
            if mark is not None and mark != self.look(name)[1]:
                return False
            publish(path, blob, 0o644)  # less the umask
            return True

    def listed(self) -> Iterator[tuple[str, int, bytes]]:
        # The pattern leaves out lock files and unfinished packs, whose names begin with a full stop.
        for name in glob.glob(f"{'?' * _DIGITS}/*", root_dir=self._root):
            with trust.open_to_read(os.path.join(self._root, name)) as stream:
                yield name, os.fstat(stream.fileno()).st_size, stream.read(HEAD)

    def delete(self, name: str) -> None:
        os.unlink(os.path.join(self._root, name))


class WebStore(PackStore):
    """Packs on a web server that accepts PUT. Secret headers are sent only to its host."""

    remark = f"a web server cannot tell what stands there: {_BLIND}"

    def __init__(self, address: str, seconds: float) -> None:
        parts = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
        self._address = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._fields, self._seconds = f"?{parts.query}" if parts.query else "", seconds
        is_here = parts.hostname in ("localhost", "::1") or str(parts.hostname).startswith("127.")
        self._secrets = _headers(host)
        if login := _login(parts, is_here or parts.scheme == "https"):
            word = base64.b64encode(":".join(login).encode()).decode()
            self._secrets["Authorization"] = f"Basic {word}"
        if self._secrets and parts.scheme == "http" and not is_here:
            raise RemoteFault("no password and no header goes over http://: write https://")
        web = client("urllib.request")
        # A server on this machine is reached without a proxy.
        self._web = web.build_opener(*([web.ProxyHandler({})] if is_here else []))

    def look(self, name: str) -> tuple[bytes | None, Any]:
        try:
            with self._ask(name) as answer:
                # A byte beyond the limit shows that the pack is too large.
                blob = check_size(answer.read(LIMIT + 1))
                # `length` is the number of announced bytes that have not arrived.
                if answer.length:
                    raise ConnectionError(f"the answer was cut after {len(blob)} bytes")
                return blob, None
        except client("urllib.error").HTTPError as error:
            if error.code != 404:
                raise
            return None, None

    def put(self, name: str, blob: bytes, mark: Any = None) -> bool:
        del mark
        self._ask(name, blob).close()
        return True

    def _ask(self, name: str, blob: bytes | None = None) -> Any:
        request = client("urllib.request").Request(
            f"{self._address}/{name}{self._fields}", blob, method="GET" if blob is None else "PUT"
        )
        request.add_header("Content-Type", "application/octet-stream")
        for field, text in self._secrets.items():
            # A redirection to another host gets no secret.
            request.add_unredirected_header(field, text)
        return self._web.open(request, timeout=self._seconds)


_STORES: dict[str, Any] = {
    **dict.fromkeys(("redis", "rediss", "valkey", "valkeys"), RedisStore),
    **dict.fromkeys(("s3", "gs", "az"), ObjectStore),
    **dict.fromkeys(("http", "https"), WebStore),
    "file": FileStore,
}


def client(module: str) -> Any:
    """Import a module of an optional package; raises RemoteFault if it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        words = f"this remote needs a package: pip install {module.partition('.')[0]} ({error})"
        raise RemoteFault(words) from error


def check_size(blob: bytes | bytearray) -> bytes:
    """Return the bytes of a pack; raises RemoteFault above the limit."""
    if len(blob) > LIMIT:
        raise RemoteFault(f"the pack is above the limit of {LIMIT} bytes")
    return bytes(blob)


def _headers(host: str) -> dict[str, str]:
    """Return the headers of the settings file if `host` is that of the file's `remote`; else none."""
    file = urlsplit(settings.from_file().get("remote", "")).netloc.rpartition("@")[2]
    pairs = [line.partition(":") for line in settings.read().remote_headers if host == file]
    return {name.strip(): text.strip() for name, _mark, text in pairs}


def _login(parts: Any, is_private: bool) -> tuple[str, str] | None:
    """Return user and password of an address, or those of the user's netrc for its host."""
    if parts.username is not None:
        return unquote(parts.username), unquote(parts.password or "")
    netrc = client("netrc")
    with suppress(OSError, netrc.NetrcParseError):
        # A password of netrc is sent only over https or to this machine.
        entry = netrc.netrc().hosts.get(parts.hostname) if is_private else None
        return (entry[0], entry[2] or "") if entry else None
    return None
