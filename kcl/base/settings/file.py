"""The user's settings file: the settings of `kcl.base.settings` in TOML; and the checkouts that `kcl init` recorded.

    no_cache = ["binary"]        # a setting, named as its variable without KCL_, in lower case

A recorded checkout is a file in the folder `checkouts` beside the settings file. Its name is a token, which is also in
`.kcl_cache/token` of the checkout, since a clone cannot know it. Its content is the path of the checkout.

This module is imported only if a settings file or a checkout's cache directory exists. Both decide from where code is
loaded, so kcl reads no file that others can write.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable
from typing import Any

from kcl.base.settings import trust
from kcl.errors import UnusableDirectory

SIZE_LIMIT = 1 << 20


def load(
    path: str, keys: Iterable[str], of_root: bool = False
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the text of each setting of a file whose name is in `keys`, and the faults of the file.

    A file that cannot be read or parsed has no settings and one fault. A missing file has neither.
    """
    try:
        text = _trusted_text(path, of_root)
        return ({}, ()) if text is None else _understood(path, toml(text), frozenset(keys))
    except (OSError, ValueError, ImportError, RecursionError) as error:
        return {}, (f"the settings file {path} is ignored: {error}",)


def toml(text: str) -> dict[str, Any]:
    """Parse TOML; raises ValueError, ImportError or RecursionError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    tables: dict[str, Any] = tomllib.loads(text)
    return tables


def checkouts(path: str) -> dict[str, str]:
    """Return checkout -> token for the checkouts that are recorded beside a settings file.

    Raises `UnusableDirectory` if others can write the records, or `OSError`.
    """
    folder = _records(path)
    try:
        trust.check_folder(folder)
    except FileNotFoundError:
        return {}
    tokens = {}
    for token in os.listdir(folder):
        tokens[os.fsdecode(trust.read(os.path.join(folder, token), SIZE_LIMIT)[0])] = token
    return tokens


def record(path: str, checkout: str, token: str) -> None:
    """Record a checkout; an earlier record of it is replaced. Raises the errors of `checkouts`."""
    forget(path, checkout)
    trust.make_directory(_records(path))
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | trust.PLAIN
    with open(os.open(os.path.join(_records(path), token), flags, 0o600), "wb") as stream:
        stream.write(os.fsencode(checkout))


def forget(path: str, checkout: str) -> None:
    """Remove the record of a checkout, if there is one; raises the errors of `checkouts`."""
    token = checkouts(path).get(checkout)
    if token is not None:
        os.unlink(os.path.join(_records(path), token))


def find_stranger(path: str, folder: str) -> str:
    """Return why a checkout's cache directory is not to be trusted; empty if this user has recorded it."""
    try:
        token = checkouts(path).get(os.path.dirname(folder))
    except (OSError, UnusableDirectory) as error:
        return str(error)
    return (
        "this user's settings do not record it"
        if token is None
        else find_token_fault(folder, token)
    )


def _records(path: str) -> str:
    return os.path.join(os.path.dirname(path), "checkouts")


def find_token_fault(folder: str, token: str) -> str:
    """Return why a checkout's cache directory is not the recorded one; empty if it is."""
    try:
        written, _status = trust.read(os.path.join(folder, "token"), SIZE_LIMIT)
    except OSError as error:
        return str(error)
    return "" if written.strip() == token.encode() else "its token is another"


def _trusted_text(path: str, of_root: bool = False) -> str | None:
    """Return the text of a file that only its user, or root, can write; None for a missing file."""
    flags, owners = trust.READ & ~getattr(os, "O_NOFOLLOW", 0), frozenset({0} if of_root else ())
    try:
        blob, status = trust.read(path, SIZE_LIMIT + 1, owners, strict=False, flags=flags)
        if of_root and status.st_uid:
            raise PermissionError(errno.EPERM, "it does not belong to root", path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        if error.errno != errno.EPERM:
            raise
        cure = "chown root and chmod go-w" if of_root else "chmod go-w"
        raise ValueError(f"{error.strerror}; run {cure} on it") from error
    if len(blob) > SIZE_LIMIT:
        raise ValueError(f"it is larger than {SIZE_LIMIT} bytes")
    return blob.decode("utf-8")


def _understood(
    path: str, data: dict[str, Any], keys: frozenset[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    values, faults = {}, []
    for key, value in data.items():
        text = _as_text(value)
        if key not in keys:
            faults.append(f"{path}: there is no setting {key!r}")
        elif text is None:
            faults.append(f"{path}: {key} cannot be {value!r} and is ignored")
        else:
            values[key] = text
    return values, tuple(faults)


def _as_text(value: object) -> str | None:
    """Return a value of TOML as the text that its variable would have; None if no variable can have the value."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, list) and all(isinstance(item, (str, int, float)) for item in value):
        return ",".join(_as_text(item) or "" for item in value)
    return None
