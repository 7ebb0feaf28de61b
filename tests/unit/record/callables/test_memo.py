"""kcl.record.callables.memo: a key that needs no walk is the key that a walk would find."""

from __future__ import annotations

import builtins
import importlib
import itertools
import pathlib
import sys
import textwrap
import types
from collections.abc import Callable

import numpy as np
import pytest

from kcl.record.callables import memo
from kcl.record.callables.reach import reach

FILES = {
    "recipes": """
        import functools
        import math
        import pathlib
        import string
        from {far} import picked
        import {far} as far

        TILE = 16
        NAMES = ("a", ("b", 2.5), frozenset("cd"))
        HERE = pathlib.PurePosixPath("/somewhere")

        def logged(function):
            @functools.wraps(function)
            def wrapper(*args):
                return function(*args) + TILE
            return wrapper

        @logged
        def helper(n):
            return n + 1

        def defaulted(n, by=2, *, shift=3):
            return n * by + shift

        def closing(n):
            def inner():
                return n
            return inner

        closed = closing(5)

        class Base:
            pad = 4

        class Other:
            pad = 6

        class Layout(Base):
            name = "layout"

            def size(self, n):
                return n + self.pad

            @property
            def area(self):
                return 7

            @staticmethod
            def origin():
                return 8

            @classmethod
            def make(cls):
                return cls()

        def build(n, kind=float, given=None):
            import loopy as lp
            value = helper(n) + defaulted(n) + closed() + far.used() + picked() + Layout.make().size(n)
            return lp.make_kernel(str(NAMES), string.digits, HERE, oct(n), math.sqrt(value), kind, given)

        def unsteady(n):
            return LIST

        LIST = [1]

        def documented(n):
            return helper.__doc__
    """,
    "far": """
        from {farther} import VALUE

        def used():
            return VALUE

        def picked():
            return 9

        def other():
            return 10
    """,
    "farther": "VALUE = 11",
}
_numbers = itertools.count()


def nothing(*_arguments: object) -> int:
    return 0


CHANGES: dict[str, Callable[[types.ModuleType], object]] = {
    "constant": lambda m: setattr(m, "TILE", 17),
    "type of a constant": lambda m: setattr(m, "TILE", 16.0),
    "tuple": lambda m: setattr(m, "NAMES", ("a",)),
    "path": lambda m: setattr(m, "HERE", m.pathlib.PurePosixPath("/elsewhere")),
    "function": lambda m: setattr(m, "helper", m.defaulted),
    "function's code": lambda m: setattr(m.helper.__wrapped__, "__code__", (lambda n: n + 2).__code__),
    "decorator's code": lambda m: setattr(m.logged, "__code__", (lambda f: f).__code__),
    "wrapped function": lambda m: setattr(m.helper, "__wrapped__", m.closed),
    "what a wrapper calls": lambda m: setattr(m.helper.__closure__[0], "cell_contents", m.closed),
    "attribute of a function": lambda m: setattr(m.defaulted, "level", 3),
    "attributes of a function made anew": lambda m: setattr(m.helper, "__dict__", {"__wrapped__": m.closed}),
    "name of a function": lambda m: setattr(m.defaulted, "__qualname__", "renamed"),
    "default": lambda m: setattr(m.defaulted, "__defaults__", (4,)),
    "mutable default": lambda m: setattr(m.defaulted, "__defaults__", ([4],)),
    "keyword default": lambda m: setattr(m.defaulted, "__kwdefaults__", {"shift": 5}),
    "keyword default in place": lambda m: m.defaulted.__kwdefaults__.update(shift=5),
    "keyword default gone": lambda m: m.defaulted.__kwdefaults__.clear(),
    "cell": lambda m: setattr(m.closed.__closure__[0], "cell_contents", 6),
    "recipe's code": lambda m: setattr(m.build, "__code__", m.defaulted.__code__.replace(co_name="build")),
    "class": lambda m: setattr(m, "Layout", m.Other),
    "class attribute": lambda m: setattr(m.Layout, "name", "other"),
    "new class attribute": lambda m: setattr(m.Layout, "extra", 1),
    "class attribute gone": lambda m: delattr(m.Layout, "name"),
    "method": lambda m: setattr(m.Layout, "size", nothing),
    "method's code": lambda m: setattr(m.Layout.size, "__code__", nothing.__code__),
    "property's function": lambda m: setattr(m.Layout.area.fget, "__code__", nothing.__code__),
    "property made anew": lambda m: m.Layout.__dict__["area"].__init__(nothing),
    "static method made anew": lambda m: m.Layout.__dict__["origin"].__init__(lambda: 4),
    "attribute of a base": lambda m: setattr(m.Base, "pad", 5),
    "bases": lambda m: setattr(m.Layout, "__bases__", (m.Other,)),
    "name of a class": lambda m: setattr(m.Layout, "__qualname__", "Renamed"),
    "function of another module": lambda m: setattr(m.far, "used", m.far.other),
    "constant two modules away": lambda m: setattr(m.far, "VALUE", 12),
    "name that was imported": lambda m: setattr(m, "picked", m.far.other),
    "module": lambda m: setattr(m, "far", types.SimpleNamespace(used=m.closed)),
    "name of a module": lambda m: setattr(m.far, "__name__", "renamed"),
    "module in the table": lambda m: sys.modules.pop(m.far.__name__),
    "builtin shadowed": lambda m: setattr(m, "oct", nothing),
    "builtin replaced": lambda m: setattr(builtins, "oct", m.closed),
    "library function replaced": lambda m: setattr(m.math, "sqrt", m.closed),
    "value of a library": lambda m: setattr(m.string, "digits", m.closed),
    "language version": lambda m: setattr(m, "LOOPY_USE_LANGUAGE_VERSION_2018_2", 1),
    "library loaded": lambda _: sys.modules.setdefault("loopy", types.ModuleType("loopy")),
    "place of the module": lambda m: setattr(m, "__file__", "/elsewhere/recipes.py"),
    "nothing": nothing,
    "unreached name": lambda m: setattr(m, "UNREACHED", 1),
    "unreached name in another module": lambda m: setattr(m.far, "other", None),
    "list in place of a constant": lambda m: setattr(m, "TILE", [1]),
}


