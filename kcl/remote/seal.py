"""Signatures of packs and the keys for them. A signature covers name and content, so neither can be changed.

    name      = digest "/" id of the key that signs, or "unsigned"
    digest    = SHA-256 over the project's name, kcl, Python and the distributions that generate and build
    pack      = magic signature second SP project LF bundle
    magic     = "kclpack3"
    signature = 64 bytes, ed25519, over magic, name and the SHA-256 of what follows; zeros if nobody signed
    second    = when it was signed, in seconds since 1970 UTC
    project   = the name of the project, for listings alone
    bundle    = as in `kcl.bundle.format`; its entries stand in the order of their last use

The name has no device in it, because the key of the code is looked up before a device is known: a pack has the entries of
all devices from which was pushed. A wrong name costs only time, since each entry in a pack is found by its own key.

The public half of a key is written as `NAME:base64`. The secret half is a file in a folder beside the settings file.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import struct
import sys
import time
from contextlib import suppress
from typing import Any, NamedTuple

import kcl
from kcl.base import settings
from kcl.base.settings import trust
from kcl.cache.stores.directory import publish
from kcl.errors import DamagedEntry
from kcl.remote.stores import HEAD, RemoteFault, client

# Folders beside the settings file: for secret halves, for keys that `kcl key trust` wrote, and for those that
# `kcl key forget` removed, whose names are still shown.
SECRET, TRUSTED, FORGOTTEN = "keys", "trusted", "forgotten"
_MAGIC = b"kclpack3"
_START = struct.Struct("<8s64s")
_LARGE = 1 << 20  # bytes of a file with a key
_DISTRIBUTIONS = ("islpy", "loopy", "numpy", "pymbolic", "pyopencl", "pytools")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]{0,59}")


class PublicKey(NamedTuple):
    """The public half of a key, with the name that its owner gave it."""

    name: str
    public: bytes

    @property
    def line(self) -> str:
        """The key as it is written in settings files, `NAME:base64`."""
        return f"{self.name}:{base64.b64encode(self.public).decode()}"

    @property
    def id(self) -> str:
        """The digits that stand for the key in names of packs."""
        return hashlib.sha256(self.public).hexdigest()[:16] if self.public else self.name


UNSIGNED = PublicKey("unsigned", b"")  # in place of a key, for packs without a signature


def project_digest(project: str) -> str:
    """Return the first part of the names of a project's packs, a digest of the project and of versions."""
    from importlib import metadata

    python = f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:2]))}"
    parts = [project, kcl.__version__, python]
    for name in _DISTRIBUTIONS:
        with suppress(metadata.PackageNotFoundError):
            parts.append(f"{name} {metadata.version(name)}")
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def pack_name(project: str, key: PublicKey) -> str:
    """Return the name of the pack that a key has signed."""
    return f"{project_digest(project)}/{key.id}"


def key_of(line: str) -> PublicKey:
    """Return the key that a line names; raises RemoteFault."""
    name, _, text = line.strip().partition(":")
    with suppress(ValueError):
        public = base64.b64decode(text, validate=True)
        if len(public) == 32 and _NAME.fullmatch(name):
            return PublicKey(name, public)
    raise RemoteFault(
        f"{line.strip()[:80]!r} is no key: write NAME:base64, as `kcl key new` prints it"
    )


def trusted() -> list[PublicKey]:
    """Return the trusted keys: those of the settings files, then those of `kcl key trust` by name.

    Raises RemoteFault for a line that is no key, OSError and CacheFault if others can write the keys.
    """
    return [*map(key_of, settings.read().trusted_keys), *_read_keys(TRUSTED)]


def believed(address: str) -> list[PublicKey]:
    """Return the keys whose packs are loaded from a remote, and UNSIGNED if that remote needs no signature.

    Raises RemoteFault if no pack of this remote is believed, and as `trusted`.
    """
    keys = [*trusted(), *([UNSIGNED] if is_unsigned(address) else [])]
    if not keys:
        cure = "trust a key with `kcl key trust LINE`, or list the address as remote_unsigned in the settings file"
        raise RemoteFault(f"no key is trusted: {cure}")
    return keys


def is_unsigned(address: str) -> bool:
    """Return True if the settings files list this very address as one whose packs need no signature."""
    return address in settings.read().remote_unsigned


def forgotten() -> list[PublicKey]:
    """Return the keys that are trusted no longer, by name. Raises as `trusted`."""
    return _read_keys(FORGOTTEN)


def known_names() -> dict[str, str]:
    """Return the names of trusted and forgotten keys: id -> name. Raises as `trusted` does."""
    return {key.id: key.name for key in (*forgotten(), *trusted())}


def forget(name: str) -> None:
    """Trust a key of `kcl key trust` no longer; raises OSError."""
    trust.make_directory(_folder(FORGOTTEN))
    os.replace(path_of(name, TRUSTED), path_of(name, FORGOTTEN))


def trust_key(key: PublicKey) -> None:
    """Trust a key from now on; raises OSError, and RemoteFault if another key has its name."""
    if any(other.name == key.name and other != key for other in trusted()):
        raise RemoteFault(f"another key is trusted as {key.name}: kcl key forget {key.name}")
    _write(path_of(key.name, TRUSTED), key.line)


