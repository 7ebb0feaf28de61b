"""kcl.drivers.pocl.repair: damage in PoCL's own cache ends no run of a program that has its entry. PoCL only."""

from __future__ import annotations

import os
import pathlib
import random
import shutil

import pytest
import slow
from harness import platforms
from many_programs import SUMS

from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.drivers.pocl import repair

CACHES = 300


@pytest.fixture(autouse=True)
def _pocl():
    if "pocl" not in platforms():
        pytest.skip("this is PoCL's cache")


def garbage(dice, path, content):
    path.write_bytes(dice.randbytes(len(content)))


def other_garbage(dice, path, _content):
    path.write_bytes(dice.randbytes(dice.randrange(1, 1000)))


def cut(dice, path, content):
    path.write_bytes(content[: dice.randrange(len(content))])


def flipped(dice, path, content):
    damaged = bytearray(content)
    damaged[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(damaged)


def zeroed(dice, path, content):
    start = dice.randrange(len(content)) & ~4095
    path.write_bytes(content[:start] + bytes(len(content[start : start + 4096])) + content[start + 4096 :])


def extended(dice, path, content):
    path.write_bytes(content + dice.randbytes(64))


def link(_dice, path, _content):
    path.unlink()
    path.symlink_to("/dev/zero")


def fifo(_dice, path, _content):
    path.unlink()
    os.mkfifo(path)


def full_directory(_dice, path, _content):
    path.unlink()
    (path / "inside").mkdir(parents=True)


def file_on_the_way(_dice, path, _content):
    shutil.rmtree(path.parent)
    path.parent.write_bytes(b"not a directory")


KINDS = {
    "empty": lambda _dice, path, _content: path.write_bytes(b""),
    "removed": lambda _dice, path, _content: path.unlink(),
    "directory": lambda _dice, path, _content: (path.unlink(), path.mkdir()),
    **{kind.__name__: kind for kind in (garbage, other_garbage, cut, flipped, zeroed, extended, link, fifo)},
    **{kind.__name__: kind for kind in (full_directory, file_on_the_way)},
}


def contents(cache: pathlib.Path) -> dict[str, bytes]:
    """Return what counts in PoCL's cache."""
    found = [path for path in cache.rglob("*") if path.suffix in (".so", ".bc") and path.is_file()]
    return {str(path.relative_to(cache)): path.read_bytes() for path in found}


def spoil(dice: random.Random, cache: pathlib.Path, good: dict[str, bytes], most: int) -> list[tuple[str, str]]:
    """Damage some of the files, each in its own way; return which and how."""
    done: list[tuple[str, str]] = []
    for name in dice.sample(sorted(good), dice.randint(1, most)):
        kind = dice.choice(sorted(KINDS))
        if (cache / name).is_file():  # else it went with another one
            KINDS[kind](dice, cache / name, good[name])
            done.append((name, kind))
    return done


class TestCaches:
    @pytest.mark.parametrize(
        "number", [pytest.param(0), *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 11))]
    )
    @pytest.mark.slow
    def test_no_dead_run(self, run, child, number):
        """Whatever lies in PoCL's cache, runs of programs with entries end well, compute the same, and repair it."""
        cache = child.cache / "pocl" / "kcache"
        for each in range(2 if number == 0 else CACHES // 10):
            if each == 0:
                assert run().returncode == 0
                good = contents(cache)
            seed = f"{slow.seed()} {number} {each}"
            done = spoil(random.Random(seed), cache, good, len(good) if each % 2 else 3)
            ended = run()
            assert ended.returncode == 0, (seed, done, ended.returncode, ended.stderr)
            assert ended.stdout.strip() == str(SUMS), (seed, done)
            assert contents(cache) == good, (seed, done)

    def test_bytes_of_pocl(self, run, child):
        """Nothing is written where the cache holds what the entries hold, or nothing at all."""
        cache = child.cache / "pocl" / "kcache"
        assert run().stdout.strip() == str(SUMS)
        before = {path: path.stat().st_mtime_ns for path in cache.rglob("*.so")}
        assert run().stdout.strip() == str(SUMS)
        assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.so")} == before


class TestRepair:
    def test_another_container(self, tmp_path, monkeypatch):
        """A binary of another PoCL, or none at all, is left to the driver; nothing is raised."""
        monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))

        odd = b"poclbin\0" + bytes(8) + b"\x08" + bytes(70)
        for binary in (b"", b"poclbin\0" + bytes(200), b"\x7fELF" + bytes(10), odd):
            repair.repair(Entry(Key([("source", "none")]), {}, {"binary": binary}))
        assert list(tmp_path.iterdir()) == []
