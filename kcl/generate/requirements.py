"""What installed distributions require by their metadata, and so which modules may hand code to loopy.

A recipe that runs asks, and the import of a module that belongs neither to Python nor to a generator.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress

from kcl.base import process
from kcl.generate import GENERATORS, distributions, files, top_of
from kcl.generate.distributions import GRAPHS, HARMLESS, KCL, normalised

# What requires one of these may hand loopy code.
_CLIENTS = {"loopy", "pymbolic", KCL}
_required = re.compile(rb"^Requires-Dist:\s*([\w.-]+)", re.MULTILINE).findall


class RequirementMemos:
    """Memos about requirements; one function fills each memo."""

    def __init__(self) -> None:
        # What the distribution names as required, what it requires if it is there, and the text of that.
        self.named: dict[str, list[str]] = {}
        self.requirements: dict[str, list[str]] = {}
        self.required: dict[str, str] = {}
        # The answers of `leads` by top-level module.
        self.leading: dict[str, bool] = {}
        # The distributions of the modules that lead, and all that these require.
        self.wanted: set[str] = set()


_state = process.shared(RequirementMemos)


def leads(name: str) -> bool:
    """Return True if code of a module may come to loopy, by what its distribution requires; memoised.

    The distribution requires loopy, pymbolic or kcl, or is required by one that does. Ask this of others' modules only:
    see `distributions.is_others`.
    """
    state, top = _state(), top_of(name)
    if top not in state.leading:
        # A finder asks again while the owner is found, and gets this answer.
        state.leading[top] = False
        mine = distributions.owner(top).name
        if mine and (top in GRAPHS or not _CLIENTS.isdisjoint(_named_by(mine))):
            state.wanted |= {mine, *all_required(mine)}.difference(HARMLESS)
        state.leading[top] = mine in state.wanted
    return state.leading[top]


def required(name: str) -> str:
    """Return what a distribution requires, and what that requires: each by its version and its record."""
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
    """List the installed distributions that a distribution requires, and those that they require; memoised."""
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
    """List the installed distributions that a distribution names as required, also by an extra."""
    named = _state().named
    if name not in named:
        home, names = distributions.home_of(normalised(name)), list[bytes]()
        if home is not None:
            with suppress(OSError), open(home.path("METADATA"), "rb") as stream:
                names = _required(stream.read())
        named[name] = [*dict.fromkeys([normalised(os.fsdecode(required)) for required in names])]
    # A program may add a directory to `sys.path` that has one of them.
    return [package for package in named[name] if distributions.home_of(package) is not None]


def _record(name: str) -> files.Roots:
    """Return the record of an installed distribution, and its files if the record names none."""
    home = distributions.home_of(name)
    assert home is not None
    is_editable = not files.lines(home.record)
    return (
        (files.RECORD, home.path()),
        *(distributions.roots_of(name) if is_editable else ()),
    )
