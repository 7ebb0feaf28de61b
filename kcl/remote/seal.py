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
from kcl.errors import DamagedEntry
from kcl.remote.stores import RemoteFault, client

UNSIGNED = "unsigned"
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
    """Return the trusted keys of the settings files, in their order; raises RemoteFault for a line that is no key."""
    lines = settings.from_file().get("trusted_keys", "").split(",")
    return [key_of(line) for line in lines if line.strip()]


def path_of(name: str) -> str:
    """Return the file of a secret half; raises RemoteFault for a name that cannot be one."""
    if not _NAME.fullmatch(name):
        raise RemoteFault(f"{name[:80]!r} cannot name a key: use letters, digits and . _ @ -")
    return os.path.join(_folder(), name)


def new(name: str) -> PublicKey:
    """Make a key and keep its secret half; raises RemoteFault if there is one of that name."""
    private = _ed25519().Ed25519PrivateKey.generate()
    path = path_of(name)
    trust.make_directory(os.path.dirname(path))
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | trust.PLAIN, 0o600)
    except FileExistsError:
        raise RemoteFault(f"there is a key {name} in {path}: choose another name") from None
    with open(descriptor, "wb") as stream:
        stream.write(base64.b64encode(private.private_bytes_raw()) + b"\n")
    return PublicKey(name, private.public_key().public_bytes_raw())


def signing() -> tuple[PublicKey, Any] | None:
    """Return both halves of the key that signs: the only one, or that which `signing_key` names; None without one."""
    name = settings.from_file().get("signing_key", "")
    listed = os.listdir(_folder()) if os.path.isdir(_folder()) else []
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
        with open(os.open(path, trust.READ), "rb") as stream:
            status = os.fstat(stream.fileno())
            fault = trust.file_fault(status) or ("others can read it" if status.st_mode & 0o077 else "")
            secret = b"" if fault else base64.b64decode(stream.read(100))
    except (OSError, ValueError) as error:
        raise RemoteFault(f"the key {name} cannot be read: {error}; make one with `kcl key new`") from error
    if fault or len(secret) != 32:
        raise RemoteFault(f"{path} is no key: {fault or 'its content is another'}; chmod 600, or make a new one")
    private = _ed25519().Ed25519PrivateKey.from_private_bytes(secret)
    return PublicKey(name, private.public_key().public_bytes_raw()), private


def _folder() -> str:
    return os.path.join(os.path.dirname(settings.settings_file()), "keys")


def _ed25519() -> Any:
    return client("cryptography.hazmat.primitives.asymmetric.ed25519", "cryptography")