def path_of(name: str, folder: str = SECRET) -> str:
    """Return the path of a key's file in one of the folders; raises RemoteFault for an invalid name."""
    if not _NAME.fullmatch(name):
        raise RemoteFault(f"{name[:80]!r} cannot name a key: use letters, digits and . _ @ -")
    return os.path.join(_folder(folder), name)


def new(name: str) -> PublicKey:
    """Make a key and write its secret half to a file; raises RemoteFault if a key has that name already."""
    secret, path = _ed25519().Ed25519PrivateKey.generate().private_bytes_raw(), path_of(name)
    # `lexists`, so that a link to a missing file counts as existing.
    if os.path.lexists(path):
        raise RemoteFault(f"there is a key {name} in {path}: choose another name")
    _write(path, base64.b64encode(secret).decode())
    return _halves(name, _read(path))[0]


def signing(secret: str = "") -> tuple[PublicKey, Any] | None:
    """Return the key that signs, as (public half, private key object); None if there is no key.

    It is the key of the `secret` half, else the one that the setting `signing_key` names, else the only key. Raises
    RemoteFault if there are several keys, and for a file that others can read.
    """
    chosen = settings.read().signing_key
    names = ["from --key"] if secret else [chosen] if chosen else _names(SECRET)
    if len(names) > 1:
        raise RemoteFault(
            f"there are several keys, {', '.join(names)}: name one as signing_key in the settings file"
        )
    for name in names:
        try:
            return _halves(name, secret or _secret(path_of(name)))
        except (OSError, ValueError) as error:
            words = f"the key {name} cannot be read: {error}; make one with `kcl key new`"
            raise RemoteFault(words) from error
    return None


def seal(name: str, private: Any, bundle: bytes, project: str = "") -> bytes:
    """Return a bundle, signed with the secret half of a key, or unsigned with None."""
    head = f"{int(time.time())} {' '.join(project.split())}\n"
    rest = head.encode("utf-8", "replace") + bundle
    signature = bytes(64) if private is None else private.sign(_signed_bytes(name, rest))
    return _START.pack(_MAGIC, signature) + rest


def unseal(name: str, blob: bytes, key: PublicKey) -> tuple[float, bytes]:
    """Return the time and the bundle of a pack; raises DamagedEntry unless `key` has signed it for this name."""
    if blob[: len(_MAGIC)] != _MAGIC or len(blob) < _START.size:
        raise DamagedEntry(
            f"it is no pack of kcl: {len(blob)} bytes that start with {blob[: len(_MAGIC)]!r}"
        )
    signature, rest = blob[len(_MAGIC) : _START.size], blob[_START.size :]
    if key != UNSIGNED:
        try:
            _ed25519().Ed25519PublicKey.from_public_bytes(key.public).verify(
                signature, _signed_bytes(name, rest)
            )
        except client("cryptography.exceptions").InvalidSignature:
            raise DamagedEntry(
                f"it is not signed by {key.name}, or was signed for another name"
            ) from None
    # The content of a pack is read only after its signature is verified.
    return read_head(blob)[0], rest.partition(b"\n")[2]


def read_head(start: bytes) -> tuple[float, str]:
    """Return the time and the project that the first bytes of a pack name; the signature is not checked."""
    head = start[_START.size : HEAD].partition(b"\n")[0]
    second, _, project = head.decode("utf-8", "replace").partition(" ")
    is_second = second.isascii() and second.isdecimal()
    return float(second) if is_second else 0.0, "".join(filter(str.isprintable, project))


def _signed_bytes(name: str, rest: bytes) -> bytes:
    return b"\n".join((_MAGIC, name.encode(), hashlib.sha256(rest).digest()))


def _halves(name: str, secret: str) -> tuple[PublicKey, Any]:
    private = _ed25519().Ed25519PrivateKey.from_private_bytes(base64.b64decode(secret))
    return PublicKey(name, private.public_key().public_bytes_raw()), private


def _secret(path: str) -> str:
    if os.stat(path).st_mode & 0o077:
        raise PermissionError(f"others can read it: chmod 600 {path}")
    return _read(path)


def _folder(name: str) -> str:
    return os.path.join(os.path.dirname(settings.settings_file()), name)


def _read_keys(folder: str) -> list[PublicKey]:
    return [key_of(_read(path_of(name, folder))) for name in _names(folder)]


def _names(folder: str) -> list[str]:
    """Return the names of the keys in a folder that nobody else can write."""
    with suppress(FileNotFoundError):
        trust.check_folder(_folder(folder))
        return sorted(filter(_NAME.fullmatch, os.listdir(_folder(folder))))
    return []


def _read(path: str) -> str:
    """Return the text of a file; raises OSError, also if others than this user and root can write it."""
    # A byte that is not ASCII becomes a character that no key has.
    return trust.read(path, _LARGE, frozenset({0}))[0].decode("ascii", "replace")


def _write(path: str, line: str) -> None:
    trust.make_directory(os.path.dirname(path))
    trust.check_folder(os.path.dirname(path))
    publish(path, f"{line}\n".encode())


def _ed25519() -> Any:
    return client("cryptography.hazmat.primitives.asymmetric.ed25519")
