"""What a value counts by: its text, and the parts of the code that it leads to."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from kcl.cache.key import Key, Part
from kcl.code import structures
from kcl.errors import UnknownInput
from kcl.frontends.loopy.callables.encoder import Encoder


class Content(NamedTuple):
    """A value as it is now: its text, the parts that its code leads to, and the digest of both."""

    text: str
    parts: tuple[Part, ...]
    digest: str
    # True if a dtype in it is a structure.
    structured: bool = False

    def exact(self) -> str:
        """Return the text, with the digest of the code that the value leads to."""
        return f"{self.text} with {self.digest}" if self.parts else self.text


def content(value: Any, called: bool = False) -> Content:
    """Return what a value counts by at this moment; raise UnknownInput, with the reason, if no key can hold it.

    The value is `called` if code of a package gets it: that may call any method of it.
    """
    encoder = Encoder()
    encoder.called = called
    try:
        text = encoder.encode(value)
    except UnknownInput:
        raise
    except RecursionError:
        raise UnknownInput("a value is nested too deeply to be compared") from None
    except Exception as error:
        # Code of the program raised it, or another thread changed the value meanwhile.
        raise UnknownInput(
            f"a value cannot be compared: {type(error).__name__}: {error}"
        ) from error
    parts = tuple([Part(*pair) for pair in sorted(encoder.parts.items())])
    return Content(text, parts, Key([Part("text", text), *parts]).digest, encoder.structured)


def content_key(unit: Any) -> str:
    """Return the SHA-256 of all that decides the code of a unit, in hex; raise UnknownInput with the reason.

    loopy's own digest names functions instead of reading their content. It leaves out preamble generators, manglers,
    fields of structures and attributes of targets. It is kept on objects that can change. This one is the same in every
    process, and each call reads the unit again.
    """
    return unit_key(of_unit(unit))


def of_unit(unit: Any) -> Content:
    """Return what a unit counts by at this moment; raise UnknownInput with the reason."""
    # In a tuple: a unit alone is a callable, whose class loopy would run.
    return content((unit,))


def unit_key(unit: Content) -> str:
    """Return the `content_key` of a unit with this content.

    It covers the structures that are registered with pyopencl, if a callable, or a dtype of the unit, may ask for one.
    """
    digests = [unit.digest]
    if unit.structured or unit.parts:
        digests.append(content(sorted(structures(), key=lambda pair: pair[0])).digest)
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()
