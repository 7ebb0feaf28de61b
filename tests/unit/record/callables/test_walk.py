"""kcl.record.callables.{walk,chains}: every shape of code that Python has leads on to what it uses."""

from __future__ import annotations

import _thread
import dataclasses
import os
import pathlib
import types

import pytest
from reaching import Project

from kcl.cache.key import Key
from kcl.errors import UnknownInput
from kcl.record.callables.reach import reach

# In each, 7777 decides what build returns; the test puts another number in its place.
SHAPES = {
    "single dispatch": (
        "import functools\n"
        "@functools.singledispatch\n"
        "def show(x):\n"
        "    return 1\n"
        "@show.register(int)\n"
        "def _(x):\n"
        "    return 7777\n"
        "def build(n):\n"
        "    return show(n)"
    ),
    "cached method": (
        "import functools\n"
        "class A:\n"
        "    @functools.cache\n"
        "    def m(self):\n"
        "        return 7777\n"
        "def build(n):\n"
        "    return A().m()"
    ),
    "total ordering": (
        "import functools\n"
        "@functools.total_ordering\n"
        "class A:\n"
        "    def __eq__(self, o):\n"
        "        return True\n"
        "    def __lt__(self, o):\n"
        "        return 7777\n"
        "def build(n):\n"
        "    return A() < A()"
    ),
    "property setter": (
        "class A:\n"
        "    @property\n"
        "    def p(self):\n"
        "        return 1\n"
        "    @p.setter\n"
        "    def p(self, v):\n"
        "        self.q = 7777\n"
        "def build(n):\n"
        "    a = A()\n"
        "    a.p = 1\n"
        "    return a.q"
    ),
    "partial method": (
        "import functools\n"
        "class A:\n"
        "    def m(self, x):\n"
        "        return x\n"
        "    k = functools.partialmethod(m, 7777)\n"
        "def build(n):\n"
        "    return A().k()"
    ),
    "class decorator": (
        "def mark(c):\n    c.extra = 7777\n    return c\n@mark\nclass A: pass\ndef build(n):\n    return A.extra"
    ),
    "abstract class": (
        "import abc\n"
        "class A(abc.ABC):\n"
        "    @abc.abstractmethod\n"
        "    def m(self): ...\n"
        "class B(A):\n"
        "    def m(self):\n"
        "        return 7777\n"
        "def build(n):\n"
        "    return B().m()"
    ),
    "protocol": (
        "import typing\n"
        "class P(typing.Protocol):\n"
        "    def m(self) -> int: ...\n"
        "class B(P):\n"
        "    def m(self):\n"
        "        return 7777\n"
        "def build(n):\n"
        "    return B().m()"
    ),
    "typed tuple": (
        "import typing\n"
        "class T(typing.NamedTuple):\n"
        "    a: int = 7777\n"
        "    def m(self):\n"
        "        return self.a\n"
        "def build(n):\n"
        "    return T().m()"
    ),
    "generic class": (
        "import typing\n"
        "X = typing.TypeVar('X')\n"
        "class G(typing.Generic[X]):\n"
        "    def m(self):\n"
        "        return 7777\n"
        "def build(n):\n"
        "    return G[int]().m()"
    ),
    "metaclass": (
        "class M(type):\n"
        "    def __call__(cls):\n"
        "        return 7777\n"
        "class A(metaclass=M): pass\n"
        "def build(n):\n"
        "    return A()"
    ),
    "descriptor": (
        "class D:\n"
        "    def __get__(self, o, t):\n"
        "        return 7777\n"
        "class A:\n"
        "    d = D()\n"
        "def build(n):\n"
        "    return A().d"
    ),
    "generated function": (
        "names = {}\n"
        "exec('def made(n):\\n    return 7777', names)\n"
        "made = names['made']\n"
        "def build(n):\n"
        "    return made(n)"
    ),
    "global of a generated function": (
        "names = {'K': 7777}\n"
        "exec('def made(n):\\n    return K', names)\n"
        "made = names['made']\n"
        "def build(n):\n"
        "    return made(n)"
    ),
    "function from code": (
        "import types\ndef f():\n    return 7777\ng = types.FunctionType(f.__code__, {})\ndef build(n):\n    return g()"
    ),
    "lambda in a dictionary": ("TABLE = {'a': lambda: 7777}\ndef build(n):\n    return TABLE['a']()"),
    "function in an object": ("class A: pass\na = A()\na.run = lambda: 7777\ndef build(n):\n    return a.run()"),
    "bound method": (
        "class A:\n"
        "    def __init__(self, v):\n"
        "        self.v = v\n"
        "    def m(self):\n"
        "        return self.v\n"
        "run = A(7777).m\n"
        "def build(n):\n"
        "    return run()"
    ),
    "callable object": (
        "class A:\n    def __call__(self):\n        return 7777\nrun = A()\ndef build(n):\n    return run()"
    ),
    "super": (
        "class A:\n"
        "    def m(self):\n"
        "        return 7777\n"
        "class B(A):\n"
        "    def m(self):\n"
        "        return super().m()\n"
        "def build(n):\n"
        "    return B().m()"
    ),
    "class in the recipe": (
        "def build(n):\n"
        "    class A:\n"
        "        x = 7777\n"
        "        def m(self):\n"
        "            return self.x\n"
        "    return A().m()"
    ),
    "default in the recipe": ("def build(n):\n    def f(x=7777):\n        return x\n    return f()"),
    "subclass of a dictionary": ("class D(dict): pass\nd = D(a=7777)\nd.extra = 1\ndef build(n):\n    return d['a']"),
    "default dictionary": (
        "import collections\nd = collections.defaultdict(lambda: 7777)\ndef build(n):\n    return d['x']"
    ),
    "chain of attributes": ("class N: pass\na = N()\na.b = N()\na.b.c = 7777\ndef build(n):\n    return a.b.c"),
    "weak constant": ("import fractions\nF = fractions.Fraction(7777, 2)\ndef build(n):\n    return F"),
    "nested closure": (
        "def outer():\n"
        "    k = 7777\n"
        "    def middle():\n"
        "        def inner():\n"
        "            return k\n"
        "        return inner\n"
        "    return middle\n"
        "m = outer()\n"
        "def build(n):\n"
        "    return m()()"
    ),
    "star import": ("from consts import *\ndef build(n):\n    return VALUE"),
    "module alias": ("import consts as c\nd = c\ndef build(n):\n    return d.VALUE"),
    "module as value": ("import consts\ndef use(m):\n    return m.VALUE\ndef build(n):\n    return use(consts)"),
    "module in a list": ("import consts\nL = [consts]\ndef build(n):\n    return L[0].VALUE"),
    "module dictionary": ("import consts\ndef build(n):\n    return consts.__dict__['VALUE']"),
    "changed module as value": (
        "import consts\nconsts.OTHER = 7777\ndef use(m):\n    return m.OTHER\ndef build(n):\n    return use(consts)"
    ),
    "module hook": ("import hooked\ndef build(n):\n    return hooked.anything"),
    "submodule not imported": ("import pack\ndef build(n):\n    import pack.sub\n    return pack.sub.VALUE"),
    "from import in a function": ("def build(n):\n    from consts import VALUE as v\n    return v"),
    "comprehension over a helper": (
        "def h(x):\n    return x + 7777\ndef build(n):\n    return [h(x) for x in range(n)]"
    ),
    "operator": ("class V:\n    def __add__(self, o):\n        return 7777\nv = V()\ndef build(n):\n    return v + 1"),
    "instance of a dataclass with slots": (
        "import dataclasses\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class P:\n"
        "    x: int\n"
        "p = P(7777)\n"
        "def build(n):\n"
        "    return p.x"
    ),
    "user's exception": (
        "class E(Exception):\n"
        "    code = 7777\n"
        "def build(n):\n"
        "    try:\n"
        "        raise E\n"
        "    except E as e:\n"
        "        return e.code"
    ),
    "function attribute": ("def h():\n    return h.k\nh.k = 7777\ndef build(n):\n    return h()"),
    "decorated by a class": (
        "class Deco:\n"
        "    def __init__(self, f):\n"
        "        self.f = f\n"
        "    def __call__(self, *a):\n"
        "        return self.f(*a) + 7777\n"
        "@Deco\n"
        "def h(n):\n"
        "    return n\n"
        "def build(n):\n"
        "    return h(n)"
    ),
    "replaced builtin": (
        "import builtins\nbuiltins.divmod = lambda x, y: 7777\ndef build(n):\n    return divmod(n, 2)"
    ),
    "enumeration with methods": (
        "import enum\n"
        "class E(enum.Enum):\n"
        "    A = 1\n"
        "    def m(self):\n"
        "        return 7777\n"
        "def build(n):\n"
        "    return E.A.m()"
    ),
    "simple namespace": ("import types\nS = types.SimpleNamespace(k=7777)\ndef build(n):\n    return S.k"),
    "f-string": ("def build(n):\n    return f'{n:7777}'"),
    "match": ("def build(n):\n    match n:\n        case 7777:\n            return 1\n    return 0"),
    "walrus": ("def build(n):\n    return (y := 7777) + y"),
    "conditional import": (
        "try:\n"
        "    import nothing_here as c\n"
        "except ImportError:\n"
        "    import consts as c\n"
        "def build(n):\n"
        "    return c.VALUE"
    ),
    "class put into the standard library": (
        "import shlex\nclass Quote:\n    level = 7777\nshlex.shlex = Quote\ndef build(n):\n    return shlex.shlex()"
    ),
    "method put into the standard library": (
        "import shlex\nshlex.shlex.level = lambda self: 7777\ndef build(n):\n    return shlex.shlex.level(n)"
    ),
    "submodule that a lookup has named": ("import pack\ndef build(n):\n    return pack.sub.VALUE"),
    **{
        f"annotation, read by {reader}": (
            f"import inspect, typing\ndef h(x: 7777):\n    return x\ndef build(n):\n    return {reader}(h)"
        )
        for reader in (
            "inspect.signature",
            "inspect.getfullargspec",
            "inspect.get_annotations",
            "typing.get_type_hints",
        )
    },
}
OTHERS = {
    "consts.py": "VALUE = 7777\n",
    "hooked.py": "def __getattr__(name):\n    return 7777\n",
    "pack/__init__.py": "",
    "pack/sub.py": "VALUE = 7777\n",
}


