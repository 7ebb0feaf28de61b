"""Ask of the entries of the family what they cost on disk, and what compression would save and cost.

    python benchmarks/entries.py [--quick]

Every entry is written to files: with nothing compressed, as kcl stores it (the pieces that shrink most), and compressed
whole. They are read back in turns as a hit reads them: open, read, decompress, verify both digests, parse. The files
are in the page cache of the system, as they are in a second run.
"""

from __future__ import annotations

import pathlib
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import measure
from measure import Effort, spread

from kcl.cache import packing
from kcl.cache.entry import Entry
from kcl.cache.stores.sqlite import Rows

ROUNDS = 15


class Codec(NamedTuple):
    """A way to make bytes fewer, and back."""

    name: str
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes], bytes]


def measured(effort: Effort) -> dict[str, Any]:
    """Return bytes on disk by owner, and for each codec the sizes and the microseconds of a verified read."""
    with tempfile.TemporaryDirectory(prefix="kcl-entries-", ignore_cleanup_errors=True) as name:
        root = pathlib.Path(name)
        cache = root / "cache"
        count = min(effort.cold, 42)
        measure.run("drive_kcl.py", str(count), cache=cache)
        measure.settle(cache)
        folder = cache / "pyopencl"
        blobs = {
            "generator": _rows(cache),
            "binary": [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()],
        }
        if len(blobs["binary"]) < count:
            raise SystemExit(f"bench: {count} kernels, but {len(blobs['binary'])} entries")
        return {
            "count": count,
            "disk": measure.disk_usage(cache),
            "parts": {layer: _parts(some) for layer, some in blobs.items()},
            "codecs": {layer: _compared(root, some) for layer, some in blobs.items()},
        }


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print bytes a kernel and the codecs beside each other."""
    count = figures["count"]
    yield f"bytes on disk per kernel, {count} kernels"
    for owner, size in figures["disk"].items():
        yield f"  {owner:<22}{size // count:>8}"
    yield f"  kcl's own / PoCL's: {share(figures):.2f}"
    for layer, parts in figures["parts"].items():
        held = ", ".join(f"{part} {size // count}" for part, size in parts.items())
        yield f"{layer} entries hold, in bytes per kernel: {held}"
        yield "  bytes, and microseconds of a verified read and of compressing, per kernel"
        for codec in figures["codecs"][layer]:
            times = f"{spread([one / count for one in codec['read']], 1):<26}{codec['compress'] / count:>10.0f}"
            yield f"  {codec['name']:<14}{codec['bytes'] // count:>8}   {times}"


def share(figures: dict[str, Any]) -> float:
    """Return kcl's bytes over those of PoCL's directory."""
    owned = sum(size for owner, size in figures["disk"].items() if owner.startswith("kcl"))
    return float(owned / figures["disk"]["pocl"])


def _rows(cache: pathlib.Path) -> list[bytes]:
    rows = Rows(cache / "pytools")
    return [blob for blob in map(rows.get, rows.scan()) if blob is not None]


def _parts(blobs: list[bytes]) -> dict[str, int]:
    """Return the bytes of each part over all entries, none compressed; "envelope" is the rest: digests, metadata."""
    sizes = {"envelope": sum(len(_plain(blob)) for blob in blobs)}
    for blob in blobs:
        for name, part in Entry.unpack(blob).parts.items():
            sizes[name] = sizes.get(name, 0) + len(part)
            sizes["envelope"] -= len(part)
    return sizes


def _plain(blob: bytes) -> bytes:
    """Pack an entry with none of its pieces compressed."""
    worth, packing._WORTH = packing._WORTH, 0.0
    try:
        return Entry.unpack(blob).pack()
    finally:
        packing._WORTH = worth


def _compared(root: pathlib.Path, blobs: list[bytes]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    plain = [_plain(blob) for blob in blobs]
    paths: dict[str, list[pathlib.Path]] = {}
    codecs = _codecs()
    for codec in codecs:
        begin = time.perf_counter()
        packed = [codec.compress(blob) for blob in plain]
        compress = 1e6 * (time.perf_counter() - begin)
        paths[codec.name] = [root / f"{codec.name}-{number}" for number in range(len(blobs))]
        for path, content in zip(paths[codec.name], packed, strict=True):
            path.write_bytes(content)
        found.append(
            {"name": codec.name, "bytes": sum(map(len, packed)), "compress": compress, "read": []}
        )
    for _ in range(ROUNDS):
        for codec, one in zip(codecs, found, strict=True):
            begin = time.perf_counter()
            for path in paths[codec.name]:
                with open(path, "rb") as stream:
                    Entry.unpack(codec.decompress(stream.read()))
            one["read"].append(1e6 * (time.perf_counter() - begin))
    return found


def _codecs() -> list[Codec]:
    codecs = [
        Codec("nothing", bytes, bytes),
        Codec("zlib, pieces", lambda blob: Entry.unpack(blob).pack(), bytes),
    ]
    codecs += [Codec(f"zlib {level}", _zlib(level), zlib.decompress) for level in (1, 6)]
    try:
        import zstandard
    except ImportError:
        return codecs
    unpack = zstandard.ZstdDecompressor().decompress
    return [
        *codecs,
        *(Codec(f"zstandard {n}", zstandard.ZstdCompressor(n).compress, unpack) for n in (1, 3, 9)),
    ]


def _zlib(level: int) -> Callable[[bytes], bytes]:
    return lambda blob: zlib.compress(blob, level)


if __name__ == "__main__":
    measure.part(measured, lines)
