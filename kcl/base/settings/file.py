"""The user's settings file: the settings of `kcl.base.settings` in TOML, and the checkouts that `kcl init` recorded.

    no_cache = ["binary"]        # a setting, named as its variable without KCL_, in lower case
    [[checkout]]                 # appended by `kcl init`
    path = "/home/me/project"
    token = "3f0c..."            # also in <path>/.kcl_cache/token, which a clone cannot know

This module is imported only where the file exists. The file decides the place that code is loaded from, so kcl does not
read a file that others can write.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from kcl.base.settings import trust

SIZE_LIMIT = 1 << 20
CHECKOUT = "checkout"


class SettingsText(NamedTuple):
    """The content of a settings file: the text of each variable, the token of each checkout, and the file's faults."""

    values: dict[str, str]
    checkouts: dict[str, str]
    faults: tuple[str, ...]


NOTHING = SettingsText({}, {}, ())


def load(path: str, keys: Iterable[str], of_root: bool = False) -> SettingsText:
    """Read a settings file with settings named `keys`; an unusable file is a fault, and gives no setting.

    A file `of_root` is for all users, and records no checkout.
    """
    try:
        text = _trusted_text(path, of_root)
        if text is None:
            return NOTHING
        found = _understood(path, _parsed(text), frozenset(keys))
        return found._replace(checkouts={}) if of_root else found
    except (OSError, ValueError, ImportError, RecursionError) as error:
        return SettingsText({}, {}, (f"the settings file {path} is ignored: {error}",))


def record(path: str, checkout: str, token: str) -> None:
    """Record a checkout, in place of an earlier record of it; the rest of the file stays as it is.

    Raises `OSError`, or ValueError for an unusable file.
    """
    text = _without(_trusted_text(path) or "", checkout)
    if text and not text.endswith("\n\n"):
        text += "\n" if text.endswith("\n") else "\n\n"
    text += f"[[{CHECKOUT}]]\npath = {_quoted(checkout)}\ntoken = {_quoted(token)}\n"
    _replace(path, text, {checkout: token})


def forget(path: str, checkout: str) -> bool:
    """Remove the record of a checkout; tell whether the file had one. Raises the errors of `record`."""
    text = _trusted_text(path)
    if text is None or checkout not in _checkouts(_parsed(text)):
        return False
    _replace(path, _without(text, checkout), {})
    if checkout in load(path, ()).checkouts:
        raise ValueError(f"the record of {checkout} in {path} was written otherwise by hand: remove it by hand")
    return True


def token_fault(folder: str, token: str) -> str:
    """Return the reason why a checkout's cache directory is not the recorded one; empty if it is."""
    try:
        descriptor = os.open(os.path.join(folder, "token"), trust.READ)
    except OSError as error:
        return str(error)
    with open(descriptor, "rb") as stream:
        fault = trust.file_fault(os.fstat(descriptor))
        return fault or ("" if stream.read(SIZE_LIMIT).strip() == token.encode() else "its token is another")


def _trusted_text(path: str, of_root: bool = False) -> str | None:
    """Return the text of a file that only its user, or root, can write; None for a missing file."""
    try:
        descriptor = os.open(path, trust.READ & ~getattr(os, "O_NOFOLLOW", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    with open(descriptor, "rb") as stream:
        fault = (_fault_of_roots if of_root else _fault)(os.fstat(descriptor))
        if fault:
            raise ValueError(fault)
        blob = stream.read(SIZE_LIMIT + 1)
    if len(blob) > SIZE_LIMIT:
        raise ValueError(f"it is larger than {SIZE_LIMIT} bytes")
    return blob.decode("utf-8")


def _fault(status: os.stat_result) -> str | None:
    fault = trust.file_fault(status)
    loose = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if fault and loose == stat.S_IWGRP and trust.is_private_group(status.st_gid, status.st_uid):
        return trust.file_fault(os.stat_result((status.st_mode & ~stat.S_IWGRP, *status[1:])))
    return f"{fault}; run chmod go-w on it" if fault and loose else fault


def _fault_of_roots(status: os.stat_result) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "it is no regular file"
    is_roots = status.st_uid == 0 and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return None if is_roots else "it is not root's, or others can write it; run chown root and chmod go-w on it"


def _parsed(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    data: dict[str, Any] = tomllib.loads(text)
    return data


def _understood(path: str, data: dict[str, Any], keys: frozenset[str]) -> SettingsText:
    values, faults = {}, []
    for key, value in data.items():
        if key == CHECKOUT:
            continue
        text = _as_text(value)
        if key not in keys:
            faults.append(f"{path}: there is no setting {key!r}")
        elif text is None:
            faults.append(f"{path}: {key} cannot be {value!r} and is ignored")
        else:
            values[key] = text
    return SettingsText(values, _checkouts(data), tuple(faults))


def _as_text(value: object) -> str | None:
    """Return a value of TOML as the text of its variable; None for a value that no variable can have."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, list) and all(isinstance(each, (str, int, float)) for each in value):
        return ",".join(_as_text(each) or "" for each in value)
    return None


def _checkouts(data: dict[str, Any]) -> dict[str, str]:
    tables = data.get(CHECKOUT)
    listed = [table for table in tables if isinstance(table, dict)] if isinstance(tables, list) else []
    return {str(table["path"]): str(table["token"]) for table in listed if "path" in table and "token" in table}


def _without(text: str, checkout: str) -> str:
    """Cut out the records of a checkout that `record` wrote."""
    import re

    line = re.escape(_quoted(checkout))
    return re.sub(rf'(?m)^\[\[{CHECKOUT}\]\]\npath = {line}\ntoken = "\w*"\n*', "", text)


def _quoted(text: str) -> str:
    """Return a text as a basic string of TOML; raises ValueError for a path that is no Unicode."""
    import json

    text.encode("utf-8")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _replace(path: str, text: str, demanded: dict[str, str]) -> None:
    """Replace the file, whole or not at all, through a link if it is one; never write a file with another meaning."""
    import tempfile

    if not demanded.items() <= _checkouts(_parsed(text)).items():
        raise ValueError(f"{path} cannot be extended: it has a {CHECKOUT!r} that is no list of tables")
    target = os.path.realpath(path)
    trust.make_directory(os.path.dirname(target))
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".config-", suffix=".toml")
    try:
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
