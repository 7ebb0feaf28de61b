"""The seal of a pack: one signature over its name and its content, so none can be changed or exchanged.

    pack      = magic signature second SP project LF order NUL bundle
    magic     = "kclpack2"
    signature = 64 bytes, ed25519, over magic, name and the SHA-256 of what follows; zeros if nobody signed
    second    = when it was signed, in seconds since 1970 UTC
    project   = the name of the project, for listings alone
    order     = the names of the kernels, those used longest ago first, with a line feed between
    bundle    = as in `kcl.bundle.format`

A key is known by a line `NAME:base64`, its public half. Its secret half is a file beside the settings file.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import re
import struct
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from kcl.base import settings
from kcl.base.settings import trust
from kcl.cache.stores.directory import publish
from kcl.errors import DamagedEntry
from kcl.remote.stores import RemoteFault, client

UNSIGNED = "unsigned"
TRUSTED = "trusted"  # a folder beside the settings file: the keys that `kcl key trust` wrote
FORGOTTEN = "forgotten"  # beside it: those that `kcl key forget` took away, for their names
_MAGIC = b"kclpack2"
_START = struct.Struct("<8s64s")
_LONGEST = 300  # bytes of second and project
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

    Raises OSError, and CacheFault for a line that is no key, or if others can write the keys.
    """
    return [*map(key_of, settings.read().trusted_keys), *_kept(TRUSTED)]


def forgotten() -> list[PublicKey]:
    """Return the keys that are trusted no longer, by name. Raises as `trusted`."""
    return _kept(FORGOTTEN)


def forget(name: str) -> None:
    """Trust a key of `kcl key trust` no longer; raises OSError."""
    _write(path_of(name, FORGOTTEN), content(path_of(name, TRUSTED))[0].strip())
    os.unlink(path_of(name, TRUSTED))


def trust_key(key: PublicKey) -> None:
    """Trust a key from now on; raises OSError, and RemoteFault if another key has its name."""
    if any(other.name == key.name and other != key for other in trusted()):
        raise RemoteFault(f"another key is trusted as {key.name}: kcl key forget {key.name}")
    _write(path_of(key.name, TRUSTED), key.line.encode())


def path_of(name: str, folder: str = "keys") -> str:
    """Return the file of a secret half, or of a trusted key; raises RemoteFault for a name that cannot be one."""
    if not _NAME.fullmatch(name):
        raise RemoteFault(f"{name[:80]!r} cannot name a key: use letters, digits and . _ @ -")
    return os.path.join(os.path.dirname(settings.settings_file()), folder, name)


def new(name: str) -> PublicKey:
    """Make a key and keep its secret half; raises RemoteFault if there is one of that name."""
    secret, path = _ed25519().Ed25519PrivateKey.generate().private_bytes_raw(), path_of(name)
    # A link that leads nowhere is there, too.
    if os.path.lexists(path):
        raise RemoteFault(f"there is a key {name} in {path}: choose another name")
    _write(path, base64.b64encode(secret))
    return halves(name)[0]


def signing(secret: str = "") -> tuple[PublicKey, Any] | None:
    """Return both halves of the key that signs: that of a `secret` half, else the one that `signing_key` names.

    Without that name it is the only key; None without one.
    """
    if secret:
        try:
            return _halves("key", secret.encode())
        except ValueError as error:
            raise RemoteFault(
                "this is no secret half of a key: write its file to the pipe"
            ) from error
    chosen = settings.read().signing_key
    names = [chosen] if chosen else _names("keys")
    if len(names) > 1:
        raise RemoteFault(
            f"there are several keys, {', '.join(names)}: name one as signing_key in the settings file"
        )
    return halves(names[0]) if names else None


def halves(name: str) -> tuple[PublicKey, Any]:
    """Return both halves of the key of a name; raises RemoteFault without a file that is this user's alone."""
    path = path_of(name)
    try:
        if os.stat(path).st_mode & 0o077:
            raise PermissionError(f"others can read it: chmod 600 {path}")
        return _halves(name, content(path)[0])
    except (OSError, ValueError) as error:
        raise RemoteFault(
            f"the key {name} cannot be read: {error}; make one with `kcl key new`"
        ) from error


