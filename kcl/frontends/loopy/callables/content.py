"""The content of a value in a key: its exact text, and key parts for the code that it refers to."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from kcl.cache.key import Key, Part
from kcl.code import structures
from kcl.errors import UnknownInput
from kcl.frontends.loopy.callables.encoder import Encoder


class Content(NamedTuple):
    """The content of a value at one moment: its text, key parts for the code it refers to, and a digest of both."""

    text: str
    parts: tuple[Part, ...]
    digest: str
    # True if the value contains a dtype with fields.
    structured: bool = False

    def exact(self) -> str:
        """Return the text, and a digest of the code that the value refers to, if any."""
        return f"{self.text} with {self.digest}" if self.parts else self.text


def content(value: Any, called: bool = False) -> Content:
    """Return the present content of a value; raise UnknownInput, with the reason, if no key can describe it.

    With `called` code of a package gets the value and may call any of its methods, so all of them count.
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
        # Raised by code of the program, or because another thread changed the value meanwhile.
        raise UnknownInput(
            f"a value cannot be compared: {type(error).__name__}: {error}"
        ) from error
    parts = tuple([Part(*pair) for pair in sorted(encoder.parts.items())])
    return Content(text, parts, Key([Part("text", text), *parts]).digest, encoder.structured)


def content_key(unit: Any) -> str:
    """Return a digest (SHA-256, hex) of everything that decides a unit's code; raise UnknownInput with the reason.

    It is the same in every process, and reads the unit anew in each call. loopy's own digest would not do: it has only the
    names of functions, leaves out preamble generators, manglers, fields of structures and attributes of targets, and is
    stored on objects that can change.
    """
    return unit_key(of_unit(unit))


def of_unit(unit: Any) -> Content:
    """Return the present content of a unit; raise UnknownInput with the reason."""
    # In a tuple, since a unit alone would be encoded as a callable.
    return content((unit,))


def unit_key(unit: Content) -> str:
    """Return the `content_key` of a unit with this content.

    It includes the structures registered with pyopencl if the unit has a dtype with fields, or code that may look one up.
    """
    digests = [unit.digest]
    if unit.structured or unit.parts:
        digests.append(content(sorted(structures(), key=lambda pair: pair[0])).digest)
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()
