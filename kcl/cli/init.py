"""`kcl init`: gives a checkout its own cache, and records that in the user's settings."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import click

from kcl import drivers
from kcl.base import settings
from kcl.base.settings import file, trust
from kcl.cache import places
from kcl.cli import output
from kcl.inspect import purge

_MARKS = (".git", ".hg", ".jj", ".svn")
_FILES = {
    ".gitignore": "*\n",
    # https://bford.info/cachedir/: the first 43 characters are the mark
    "CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n# A cache of kcl; it may be removed at any time.\n",
}


@click.command()
@output.flag("--undo", help="Remove the checkout's cache and its record in the settings.")
def init(undo: bool) -> None:
    """Keep kcl's files in `.kcl_cache/` at the root of this checkout.

    The checkout is found from any folder below it. It is recorded beside your settings file, and from then on every
    process that starts in it or below uses its cache, unless KCL_CACHE_DIR is set. A `.kcl_cache/` that came with a
    clone is never used. The directory is ignored by git and by programs that make backups.

    Exits with 1 if there is no checkout, or if something is in the way.
    """
    recorded = file.checkouts(settings.settings_file())
    _undo(recorded) if undo else _init(recorded)


def _init(recorded: Mapping[str, str]) -> None:
    checkout = next(filter(_is_checkout, _list_above()), None)
    if checkout is None:
        output.fail(
            f"{os.getcwd()} lies in no checkout ({', '.join(_MARKS)}): "
            "run git init at its root, or set KCL_CACHE_DIR to a directory of your own"
        )
    folder = os.path.join(checkout, settings.CHECKOUT_FOLDER)
    matching = [token for token in recorded.values() if _is_known(folder, token)]
    if not os.path.lexists(folder):
        _make(checkout, folder)
    elif recorded.get(checkout) in matching:
        output.say(f"{folder} is in use already")
    elif matching:
        # The checkout was moved.
        file.record(settings.settings_file(), checkout, matching[0])
        output.say(f"{folder} is recorded anew: it was at another place")
    else:
        output.fail(
            f"{folder} is there, and your settings do not record it: it may have come with a clone, and a cache of "
            "code is code; remove it, then run kcl init again"
        )
    output.say("recorded in your settings; kcl init --undo takes it back")
    if settings.variable("KCL_CACHE_DIR"):
        output.complain("KCL_CACHE_DIR is set, and wins over it")


def _make(checkout: str, folder: str) -> None:
    token = secrets.token_hex(16)
    trust.make_trusted(folder)
    try:
        for name, text in {**_FILES, "token": token + "\n"}.items():
            with open(
                trust.open_file(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL),
                "w",
            ) as stream:
                stream.write(text)
        file.record(settings.settings_file(), checkout, token)
    except BaseException:
        # A folder without a record would be refused later as one that came with a clone.
        purge.remove_path(folder)
        raise
    output.say(f"kcl's files of this checkout now lie in {folder}")


def _undo(recorded: Mapping[str, str]) -> None:
    checkout = next((place for place in _list_above() if place in recorded), None)
    if checkout is None:
        output.fail("no checkout that your settings record lies here or above")
    folder = os.path.join(checkout, settings.CHECKOUT_FOLDER)
    if _is_known(folder, recorded[checkout]):
        # The helper process is ended first, because it would write into the folder again.
        drivers.quiet(os.path.join(folder, places.KCL))
        purge.remove_path(folder)
        output.say(f"{folder} is removed")
    elif os.path.lexists(folder):
        output.complain(f"{folder} is left alone: it is not the one that was recorded")
    file.forget(settings.settings_file(), checkout)
    output.say(f"{checkout} is no longer recorded")


def _is_known(folder: str, token: str) -> bool:
    return not os.path.islink(folder) and not file.find_token_fault(folder, token)


def _is_checkout(folder: str) -> bool:
    return any(os.path.lexists(os.path.join(folder, mark)) for mark in _MARKS)


def _list_above() -> list[str]:
    """Return the working directory and all directories above it."""
    return [str(place) for place in (Path.cwd(), *Path.cwd().parents)]