@pytest.mark.parametrize("name", SHAPES)
def test_shape(name: str, tmp_path: pathlib.Path) -> None:
    """A number that decides the outcome decides the key."""
    keys = []
    for number in "7777", "8888":
        files = {file: text.replace("7777", number) for file, text in {**OTHERS, "recipes.py": SHAPES[name]}.items()}
        keys.append(Project(tmp_path / number, files).parts("n=1"))
    assert keys[0] != keys[1]


class TestLazily:
    """A module of the user's that a recipe imports counts the same before and after."""

    PACKAGE = {"pack/__init__.py": "", "pack/sub.py": "VALUE = 7777\n"}  # noqa: RUF012

    def test_loaded_since(self, tmp_path: pathlib.Path) -> None:
        """A submodule that is reached through its package's name, imported after the first look-up."""
        recipe = "import pack\ndef build(n):\n    import pack.sub as late\n    return pack.sub.VALUE + late.VALUE"
        project = Project(tmp_path, {**self.PACKAGE, "recipes.py": recipe})
        loaded = "reach(recipes.build, dict(n=1)); import pack.sub"
        assert project.parts("n=1", action=loaded) == project.parts("n=1")


class TestExcused:
    """A declaration of the user cures a reason against the key."""

    @staticmethod
    def recipe(n: int) -> object:
        return eval("n", {"n": n})

    def test_excused(self) -> None:
        """What is excused does not stop the walk."""
        reasons = []
        assert reach(self.recipe, {"n": 1}, lambda reason: not reasons.append(reason)).parts
        assert len(reasons) == 1
        assert reasons[0].startswith("eval runs code")

    def test_not_excused(self) -> None:
        """What is not excused does."""
        with pytest.raises(UnknownInput, match=r"TestExcused.recipe \(test_walk.py:\d+\): eval"):
            reach(self.recipe, {"n": 1}, lambda reason: False)  # noqa: ARG005


