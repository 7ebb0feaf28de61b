"""Keys: an ordered list of named facts that decide the outcome of one step, such as generating code.

The encoding of a key, the input of its digest:

    key    = count part*
    part   = text text              name, then value
    text   = length byte*           that many bytes of UTF-8 (lone surrogates as "surrogatepass" has them)
    count  = length = u32           little-endian

Every text carries its length, so that no two keys share an encoding: ("ab", "c") is not ("a", "bc").
"""

from __future__ import annotations

import functools
import hashlib
import reprlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kcl.cache.phrases import Difference

_WORD = 4  # bytes of a count or a length
# The beginning of the name of a part that only says where the thing named by the rest comes from.
PLACE = "place of "


class Part(NamedTuple):
    """One named fact in a key. Its value is a readable text, or the hex digest of something longer.

    Made where a key is put together; ends in the key.
    """

    name: str
    value: str


class Key:
    """An ordered list of named parts with one digest; equal when all parts are equal, in order.

    Treat a key as immutable: the digest is computed once. Names may occur more than once.
    """

    __slots__ = ("_digest", "parts")

    parts: tuple[Part, ...]

    def __init__(self, parts: Iterable[Part | tuple[str, str]]) -> None:
        self.parts = tuple([part if type(part) is Part else Part._make(part) for part in parts])
        self._digest: str | None = None

    def encode(self) -> bytes:
        """Encode the key by the grammar above; raise `TypeError` for a name or value that is no text."""
        return b"".join([len(self.parts).to_bytes(_WORD, "little"), *map(_encode_part, self.parts)])

    @property
    def digest(self) -> str:
        """The SHA-256 of the encoding, in hex."""
        if self._digest is None:
            self._digest = hashlib.sha256(self.encode()).hexdigest()
        return self._digest

    def diff(self, other: Key) -> list[Difference]:
        """List the differences from this key to the other; empty only for equal keys.

        Parts are matched by name; the first part of a repeated name is matched with the first, the second with the second.
        Parts of this key come first, in its order, then those that only the other key has. Keys that differ only in the
        order of their parts differ in "(order)".
        """
        from kcl.cache import phrases

        return phrases.between(self.parts, other.parts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Key):
            return NotImplemented
        return self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def __repr__(self) -> str:
        shown = ", ".join(f"{part.name}={reprlib.repr(part.value)}" for part in self.parts)
        return f"<Key {self.digest[:12]}: {shown}>"


# Cached, since most parts are the same in all keys of a process: those of the code generators and of the device.
@functools.lru_cache(maxsize=256)
def _encode_part(part: Part) -> bytes:
    for text in part:
        if not isinstance(text, str):
            raise TypeError(f"a key holds texts only, not {type(text).__name__}: {text!r}")
    name, value = part[0].encode("utf-8", "surrogatepass"), part[1].encode("utf-8", "surrogatepass")
    return b"".join(
        (len(name).to_bytes(_WORD, "little"), name, len(value).to_bytes(_WORD, "little"), value)
    )
