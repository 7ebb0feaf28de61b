"""Bundles: save the cache entries that this process used as bytes, and load them on another machine.

`kcl.bundle.format` has the format, `kcl.bundle.contents` selects and stores entries, `kcl.bundle.info` has the report.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kcl.base import settings
from kcl.base.settings import trust
from kcl.bundle import contents
from kcl.bundle.format import LENGTH_LIMIT, MAGIC
from kcl.bundle.info import CacheInfo
from kcl.cache.faults import warn_once
from kcl.cache.stores.directory import publish
from kcl.errors import CacheFault, DamagedEntry


def save_artifacts() -> tuple[bytes, CacheInfo]:
    """Return a bundle of the entries that this process looked up, made or loaded, and the report on it.

    The entries are completed first, as by `kcl.flush`. `CacheInfo.left_out` names those that are still incomplete, and the
    programs that must stay on this machine. Raises nothing, unless `KCL_STRICT=fault`. Thread-safe.

    >>> event, outputs = doubled()(queue, x=x)
    >>> data, info = kcl.save_artifacts()
    >>> kcl.load_artifacts(data).artifacts == info.artifacts
    True
    """
    info = CacheInfo()
    try:
        return _pack(contents.collect_used(info), info), info
    except Exception as error:
        _say("a bundle could not be saved", error, "the run goes on")
        return b"", CacheInfo()


def load_artifacts(data: bytes | str | os.PathLike[str]) -> CacheInfo:
    """Store the entries of a bundle, which is bytes or a path, in the cache; return the report on it.

    An entry that the cache has already is replaced only if the new one contains more. Entries that cannot hit on this
    machine are stored, too. The code in a bundle runs with your rights: load only bundles that you trust. No OpenCL
    platform is used, so the process may fork afterwards. Raises OSError for a file that cannot be read; faults of the
    content raise nothing, unless `KCL_STRICT=fault`. Thread-safe.

    >>> kcl.load_artifacts(b"no bundle").empty()
    True
    """
    info = contents.load(read_file(data) if isinstance(data, (str, os.PathLike)) else bytes(data))
    if info.refused:
        words = f"{len(info.refused)} refused, first {': '.join(info.refused[0])}"
        _say("a bundle was not loaded whole", DamagedEntry(words), "save it or copy it again")
    return info


def save_cache_artifacts() -> tuple[bytes, CacheInfo] | None:
    """Save as `kcl.save_artifacts` does; return None for an empty bundle, as torch's function of this name does.

    >>> kcl.save_cache_artifacts() is None
    True
    """
    data, info = save_artifacts()
    return None if info.empty() else (data, info)


def load_cache_artifacts(serialized_artifacts: bytes | str | os.PathLike[str]) -> CacheInfo | None:
    """Load as `kcl.load_artifacts` does; return None if no entry came, as torch's function of this name does.

    >>> kcl.load_cache_artifacts(b"no bundle") is None
    True
    """
    info = load_artifacts(serialized_artifacts)
    return None if info.empty() else info


@contextmanager
def artifacts(path: str | os.PathLike[str]) -> Iterator[CacheInfo]:
    """Load the bundle in a file if the file exists; after the block, add the entries that this run used and it lacks.

    The file is replaced as a whole; if several processes write it, the last one wins. It is written even if the block
    raises. The file must belong to you or to root, and nobody else may be able to write it; otherwise it is ignored with a
    warning. A path that cannot be written gives a warning, too.

    >>> with kcl.artifacts("app.kclb"):
    ...     event, outputs = doubled()(queue, x=x)
    >>> kcl.load_artifacts("app.kclb").empty()
    False
    """
    # The path is made absolute now, since the block may change the working directory.
    file, info = os.path.abspath(path), CacheInfo()
    with _warn_on_fault(file), suppress(FileNotFoundError):
        info = load_artifacts(read_file(file, trusted=True))
    try:
        yield info
    finally:
        with _warn_on_fault(file):
            _add_to(file)


@contextmanager
def _warn_on_fault(file: str) -> Iterator[None]:
    """Turn an error in the block into a warning; the file is then left unchanged."""
    try:
        yield
    except Exception as error:
        _say(
            f"kcl.artifacts leaves {file} alone",
            error,
            "name a file that you, or root, and nobody else can write",
        )


def _add_to(file: str) -> None:
    """Add the entries that this process used to a bundle file; leave it alone if it has them."""
    before: contents.Contents = {}
    # A missing or damaged file is replaced by a new bundle.
    with suppress(FileNotFoundError, DamagedEntry):
        before = dict(contents.unpack(read_file(file, trusted=True), CacheInfo()))
    if new := contents.improvements(before, contents.collect_used(CacheInfo())):
        write(file, before | new, CacheInfo())


def write(file: str, entries: contents.Contents, info: CacheInfo) -> None:
    """Write a bundle to a file, as a whole or not at all; raises OSError, and CacheFault if it is too large."""
    publish(os.path.abspath(file), _pack(entries, info), 0o644)  # less the umask


def _pack(entries: contents.Contents, info: CacheInfo) -> bytes:
    """Return the bundle of entries, sorted by layer and address, so that equal entries give equal bytes."""
    return contents.pack(dict(sorted(entries.items())), info)


def read_file(path: str | os.PathLike[str], trusted: bool = False) -> bytes:
    """Return the bytes of a bundle file, or only the start of a file that is no bundle; raises OSError.

    With `trusted` raises PermissionError if anybody except this user and root can write the file.
    """
    with open(path, "rb") as stream:
        # The opened file is checked, because the path may lead to another file by now.
        fault = trust.file_fault(os.fstat(stream.fileno()), frozenset({0})) if trusted else None
        if fault is not None:
            raise PermissionError(fault)
        start = stream.read(len(MAGIC))
        # Another kind of file may be very large.
        return start + stream.read(LENGTH_LIMIT) if start == MAGIC else start


def _say(what: str, error: Exception, cure: str) -> None:
    """Warn once about a fault and its cure; with `KCL_STRICT=fault` raise CacheFault."""
    if "fault" in settings.read().strict:
        raise error if isinstance(error, CacheFault) else CacheFault(f"{what}: {error}") from error
    warn_once(f"{what}: {error}", f"kcl: {what}: {error}; {cure}")
