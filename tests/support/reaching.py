"""A small project of real files whose recipe is keyed in real processes."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]

FILES = {
    "recipes.py": '''\
"""Recipes."""
import functools
import math

import geometry
import package.outer
from config import OPTIONS, Mode, Point
from package.tiles import square as sq

TILE = 16
SCALE = 1.5
LIMITS = [1, 2, {"a": (3, 4.0)}]
NAMES = {"x", "y", "z", "w"}
UNREACHED = 5


def scaled(n):
    def inner(x, shift=7):
        return x * n + shift
    return inner


triple = scaled(3)
half = functools.partial(geometry.divide, by=2)
count = lambda x: x + 11


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) + 13
    return wrapper


@logged
def stepped(n, *, by=17):
    return n + by


@functools.lru_cache(maxsize=None)
def cached(n):
    return n * 19


class Layout(geometry.Base):
    """A layout."""

    pad = 4
    __slots__ = ("n",)

    def __init__(self, n):
        self.n = n

    def size(self):
        return self.n + self.pad

    @property
    def area(self):
        return self.n * 23

    @staticmethod
    def origin():
        return 29

    @classmethod
    def make(cls, n: int) -> "Layout":
        return cls(n)


class Unreached:
    value = 31


DEFAULT = Layout(3)
CORNER = Point(1, 2)


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


def unreached(n):
    return n - 1


def build(block=16, mode=None, *, order="C"):
    """Build."""
    import lazily

    layout = Layout.make(block)
    total = triple(block) + half(block) + sq(block) + stepped(block) + cached(block) + count(block)
    text = ",".join(sorted(NAMES)) + str([SCALE * TILE for _ in LIMITS])
    with open(__file__) if mode is Mode.FILE else geometry.nothing() as stream:
        text += str(stream)
    values = {k: v for k, v in OPTIONS.items() if k != "skip"}
    return text, layout, total, values, DEFAULT, CORNER, even(4), lazily.shift(3), package.outer.deep(2), math.sqrt(4)
''',
    "geometry.py": '''\
"""Geometry."""
import contextlib

from package import inner

WIDTH = 8


class Base:
    kind = "base"

    def depth(self):
        return WIDTH + inner.DEPTH


def divide(n, by):
    return n // by


@contextlib.contextmanager
def nothing():
    yield 37


def unreached():
    return 41
''',
    "config.py": """\
import collections
import dataclasses
import enum

OPTIONS = {"skip": False, "tile": (4, 4), "size": 1}


class Mode(enum.Enum):
    FILE = "file"
    NONE = 1


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 5

    def norm(self):
        return self.x + self.y


Pair = collections.namedtuple("Pair", "a b")
""",
    "package/__init__.py": "",
    "package/tiles.py": """\
def square(n):
    return helper(n)


def helper(n):
    from .inner import lifted
    return lifted(n) * 43
""",
    "package/inner.py": """\
DEPTH = 47
TABLE = [53]


def lifted(n):
    return n + TABLE[0]
""",
    "package/outer.py": """\
import package.inner


def deep(n):
    return package.inner.lifted(n) + getattr(package.inner, "DEPTH")
""",
    "lazily.py": '''\
"""Nobody imports this but the recipe."""
from package import unseen

SHIFT = 59


def shift(n):
    return n + SHIFT + unseen.VALUE
''',
    "package/unseen.py": "VALUE = 61\n",
}

CHILD = """
import json, sys
sys.path.insert(0, {kcl!r})
sys.path.insert(0, {root!r})
{before}
import {module}
from kcl.record.callables.reach import reach
from kcl.errors import UnknownInput
{action}
arguments = dict({arguments})
function = {module}.{function}
try:
    found = reach(getattr(function, "function", function), arguments)
    answer = {{"parts": found.parts, "front_ends": sorted(found.front_ends), "placed": found.placed}}
    answer["texts"], answer["origins"] = found.texts(), found.origins()
except UnknownInput as error:
    answer = {{"unknown": str(error)}}
answer["modules"] = [name for name in sys.modules if name in ("numpy", "pyopencl", "loopy", "lazily")]
print(json.dumps(answer))
"""


class Project:
    """The files above in a directory, and the key of a recipe in a process of its own."""

    def __init__(self, root: pathlib.Path, files: dict[str, str] = FILES) -> None:
        self.root = root
        for name, text in files.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def edit(self, name: str, before: str, after: str) -> None:
        text = (self.root / name).read_text()
        assert before in text, f"{before!r} is not in {name}"
        self.write(name, text.replace(before, after))

    def answer(
        self,
        arguments: str = "block=16",
        *,
        module: str = "recipes",
        function: str = "build",
        before: str = "",
        action: str = "",
        options: tuple[str, ...] = (),
        cwd: pathlib.Path | None = None,
        **environment: str,
    ) -> dict:
        """Return what the child found."""
        program = CHILD.format(
            kcl=str(ROOT),
            root=str(self.root),
            module=module,
            function=function,
            arguments=arguments,
            before=before,
            action=action,
        )
        child = subprocess.run(
            [sys.executable, "-B", *options, "-c", program],
            env={**os.environ, **environment},
            cwd=cwd or self.root,
            capture_output=True,
            text=True,
        )
        assert child.returncode == 0, child.stderr
        return json.loads(child.stdout)

    def parts(self, *args, **kwargs) -> list[list[str]]:
        """Return the parts of the key."""
        answer = self.answer(*args, **kwargs)
        assert "unknown" not in answer, answer["unknown"]
        return answer["parts"]
