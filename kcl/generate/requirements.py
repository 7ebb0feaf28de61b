"""Reads what installed distributions require, and so finds the modules that may pass code to loopy.

It is asked when a recipe runs, and when a module is imported that belongs neither to Python nor to a generator.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from kcl.base import process
from kcl.generate import GENERATORS, distributions, files
from kcl.generate.distributions import GRAPHS, HARMLESS, KCL, normalised

# A distribution that requires one of these may pass code to loopy.
_CLIENTS = frozenset({"loopy", "pymbolic", KCL})
_required = re.compile(rb"^Requires-Dist:\s*([\w.-]+)", re.MULTILINE).findall


class RequirementMemos:
    """Memos of the functions of this module."""

    def __init__(self) -> None:
        # The memos of `_named_by`, `all_required` and `required`.
        self.named: dict[str, list[str]] = {}
        self.requirements: dict[str, list[str]] = {}
        self.required: dict[str, str] = {}
        # The memo of `leads`, by top-level module.
        self.leading: dict[str, bool] = {}
        # The distributions of the modules for which `leads` is True, and all that these require.
        self.wanted: set[str] = set()


_state = process.shared(RequirementMemos)


def leads(name: str) -> bool:
    """Return True if a module may pass code to loopy; memoised.

    That is so if its distribution requires loopy, pymbolic or kcl, or is required by one that does. Only for modules for
    which `distributions.is_others` is True.
    """
    state, top = _state(), name.partition(".")[0]
    if top not in state.leading:
        # Finding the owner may ask finders, which call this function again: they get this answer.
        state.leading[top] = False
        mine = distributions.owner(top).name
        if mine and (top in GRAPHS or not _CLIENTS.isdisjoint(_named_by(mine))):
            state.wanted |= {mine, *all_required(mine)}.difference(HARMLESS)
        state.leading[top] = mine in state.wanted
    return state.leading[top]


def required(name: str) -> str:
    """Return a text with the version and the digest of each distribution that a distribution requires, at any depth."""
    text = _state().required.get(name)
    if text is None:
        packages = {package: _record(package) for package in all_required(name)}
        digests = files.digests(packages)
        texts = [
            f"{package} {distributions.version_of(package)} {digests[package][0]}"
            for package in sorted(packages)
        ]
        text = _state().required[name] = "; ".join(texts)
    return text


def all_required(name: str) -> list[str]:
    """List the installed distributions that a distribution requires, at any depth; memoised."""
    others = _state().requirements.get(name)
    if others is None:
        packages = [name]
        # The list grows in the loop.
        for package in packages:
            packages += [other for other in _named_by(package) if other not in packages]
        others = [package for package in packages[1:] if package not in GENERATORS]
        _state().requirements[name] = others
    return others


def _named_by(name: str) -> list[str]:
    """List the installed distributions that the metadata of a distribution names as required, also those of extras."""
    named = _state().named
    if name not in named:
        home, names = distributions.home_of(normalised(name)), list[bytes]()
        if home is not None:
            path = os.path.join(home[0].directory, home[1], "METADATA")
            with suppress(OSError), open(path, "rb") as stream:
                names = _required(stream.read())
        named[name] = [*dict.fromkeys([normalised(os.fsdecode(required)) for required in names])]
    # Checked in each call, since a program may add a directory to `sys.path`.
    return [package for package in named[name] if distributions.home_of(package) is not None]


def _record(name: str) -> files.Roots:
    """Return the roots of an installed distribution: its record, and in an editable install its files."""
    home = distributions.home_of(name)
    assert home is not None
    is_editable = not files.lines(home[0].record(home[1]))
    return (
        (files.RECORD, home[0].path(home[1])),
        *(distributions.roots_of(name) if is_editable else ()),
    )