@pytest.fixture
def module(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The files above under names of their own; what the process shares is put back."""
    number = next(_numbers)
    names = {name: f"memo_{name}_{number}" for name in FILES}
    for name, text in FILES.items():
        (tmp_path / f"{names[name]}.py").write_text(textwrap.dedent(text).format(**names))
    monkeypatch.syspath_prepend(str(tmp_path))
    found = importlib.import_module(names["recipes"])
    monkeypatch.setattr(builtins, "oct", oct)
    monkeypatch.setattr(found.math, "sqrt", found.math.sqrt)
    monkeypatch.setattr(found.string, "digits", found.string.digits)
    monkeypatch.setitem(sys.modules, "loopy", None)
    monkeypatch.delitem(sys.modules, "loopy")
    return found


def walked(function: Callable[..., object], arguments: dict[str, object]) -> object:
    """Return what a walk finds, or the reason why there is no key."""
    kept = dict(memo._found)
    memo._found.clear()
    try:
        return reach(function, arguments)._replace(texts=dict, origins=dict)
    except Exception as error:
        return str(error)
    finally:
        memo._found.update(kept)


def again(function: Callable[..., object], arguments: dict[str, object]) -> object:
    """Return what is found by whichever way."""
    try:
        return reach(function, arguments)._replace(texts=dict, origins=dict)
    except Exception as error:
        return str(error)


class TestSeenAgain:
    @pytest.mark.parametrize("name", CHANGES)
    def test_change(self, name: str, module: types.ModuleType) -> None:
        """Whatever is replaced, the key is that of a walk; where it is another one, nothing is remembered."""
        arguments: dict[str, object] = {"n": 3, "kind": np.float32, "given": (1, "x")}
        before = reach(module.build, arguments).parts
        assert memo.find(module.build, arguments) is not None
        CHANGES[name](module)
        found = again(module.build, arguments)
        assert found == walked(module.build, arguments)
        same = name in ("nothing", "unreached name", "unreached name in another module")
        if same:
            assert found.parts == before  # type: ignore[attr-defined]
            assert memo.find(module.build, arguments) is not None

    @pytest.mark.parametrize(
        "value",
        [1, True, 1.5, "x", None, b"y", (1, (2,)), [1, [2]], {"a": {3}}, np.int32(4), np.dtype("f4"), np.arange(9)],
        ids=str,
    )
    def test_parameter(self, value: object, module: types.ModuleType) -> None:
        """Another parameter of a plain type needs no walk."""
        reach(module.build, {"n": 3, "kind": np.float32, "given": None})
        arguments = {"n": 4, "kind": np.float32, "given": value}
        assert memo.find(module.build, arguments) is not None
        assert again(module.build, arguments) == walked(module.build, arguments)

    @pytest.mark.parametrize("name", ["function", "class", "object", "library's class", "library's object"])
    def test_parameter_that_leads_on(self, name: str, module: types.ModuleType) -> None:
        """A parameter that leads to code, or to another distribution, is walked."""
        values = {
            "function": module.defaulted,
            "class": module.Layout,
            "object": module.Layout(),
            "library's class": pytest.ExitCode,
            "library's object": pytest.ExitCode.OK,
        }
        reach(module.build, {"n": 3, "kind": float, "given": None})
        arguments = {"n": 3, "kind": float, "given": values[name]}
        assert again(module.build, arguments) == walked(module.build, arguments)
        module.Layout.pad = 13
        assert again(module.build, arguments) == walked(module.build, arguments)

    def test_other_names(self, module: types.ModuleType) -> None:
        """Other parameters given: other defaults count."""
        reach(module.build, {"n": 3, "kind": float, "given": None})
        assert again(module.build, {"n": 3}) == walked(module.build, {"n": 3})
        assert again(module.build, {"given": 3}) == walked(module.build, {"given": 3})

    @pytest.mark.parametrize("name", ["unsteady", "documented"])
    def test_what_can_change_in_place(self, name: str, module: types.ModuleType) -> None:
        """A list, or a docstring that is read, is looked at each time."""
        function = getattr(module, name)
        before = reach(function, {"n": 1}).parts
        assert memo.find(function, {"n": 1}) is None
        module.LIST.append(2)
        module.helper.__doc__ = "Another."
        assert reach(function, {"n": 1}).parts != before

    def test_texts(self, module: types.ModuleType) -> None:
        """Texts are those of these parameters."""
        reach(module.build, {"n": "x" * 1000, "kind": float, "given": "z" * 1000})
        found = reach(module.build, {"n": "y" * 1000, "kind": float, "given": 1})
        parameters = {name: text for name, text in found.texts().items() if name.startswith("parameter")}
        assert parameters == {"parameter n": repr("y" * 1000)}
        assert found.texts()["code helper"].lstrip().startswith("@logged")
        assert found.origins()["code build"][0] == module.__name__
