"""The places that hold packs: bytes by name, behind two methods.

    get(name)         the bytes; None for a missing name
    put(name, blob)   keep bytes, whole or not at all

A client is imported as its store is made. No client tries twice, and none returns more than `LIMIT` bytes. The errors
of the clients pass: `fault` finds words for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

from kcl.errors import CacheFault

LIMIT = 16 << 20  # bytes of a pack
_PREFIX = "kcl:pack:"  # of the keys in a Redis server
_REDIS = ("redis", "rediss", "valkey", "valkeys")
_OBJECTS = ("s3", "gs", "az", "http", "https", "file")
_SCHEMES = ", ".join(f"{scheme}://" for scheme in ("redis", "rediss", *_OBJECTS))
_CURES = (
    (("NoSuchBucket", "canonicalize"), "make the bucket or the directory, or correct the address"),
    (("Unable to recognise",), "write an address such as s3://bucket/prefix or file:///net/kcl"),
    (
        ("NOAUTH", "WRONGPASS", "NOPERM", "Authentication", "401 Un", "403 For"),
        "name a user who may read there",
    ),
    (("READONLY",), "name the server that takes writes"),
    (("OOM",), "the server is full: set its maxmemory-policy to allkeys-lru"),
)


class RemoteFault(CacheFault):
    """The remote cannot be used: the message says why, and the cure."""


def store_of(address: str, seconds: float) -> RedisStore | ObjectStore:
    """Return the store at an address, whose client waits for `seconds`; raises RemoteFault if there can be none."""
    scheme = address.partition("://")[0].lower()
    if scheme in _REDIS:
        return RedisStore(address, seconds)
    if scheme in _OBJECTS:
        return ObjectStore(address, seconds)
    raise RemoteFault(f"no remote has the scheme {scheme[:20]!r}: write one of {_SCHEMES}")


def shown(address: str) -> str:
    """Return an address without user, password, and the fields behind its path."""
    scheme, mark, rest = address.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}{mark}{place.rpartition('@')[2]}{slash}{path.partition('?')[0]}"


def fault(address: str, error: BaseException) -> str:
    """Return the words for an error of a store: one line, without what is secret in the address."""
    said = " ".join(str(error).partition("\nDebug source:")[0].split()) or "no reason given"
    words = said if isinstance(error, CacheFault) else f"{type(error).__name__}: {said}"
    parts = urlsplit(address)
    secrets = [address, parts.query, *parts.netloc.rpartition("@")[0].partition(":")[::2]]
    for text in filter(None, (*secrets, *map(unquote, secrets))):
        words = words.replace(text, shown(address) if text == address else "***")
    cures = [f"; {cure}" for words_of, cure in _CURES if any(one in words for one in words_of)]
    return f"{words[:300]}{''.join(cures[:1])}"


class RedisStore:
    """Packs as values of a Redis or Valkey server."""

    def __init__(self, address: str, seconds: float) -> None:
        redis, backoff, retry = map(client, ("redis", "redis.backoff", "redis.retry"))
        # sent on connection
        named = ("driver_info",) if hasattr(redis, "DriverInfo") else ("lib_name", "lib_version")
        self._client = redis.Redis.from_url(
            address.replace("valkey", "redis", 1) if address.startswith("valkey") else address,
            protocol=2,  # the third one begins with a round trip of its own
            **dict.fromkeys(named),
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            retry=retry.Retry(backoff.NoBackoff(), 0),
        )

    def get(self, name: str) -> bytes | None:
        # the server sends no more, and nothing for no value
        found: bytes = self._client.getrange(_PREFIX + name, 0, LIMIT)
        return bounded(found) or None

    def put(self, name: str, blob: bytes) -> None:
        self._client.set(_PREFIX + name, blob)


class ObjectStore:
    """Packs as objects of a bucket, of a web server that takes PUT, or as files below a directory."""

    def __init__(self, address: str, seconds: float) -> None:
        wait = f"{max(1, round(seconds * 1000))}ms"
        options = {"timeout": wait, "connect_timeout": wait}
        if not address.startswith("https:"):  # the endpoint of a bucket is its user's choice
            options["allow_http"] = "true"
        self._client = client("obstore")
        self._store = client("obstore.store").from_url(
            address, client_options=options, retry_config={"max_retries": 0}
        )

    def get(self, name: str) -> bytes | None:
        try:
            found = self._client.get(self._store, name)
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise
            return None
        blob = bytearray()
        for piece in found.stream():
            blob += piece
            if len(blob) > LIMIT:
                break
        return bounded(blob)

    def put(self, name: str, blob: bytes) -> None:
        self._client.put(self._store, name, blob, use_multipart=False)


def client(module: str) -> Any:
    """Return a module of a package that need not be installed; raises RemoteFault."""
    try:
        return import_module(module)
    except ImportError as error:
        words = f"this remote needs a package: pip install {module.partition('.')[0]} ({error})"
        raise RemoteFault(words) from error


def bounded(blob: bytes | bytearray) -> bytes:
    """Return the bytes of a pack; raises RemoteFault above the limit."""
    if len(blob) > LIMIT:
        raise RemoteFault(f"the pack is above the limit of {LIMIT} bytes")
    return bytes(blob)
