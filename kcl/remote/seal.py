"""The seal of a pack: one signature over its name and its content, so none can be changed or exchanged.

    pack      = magic signature order_size order bundle
    magic     = "kclpack1"
    signature = 64 bytes, ed25519, over magic, name and the SHA-256 of what follows; zeros if nobody signed
    order     = JSON: the time of the last push of each kernel; its size is u32, little-endian
    bundle    = as in `kcl.bundle.format`

A key is known by a line `NAME:base64`, its public half. Its secret half is a file beside the settings file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import struct
from typing import Any, NamedTuple

from kcl.base import settings
from kcl.base.settings import trust
from kcl.cache.stores.directory import publish
from kcl.errors import DamagedEntry
from kcl.remote.stores import RemoteFault, client

UNSIGNED = "unsigned"
TRUSTED = "trusted"  # a folder beside the settings file: the keys that `kcl key trust` wrote
_MAGIC = b"kclpack1"
_START = struct.Struct("<8s64s")
_SIZE = struct.Struct("<I")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]{0,59}")


class PublicKey(NamedTuple):
    """The public half of a key, with the name that its owner gave it."""

    name: str
    public: bytes

    @property
    def line(self) -> str:
        """The key as one word, for settings files."""
        return f"{self.name}:{base64.b64encode(self.public).decode()}"

    @property
    def id(self) -> str:
        """The key in names of packs."""
        return hashlib.sha256(self.public).hexdigest()[:16]


class Pack(NamedTuple):
    """The content of a pack: a bundle, and when each kernel was pushed last, in seconds since the epoch."""

    bundle: bytes
    order: dict[str, float]


def key_of(line: str) -> PublicKey:
    """Return the key that a line names; raises RemoteFault."""
    name, _, text = line.strip().partition(":")
    try:
        public = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        public = b""
    if len(public) != 32 or not _NAME.fullmatch(name):
        raise RemoteFault(f"{line.strip()[:80]!r} is no key: write NAME:base64, as `kcl key new` prints it")
    return PublicKey(name, public)


def trusted() -> list[PublicKey]:
    """Return the trusted keys: those of the settings files, then those of `kcl key trust` by name.

    Raises OSError, and CacheFault for a line that is no key, or if others can write the keys.
    """
    folder = os.path.dirname(path_of("x", TRUSTED))
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [key_of(line) for line in (*settings.read().trusted_keys, *(_text(path_of(one, TRUSTED)) for one in names))]


def trust_key(key: PublicKey) -> None:
    """Trust a key from now on; raises OSError, and RemoteFault if another key has its name."""
    if any(one.name == key.name and one != key for one in trusted()):
        raise RemoteFault(f"another key is trusted as {key.name}: kcl key forget {key.name}")
    _write(path_of(key.name, TRUSTED), key.line.encode())


def path_of(name: str, folder: str = "keys") -> str:
    """Return the file of a secret half, or of a trusted key; raises RemoteFault for a name that cannot be one."""
    if not _NAME.fullmatch(name):
        raise RemoteFault(f"{name[:80]!r} cannot name a key: use letters, digits and . _ @ -")
    return os.path.join(os.path.dirname(settings.settings_file()), folder, name)


def new(name: str) -> PublicKey:
    """Make a key and keep its secret half; raises RemoteFault if there is one of that name."""
    private = _ed25519().Ed25519PrivateKey.generate()
    path = path_of(name)
    if os.path.lexists(path):
        raise RemoteFault(f"there is a key {name} in {path}: choose another name")
    _write(path, base64.b64encode(private.private_bytes_raw()))
    return PublicKey(name, private.public_key().public_bytes_raw())


def signing() -> tuple[PublicKey, Any] | None:
    """Return both halves of the key that signs: the only one, or that which `signing_key` names; None without one."""
    name, folder = settings.read().signing_key, os.path.dirname(path_of("x"))
    listed = os.listdir(folder) if os.path.isdir(folder) else []
    names = [name] if name else sorted(filter(_NAME.fullmatch, listed))
    if len(names) > 1:
        raise RemoteFault(f"there are several keys, {', '.join(names)}: name one as signing_key in the settings file")
    return halves(names[0]) if names else None


def seal(name: str, pack: Pack, private: Any) -> bytes:
    """Return the pack as bytes, signed with the secret half of a key, or unsigned with None."""
    order = json.dumps(pack.order, sort_keys=True).encode()
    rest = b"".join((_SIZE.pack(len(order)), order, pack.bundle))
    signature = bytes(64) if private is None else private.sign(_signed(name, rest))
    return _START.pack(_MAGIC, signature) + rest


def unseal(name: str, blob: bytes, key: PublicKey | None) -> Pack:
    """Return a pack that `key` has signed for this name, or that nobody need have signed; else raise DamagedEntry."""
    if blob[: len(_MAGIC)] != _MAGIC or len(blob) < _START.size + _SIZE.size:
        raise DamagedEntry(f"it is no pack of kcl: {len(blob)} bytes that start with {blob[: len(_MAGIC)]!r}")
    signature, rest = blob[len(_MAGIC) : _START.size], blob[_START.size :]
    if key is not None and not _is_signed(key, signature, _signed(name, rest)):
        raise DamagedEntry(f"it is not signed by {key.name}, or was signed for another name")
    (size,) = _SIZE.unpack_from(rest)
    try:
        order = json.loads(rest[_SIZE.size : _SIZE.size + size])
        return Pack(rest[_SIZE.size + size :], {str(kernel): float(pushed) for kernel, pushed in order.items()})
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedEntry(f"the order of its kernels cannot be read: {error}") from error


def _signed(name: str, rest: bytes) -> bytes:
    return b"\n".join((_MAGIC, name.encode(), hashlib.sha256(rest).digest()))


def _is_signed(key: PublicKey, signature: bytes, signed: bytes) -> bool:
    try:
        _ed25519().Ed25519PublicKey.from_public_bytes(key.public).verify(signature, signed)
    except client("cryptography.exceptions", "cryptography").InvalidSignature:
        return False
    return True


def halves(name: str) -> tuple[PublicKey, Any]:
    """Return both halves of the key of a name; raises RemoteFault without a file that is this user's alone."""
    path = path_of(name)
    try:
        if os.stat(path).st_mode & 0o077:
            raise PermissionError(f"others can read it: chmod 600 {path}")
        secret = base64.b64decode(_text(path))
    except (OSError, ValueError) as error:
        raise RemoteFault(f"the key {name} cannot be read: {error}; make one with `kcl key new`") from error
    if len(secret) != 32:
        raise RemoteFault(f"{path} is no key: make a new one")
    private = _ed25519().Ed25519PrivateKey.from_private_bytes(secret)
    return PublicKey(name, private.public_key().public_bytes_raw()), private


def _text(path: str) -> str:
    """Return the content of a file that only this user, or root, can write; raises OSError, CacheFault."""
    trust.check_folder(os.path.dirname(path))
    with open(os.open(path, trust.READ), "rb") as stream:
        fault = trust.file_fault(os.fstat(stream.fileno()), frozenset({0}))
        if fault is not None:
            raise RemoteFault(f"{path}: {fault}")
        return stream.read(1000).decode("ascii", "replace")


def _write(path: str, text: bytes) -> None:
    trust.make_directory(os.path.dirname(path))
    trust.check_folder(os.path.dirname(path))
    publish(path, text + b"\n")


def _ed25519() -> Any:
    return client("cryptography.hazmat.primitives.asymmetric.ed25519", "cryptography")