def digest_of(*held: object) -> str:
    """Return the digest of the key of a recipe that refers to these objects, in this order."""

    def build() -> object:
        return held

    return Key(reach(build, {}).parts).digest


class Thing:
    """Something that is told from its like by identity alone."""


class TestTexts:
    """What is made at run time has a text of its own, whatever its names are."""

    def test_names_in_a_class(self) -> None:
        """A name in a class body that is no identifier cannot pass for two names."""
        two = type("Made", (), {"a": 1, "b": 2})
        one = type("Made", (), {"a: 1; b": 2})
        assert digest_of(two) != digest_of(one)
        assert digest_of(two) == digest_of(type("Made", (), {"a": 1, "b": 2}))

    def test_names_of_hashes_in_a_class(self) -> None:
        """A class attribute counts although its name looks like a hash."""
        one, other = (type("Made", (), {"_hash_value": number}) for number in (1, 2))
        assert digest_of(one) != digest_of(other)

    def test_classes_made_at_run_time(self) -> None:
        """A class that is made by a function of the standard library counts by its body."""

        def made(number: int) -> list[type]:
            body = {"n": number}
            fields = [("n", int, dataclasses.field(default=number))]
            return [types.new_class("A", (), {}, lambda names: names.update(body)), make_dataclass("B", fields)]

        make_dataclass = dataclasses.make_dataclass
        for index in range(2):
            assert digest_of(made(1)[index]) == digest_of(made(1)[index]) != digest_of(made(2)[index])

    def test_numbered_names(self) -> None:
        """A name that looks like that of a second function of one name cannot pass for it."""
        digests = []
        for first in (True, False):
            functions = [lambda: 1, lambda: 2, lambda: 1]
            for function, name in zip(functions, ("f", "f", "f#2"), strict=True):
                function.__qualname__ = name
            digests.append(digest_of(*functions, functions[1] if first else functions[2]))
        assert digests[0] != digests[1]

    def test_members_of_a_set(self) -> None:
        """Whether an object is in a set counts where objects have no order; its copy in the set is another one."""
        digests = set()
        for number in range(8):
            one, other, more = (Thing() for _ in range(3))
            padding = [Thing() for _ in range(number)]  # other addresses
            assert digest_of(one, {one, other}) == digest_of(other, {one, other}), padding
            digests |= {digest_of(one, {one, other}), digest_of(more, {one, other})}
        assert len(digests) == 2

    def test_set_of_members(self) -> None:
        """Elements without an order are walked in that of their contents: functions that they hold keep their names."""

        def holding(number: int) -> Thing:
            thing = Thing()
            thing.number, thing.function = number, lambda: number  # type: ignore[attr-defined]
            return thing

        assert len({digest_of({holding(number) for number in order}) for order in ((1, 2, 3), (3, 2, 1)) * 4}) == 1

    def test_started_thread(self) -> None:
        """A function that starts threads behind kcl's back is refused by its name."""
        with pytest.raises(UnknownInput, match="starts a thread that cannot be watched"):
            digest_of(_thread.start_new_thread)

    @pytest.mark.parametrize("name", ["getcwd", "readlink"])
    def test_kept_function_of_os(self, name: str) -> None:
        """A function that is watched in `os` is refused where it is kept under a name of its own."""
        with pytest.raises(UnknownInput, match=rf"{name} is watched only where it is called as os\.{name}"):
            digest_of(getattr(os, name))
        assert Key(reach(_asking, {}).parts).digest


def _asking() -> object:
    return os.getcwd(), os.readlink("link")
