"""Notes: the findings of one walk and its place: parts of a key, libraries, front ends, reasons against the key."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn

from kcl.cache.key import Part
from kcl.errors import UnknownInput
from kcl.record.callables import distributions, unkeyable
from kcl.record.callables.distributions import DISTRIBUTION, KCL, USER, Owner
from kcl.record.callables.plain import label_of
from kcl.record.callables.references import Reference


class Notes:
    """The notes of one walk; ``excused`` tells whether a declaration cures a reason against the key."""

    def __init__(self, name: str, excused: Callable[[str], bool] | None = None) -> None:
        self.excused = excused
        self.parts: list[Part] = []
        self.front_ends: set[str] = set()
        self.reached: set[str] = set()  # distributions
        self.mentions: set[str] = set()
        self.noted: set[str] = set()  # dotted names in libraries
        self.labels: dict[str, int] = {}
        self.owners: dict[str, Owner] = {}
        self.place: tuple[str, Reference | None] = (name, None)  # the function that is followed, and its reference
        self.located = False  # a reason was raised with its place

    def add(self, name: str, value: str) -> None:
        self.parts.append(Part(name, value))

    def unique(self, name: str) -> str:
        """Return the name, with a number for the second and later things that bear it."""
        name = label_of(name)
        count = self.labels[name] = self.labels.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def where(self) -> str:
        """Name the function and, if it is known, the line that the walk has come to."""
        label, reference = self.place
        line = reference.line if reference is not None else None
        if reference is None or line is None:
            return label
        return f"{label} ({os.path.basename(reference.code.co_filename)}:{line})"

    def refuse(self, reason: str) -> None:
        """Raise UnknownInput, unless a declaration cures the reason."""
        if self.excused is None or not self.excused(reason):
            self.fail(reason)

    def fail(self, reason: str) -> NoReturn:
        """Raise UnknownInput with the place that the walk has come to."""
        self.located = True
        raise UnknownInput(f"{self.where()}: {reason}")

    def judge(self, dotted: str) -> None:
        """Refuse a library's name with a result that no key can hold."""
        reason = unkeyable.verdict(dotted)
        if reason is not None:
            self.refuse(reason)

    def owner(self, module: str) -> Owner:
        """Return the owner of a module; it stays the same for the whole walk."""
        whose = self.owners.get(module)
        if whose is None:
            whose = self.owners[module] = distributions.owner(module)
        return whose

    def library(self, module: str, attributes: tuple[str, ...], whose: Owner) -> str:
        """Take note of an object of a library or of kcl; return its name."""
        dotted = ".".join((module, *attributes))
        if dotted in self.noted or whose.kind == USER:
            return dotted
        if whose.kind == KCL:
            if "Source" in attributes:
                self.front_ends.add("opencl")
            return f"kcl.{attributes[0]}" if attributes else "kcl"
        self.judge(dotted)
        if whose.kind == DISTRIBUTION:
            self.reached.add(whose.name)
            if whose.name == "loopy":
                self.front_ends.add("loopy")
        self.noted.add(dotted)
        return dotted
