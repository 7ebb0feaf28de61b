"""No trace of the builder: what is stored names no user, no host, no home and no project."""

import shutil
import sqlite3

import pytest
import traces
from harness import PLATFORMS, ROOT, Child

from kcl.bundle import contents
from kcl.bundle.info import CacheInfo
from kcl.cache.entry import Entry

USER, HOME, PROJECT, CACHE = "markeduser", "markedhome", "markedproject", "markedcache"


def entries(cache):
    """Yield every entry below a cache directory: binary layer, and rows of the generator layer."""
    for path in cache.glob("pyopencl/kcl-*/*/*"):
        yield Entry.unpack(path.read_bytes())
    for path in cache.glob("pytools/pdict-*kcl*.sqlite"):
        for (row,) in sqlite3.connect(path).execute("select key_value from dict"):
            yield Entry.unpack(row)


def stored(entry):
    """Return all that an entry holds, decompressed."""
    key = "\n".join(f"{part.name}\0{part.value}" for part in entry.key.parts)
    return b"\0".join(
        [key.encode("utf-8", "surrogatepass"), repr(entry.metadata).encode(), *entry.parts.values()]
    )


@pytest.mark.parametrize("count", [5, pytest.param(42, marks=pytest.mark.slow)])
@pytest.mark.slow_platforms
def test_no_trace(tmp_path, platform_name, count):
    """No mark of the builder is in the decompressed bytes of entries, logs and rows, nor in those of a bundle."""
    directory = tmp_path / HOME / PROJECT
    directory.mkdir(parents=True, mode=0o700)
    for file in (traces.__file__, ROOT / "benchmarks" / "kernels.py"):
        shutil.copy(file, directory)
    child = Child(directory)
    variables = {"USER": USER, "LOGNAME": USER, "XDG_CACHE_HOME": str(directory / CACHE)}
    done = child.finished("traces.py", PLATFORMS[platform_name], count, **variables)
    host = done.stdout.splitlines()[-1]
    marks = [USER, HOME, PROJECT, CACHE]
    marks += [host] if len(host) > 5 else []  # a short name is found anywhere
    kinds = set()
    for entry in entries(directory / CACHE):
        assert list(traces.found(stored(entry), marks)) == [], entry.metadata
        kinds |= entry.parts.keys()
        if entry.metadata.get("kernel") == "loud" and "binary" in entry.parts:
            assert b"said" in entry.parts["build.log"]
    binaries = 0
    saved = contents.unpack((directory / "saved.kclb").read_bytes(), CacheInfo())
    for (_kind, address), entry in saved:
        assert list(traces.found(address.encode() + stored(entry), marks)) == [], entry.metadata
        binaries += "binary" in entry.parts
    assert binaries == count + 1  # and the program with a message of the compiler
    assert {"binary", "build.log", "source.cl"} <= kinds


def test_marks_are_found():
    """The test would find a mark, at whatever bit it begins and in characters of 7 bits."""
    packed = sum(ord(character) << 7 * place for place, character in enumerate(f"/{HOME}/"))
    for shift in range(8):
        assert list(traces.found((packed << shift).to_bytes(20, "little"), [USER, HOME])) == [HOME]
    assert list(traces.found(f"at {HOME}".encode(), [USER, HOME])) == [HOME]
