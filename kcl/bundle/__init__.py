"""A warm cache as bytes: what this process used, saved as one bundle and loaded elsewhere.

`kcl.bundle.format` has the grammar of a bundle, `kcl.bundle.contents` its entries, `kcl.bundle.info` the report.
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
    """Return a bundle of the entries that this process used, made or loaded, and the report on it.

    The entries are completed first, as by `kcl.flush`; `CacheInfo.left_out` names those that stayed incomplete, and the
    programs that stay at home. Raises nothing, unless `KCL_STRICT=fault`. Thread-safe.

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
    """Store the entries of a bundle, given as bytes or as a path, in the cache; return the report on it.

    An entry that is there stays, unless the new one has more. Those that cannot hit here are stored as well. A bundle
    runs code as you: load only what you trust. No platform is asked, so a fork may follow. Raises OSError for a file
    that cannot be read, and nothing for any content, unless `KCL_STRICT=fault`. Thread-safe.

    >>> kcl.load_artifacts(b"no bundle").empty()
    True
    """
    info = contents.load(read_file(data) if isinstance(data, (str, os.PathLike)) else bytes(data))
    if info.refused:
        words = f"{len(info.refused)} refused, first {': '.join(info.refused[0])}"
        _say("a bundle was not loaded whole", DamagedEntry(words), "save it or copy it again")
    return info


def save_cache_artifacts() -> tuple[bytes, CacheInfo] | None:
    """Do as `kcl.save_artifacts`, and return None for an empty bundle, as torch's function of this name.

    >>> kcl.save_cache_artifacts() is None
    True
    """
    data, info = save_artifacts()
    return None if info.empty() else (data, info)


def load_cache_artifacts(serialized_artifacts: bytes | str | os.PathLike[str]) -> CacheInfo | None:
    """Do as `kcl.load_artifacts`, and return None if nothing came, as torch's function of this name.

    >>> kcl.load_cache_artifacts(b"no bundle") is None
    True
    """
    info = load_artifacts(serialized_artifacts)
    return None if info.empty() else info


@contextmanager
def artifacts(path: str | os.PathLike[str]) -> Iterator[CacheInfo]:
    """Load the bundle in a file if it is there; after the block, add what this run used and the file lacks.

    The file is replaced whole; of several processes the last one wins. An error in the block does not keep it from
    being saved. It is loaded unasked, so it must belong to you or to root, and nobody else may write it; else it is
    ignored with a warning. A place that cannot be written is one warning, too.

    >>> with kcl.artifacts("app.kclb"):
    ...     event, outputs = doubled()(queue, x=x)
    >>> kcl.load_artifacts("app.kclb").empty()
    False
    """
    # The block may change the working directory.
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
    """Turn an error of the block into one warning; the file stays as it is."""
    try:
        yield
    except Exception as error:
        _say(
            f"kcl.artifacts leaves {file} alone",
            error,
            "name a file that you, or root, and nobody else can write",
        )


def _add_to(file: str) -> None:
    """Add what this process used to a bundle, unless it holds that already."""
    before: contents.Contents = {}
    # A file that is missing or damaged is written anew.
    with suppress(FileNotFoundError, DamagedEntry):
        before = dict(contents.unpack(read_file(file, trusted=True), CacheInfo()))
    if new := contents.improvements(before, contents.collect_used(CacheInfo())):
        write(file, before | new, CacheInfo())


def write(file: str, entries: contents.Contents, info: CacheInfo) -> None:
    """Write a bundle to a file, whole or not at all; raises OSError, and CacheFault above the limits."""
    publish(os.path.abspath(file), _pack(entries, info), 0o644)  # less the umask


def _pack(entries: contents.Contents, info: CacheInfo) -> bytes:
    """Return the bundle of entries in the order of their places, so that equal contents are equal bytes."""
    return contents.pack(dict(sorted(entries.items())), info)


def read_file(path: str | os.PathLike[str], trusted: bool = False) -> bytes:
    """Read a file as far as it can be a bundle; raises OSError."""
    with open(path, "rb") as stream:
        # The opened file is asked, since another one may lie at the path by now.
        fault = trust.file_fault(os.fstat(stream.fileno()), frozenset({0})) if trusted else None
        if fault is not None:
            raise PermissionError(fault)
        start = stream.read(len(MAGIC))
        # A file that does not begin as a bundle is not read whole.
        return start + stream.read(LENGTH_LIMIT) if start == MAGIC else start


def _say(what: str, error: Exception, cure: str) -> None:
    """Warn once about a fault, with its cure; raises CacheFault under `KCL_STRICT=fault`."""
    if "fault" in settings.read().strict:
        raise error if isinstance(error, CacheFault) else CacheFault(f"{what}: {error}") from error
    warn_once(f"{what}: {error}", f"kcl: {what}: {error}; {cure}")