def _halves(name: str, secret: bytes) -> tuple[PublicKey, Any]:
    private = _ed25519().Ed25519PrivateKey.from_private_bytes(base64.b64decode(secret))
    return PublicKey(name, private.public_key().public_bytes_raw()), private


def seal(name: str, private: Any, order: Iterable[str], bundle: bytes, project: str = "") -> bytes:
    """Return a bundle, with its kernels in order, signed with the secret half of a key, or unsigned with None."""
    head = f"{int(time.time())} {' '.join(project.split())}"
    rest = b"\0".join(("\n".join([head, *order]).encode("utf-8", "replace"), bundle))
    signature = bytes(64) if private is None else private.sign(_signed(name, rest))
    return _START.pack(_MAGIC, signature) + rest


def unseal(name: str, blob: bytes, key: PublicKey | None) -> tuple[float, list[str], bytes]:
    """Return the second, the order of the kernels and the bundle of a pack that `key` has signed for this name.

    With None nobody need have signed it. Raises DamagedEntry.
    """
    if blob[: len(_MAGIC)] != _MAGIC or len(blob) < _START.size:
        raise DamagedEntry(
            f"it is no pack of kcl: {len(blob)} bytes that start with {blob[: len(_MAGIC)]!r}"
        )
    signature, rest = blob[len(_MAGIC) : _START.size], blob[_START.size :]
    if key is not None:
        try:
            _ed25519().Ed25519PublicKey.from_public_bytes(key.public).verify(
                signature, _signed(name, rest)
            )
        except client("cryptography.exceptions").InvalidSignature:
            raise DamagedEntry(
                f"it is not signed by {key.name}, or was signed for another name"
            ) from None
    # The content of a pack is read only after its signature is verified.
    head, _, bundle = rest.partition(b"\0")
    order = head.decode("utf-8", "replace").split("\n")[1:]
    return said(blob)[0], order, bundle


def said(start: bytes) -> tuple[float, str]:
    """Return when a pack was signed, and its project, as the start of its bytes says: no signature is checked."""
    head = start[_START.size :].partition(b"\n")[0].partition(b"\0")[0]
    second, _, project = head[:_LONGEST].decode("utf-8", "replace").partition(" ")
    is_second = second.isascii() and second.isdecimal()
    return float(second) if is_second else 0.0, "".join(filter(str.isprintable, project))


def content(path: str, most: int = 1 << 20) -> tuple[bytes, float]:
    """Return the start of a file that only this user, or root, can write, and its time; raises OSError, RemoteFault."""
    try:
        blob, status = trust.content(path, most, frozenset({0}))
    except PermissionError as error:
        if error.errno != errno.EPERM:
            raise
        raise RemoteFault(f"{path}: {error.strerror}") from error
    return blob, status.st_mtime


def _signed(name: str, rest: bytes) -> bytes:
    return b"\n".join((_MAGIC, name.encode(), hashlib.sha256(rest).digest()))


def _kept(folder: str) -> list[PublicKey]:
    lines = (
        # A byte that is no ASCII makes a line that is no key.
        content(path_of(name, folder))[0].decode("ascii", "replace")
        for name in _names(folder)
    )
    return [*map(key_of, lines)]


def _names(folder: str) -> list[str]:
    place = os.path.dirname(path_of("x", folder))
    with suppress(FileNotFoundError):
        trust.check_folder(place)
        return sorted(filter(_NAME.fullmatch, os.listdir(place)))
    return []


def _write(path: str, text: bytes) -> None:
    trust.make_directory(os.path.dirname(path))
    trust.check_folder(os.path.dirname(path))
    publish(path, text + b"\n")


def _ed25519() -> Any:
    return client("cryptography.hazmat.primitives.asymmetric.ed25519")
