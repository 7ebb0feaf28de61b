"""The manifest of a recipe: its reads while it ran, by place and content. The next look-up reads these places again.

Places are described so that they hold in a copy of the project. A place is relative to the recipe's module where the
recipe can reach it from there. A place that is relative or stands in the recipe's code or parameters stays as written.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
from collections.abc import Collection, Iterable
from typing import NamedTuple

from kcl.base import settings

ABSENT = "absent"


class ReadFact(NamedTuple):
    """One read: its place, seen from `base`, and the SHA-256 of its content.

    `base` is "module" or "resolved module" (relative to the directory of the recipe's module, as it is named or with
    its links followed), "cwd", "absolute", "variable" (`path` is the name of an environment variable) or "directory"
    (the working directory itself). With "link " before it, the target of a symbolic link counts. With "declared ",
    everything that the pattern `path` matches counts, files by content and folders by the names in them.
    """

    base: str
    path: str
    digest: str


def place(path: str, directory: str, texts: Collection[str]) -> tuple[str, str]:
    """Describe the place of a file or folder; `directory` is the recipe's module's, `texts` are those of its key."""
    if not os.path.isabs(path):
        return "cwd", path
    folder = os.path.dirname(path)
    if not directory or any(path in text or folder in text for text in texts):
        return "absolute", path
    try:
        ways = [("module", os.path.relpath(path, directory))]
        ways.append(("resolved module", os.path.relpath(path, os.path.realpath(directory))))
    except ValueError:  # another drive
        return "absolute", path
    return min(ways, key=lambda way: way[1].count(os.pardir))


def locate(base: str, path: str, directory: str) -> str:
    """Return the path that `place` described, for a recipe with its module in `directory` now."""
    if base == "resolved module":
        directory = os.path.realpath(directory)
    return os.path.normpath(os.path.join(directory, path)) if base.endswith("module") else path


def files(paths: Iterable[str], directory: str, texts: Collection[str]) -> list[ReadFact]:
    """Describe files as they are now."""
    return [_now(*place(path, directory, texts), directory) for path in paths]


def links(paths: Iterable[str], directory: str, texts: Collection[str]) -> list[ReadFact]:
    """Describe symbolic links as they are now."""
    places = [place(path, directory, texts) for path in paths]
    return [_now(f"link {base}", path, directory) for base, path in places]


def variables(names: Iterable[str]) -> list[ReadFact]:
    """Describe environment variables as they are now."""
    return [_now("variable", name) for name in sorted(names)]


def working_directory() -> ReadFact:
    """Describe the working directory as it is now."""
    return _now("directory", "")


def declared(patterns: Iterable[str], directory: str) -> list[ReadFact]:
    """Describe the declared inputs as they are now: paths and patterns for `glob`, seen from `directory`."""
    found = []
    for pattern in patterns:
        base = "absolute" if os.path.isabs(pattern) else "module" if directory else "cwd"
        found.append(_now(f"declared {base}", pattern, directory))
    return found


def covers(pattern: str, path: str) -> bool:
    """Tell whether `pattern` matches `path`, or a path below the folder `path`; both are absolute."""
    return _covers(pattern.split(os.sep), path.split(os.sep))


def _covers(pattern: list[str], path: list[str]) -> bool:
    if not path:
        return True
    if not pattern:
        return False
    if pattern[0] == "**":
        return _covers(pattern[1:], path) or _covers(pattern, path[1:])
    return fnmatch.fnmatchcase(path[0], pattern[0]) and _covers(pattern[1:], path[1:])


def content(read: ReadFact, directory: str) -> str:
    """Return the SHA-256 of the content at the place of `read` now, "absent" where the place is empty."""
    if read.base == "variable":
        value = settings.variable(read.path)
        return ABSENT if value is None else _digest(value.encode("utf-8", "surrogateescape"))
    if read.base == "directory":
        return _digest(os.fsencode(_working_directory()))
    try:
        if read.base.startswith("link "):
            path = locate(read.base.removeprefix("link "), read.path, directory)
            return _digest(os.fsencode(os.readlink(path)))
        if read.base.startswith("declared "):
            return _matched(locate(read.base.removeprefix("declared "), read.path, directory))
        with open(locate(read.base, read.path, directory), "rb") as stream:
            return _digest(stream.read())
    except OSError:
        return ABSENT


def in_words(read: ReadFact) -> str:
    """Name a read, for a sentence."""
    if read.base == "variable":
        return f"variable {read.path}"
    if read.base.startswith("declared "):
        return f"declared input {read.path}"
    return "working directory" if read.base == "directory" else f"file {os.path.basename(read.path)}"


def _now(base: str, path: str, directory: str = "") -> ReadFact:
    read = ReadFact(base, path, "")
    return read._replace(digest=content(read, directory))


def _matched(pattern: str) -> str:
    """Digest the names and contents of all paths that match."""
    import glob

    root = pattern
    while glob.has_magic(root):
        root = os.path.dirname(root)
    hasher = hashlib.sha256()
    for path in sorted(glob.glob(pattern, recursive=True)):
        value = ""
        if os.path.isdir(path):
            value = _digest(os.fsencode("\0".join(sorted(os.listdir(path)))))
        elif os.path.isfile(path):
            with open(path, "rb") as stream:
                value = _digest(stream.read())
        hasher.update(os.fsencode(f"{os.path.relpath(path, root)}\0{value}\0"))
    return hasher.hexdigest()


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
