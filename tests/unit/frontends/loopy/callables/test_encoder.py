"""kcl.frontends.loopy.callables.encoder: the text of a value."""

import decimal
import enum
import fractions
import functools
import re
import sys
import textwrap
import types
from typing import ClassVar

import numpy as np
import pymbolic.primitives as p
import pyopencl as cl
import pyopencl.array
import pytest
from different_values import ALIGNED, DIFFERENT, Data, Name, Plain, Word
from hypothesis import given, settings
from hypothesis import strategies as st
from packages import import_again, write_packages

from kcl.errors import UnknownInput
from kcl.frontends.loopy import held
from kcl.frontends.loopy.callables.content import content


def encode(value):
    return content(value).text


class Helpful:
    def width(self):
        return 1


class Helped(enum.Enum):
    A = 1

    def width(self):
        return 1


class Ordered:
    def __iter__(self):
        yield 1


class Wordless:
    def __kcl_key__(self):
        raise RuntimeError("no word")


SAME = [
    ({1, 2, 3}, {3, 2, 1}),
    (frozenset({"a", "b"}), frozenset({"b", "a"})),
    (Data(1), Data(1)),
    (Word("a"), Word("a")),
    (Plain(a=1, b=2), Plain(b=2, a=1)),
    (np.arange(6).reshape(2, 3), np.arange(12)[:6].reshape(2, 3)),
    (np.dtype("=f4"), np.dtype(np.float32)),
    (np.dtype("<f4"), np.dtype("float32")),
    (decimal.Decimal("1.5"), decimal.Decimal("1.5")),
    (re.compile("a b"), re.compile("a b")),
    (re.match("a(b)?", "abc"), re.match("a(b)?", "abc")),
    ("x" * 1000, "x" * 500 + "x" * 500),
    (np.arange(6), np.arange(6).copy()),
    # Bytes between the fields of a structure do not count.
    tuple(np.frombuffer(bytes([1, gap, gap, gap, 2, 0, 0, 0]), ALIGNED) for gap in (0, 9)),
]


class TestTexts:
    """Texts are equal exactly where values are, type for type."""

    def test_different_values(self):
        """Values of which no two are alike have as many texts."""
        texts = {}
        for value in DIFFERENT:
            text = encode(value)
            assert text not in texts, f"{value!r} and {texts[text]!r} are both {text}"
            texts[text] = value

    @pytest.mark.parametrize(("one", "other"), SAME)
    def test_same_values(self, one, other):
        """Values that nothing tells apart have one text."""
        assert encode(one) == encode(other)

    def test_readable(self):
        """Short values read as they are written; a long one counts by its digest."""
        assert encode({"block": (16, 4.0), "name": None}) == "{'block': (16, 4.0,), 'name': None}"
        assert re.fullmatch("sha256 [0-9a-f]{64}", encode("x" * 10000))

    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(st.integers() | st.text() | st.tuples(st.integers(), st.text()), unique_by=repr)
    )
    def test_sets(self, values):
        """The order in which a set was filled does not count."""
        assert encode(set(values)) == encode({*values[::-1]})


class TestObjects:
    """Objects count by class and content."""

    def test_shared_many_times(self):
        value = Plain(a=1)
        for _ in range(40):
            value = Plain(left=p.Sum((value, value)), right=frozenset((value, 1)))
        assert len(encode(value)) < 600

    def test_memos_of_libraries(self):
        """What pytools and pymbolic remember on an object does not count."""
        memos = {"_memoize_dic_f": {(): 3}, "_pytools_persistent_hash_digest": b"1"}
        assert encode(Plain(a=1, **memos)) == encode(Plain(a=1))

    @pytest.mark.parametrize("name", ["_hash_value", "_cached_hash", "_cache_hash_bits"])
    def test_name_of_a_hash(self, name):
        """An attribute of the user's counts although its name looks like a hash."""
        assert encode(Plain(**{name: 1})) != encode(Plain(**{name: 2}))

    def test_names_of_attributes(self):
        """A name that is no identifier is quoted, so that it cannot pass for two attributes or for another type."""
        two, one, number, text = Plain(a=1, b=2), Plain(**{"a=1, b": 2}), Plain(), Plain(**{"1": 2})
        number.__dict__[1] = 2
        assert len({encode(value) for value in (two, one, number, text)}) == 4
        assert encode(Plain(a=1)).endswith("(a=1)")

    def test_unknown(self, context):
        """What has a state that cannot be read is refused, with the cure."""
        memory = cl.array.zeros(cl.CommandQueue(context), 4, np.float32)
        for value in (
            *((i for i in ()), iter([]), map(str, []), sys.stdout, np.frompyfunc(abs, 1, 1)),
            *(np.ma.masked_array([1, 2], [True, False]), *context.devices, context, memory),
        ):
            with pytest.raises(UnknownInput, match="__kcl_key__"):
                encode(value)


def factory(number):
    def made():
        return number

    return made


class Called:
    def __call__(self):
        return 1


class Overriding(Name):
    def __str__(self):
        return "mine"


class TestCode:
    """Code has no text: that of installed packages counts by name and files, that of the program is refused."""

    CODE: ClassVar = {
        "function": factory(1),
        "partial": functools.partial(factory(1)),
        "object": Called(),
        "class": Called,
        "method": Called().__call__,
        "override": Overriding("a"),
        "lambda": [lambda: 1],
        "module": sys.modules[__name__],
        "method of an argument": functools.partial(textwrap.dedent, Helpful()),
        "method of a member": functools.partial(textwrap.dedent, Helped.A),
        "method that Python calls": Ordered(),
    }
    NAMESAKES: ClassVar = {
        "module": types.ModuleType("textwrap"),
        "partial": type("partial", (), {"__module__": "functools", "func": len, "args": ()})(),
        "scalar": type("Scalar", (np.float64,), {})(1),
    }

    @pytest.mark.parametrize("value", CODE.values(), ids=CODE)
    def test_of_the_program(self, value):
        """Code of the program is refused by its name, with the cure."""
        with pytest.raises(UnknownInput, match=r"is code of the program.*__kcl_key__"):
            encode(value)

    def test_place(self):
        """A function of the program is named with its file and line."""
        with pytest.raises(UnknownInput, match=r"made \(test_encoder\.py:\d+\) is code of the"):
            encode(factory(1))

    @pytest.mark.parametrize("value", NAMESAKES.values(), ids=NAMESAKES)
    def test_name_of_another(self, value):
        with pytest.raises(UnknownInput, match="cannot be known"):
            encode(value)

    def test_program_of_a_command(self, child):
        """A class in the text of `python -c` counts as any other class of the program."""
        text = """
            import dataclasses
            from kcl.errors import UnknownInput
            from kcl.frontends.loopy.callables.content import content
            @dataclasses.dataclass(frozen=True)
            class Plain:
                one: int = 1
            class Ordered(Plain):
                def __iter__(self): yield 1
            print(content(Plain()).text)
            try:
                content(Ordered())
            except UnknownInput as error:
                print("is code of the program" in str(error))
            """
        plain = "__main__.Plain(__main__.Plain.one=1, one=1)"
        assert child.run(text).stdout.splitlines() == [plain, "True"]

    def test_error_of_the_program(self):
        """An error of the program's code is a reason why there is no key, and no error of the run."""
        with pytest.raises(UnknownInput, match="RuntimeError: no word"):
            encode(Wordless())

    def test_of_python(self):
        """Functions and classes of Python count by name, and nothing of them is a part."""
        values = [functools.reduce, textwrap.dedent, textwrap.indent, fractions.Fraction]
        assert len({encode(value) for value in values}) == len(values)
        assert encode(functools.reduce) == "_functools.reduce"
        assert not any(content(value).parts for value in values)

    PACKAGE = """
import functools, attrs
def get(n=1): return n
def factory(number):
    def made(): return number
    return made
class Tool:
    def __init__(self, number): self.number = number
    def __call__(self): return self.number
def both(): return [lambda: 1, lambda: 2]
def made(number):
    class Made:
        def width(self): return number
    return Made
@attrs.frozen
class Kept:
    one: int = 1
"""

    @pytest.mark.usefixtures("no_packages")
    def test_of_an_installed_package(self, tmp_path, monkeypatch):
        """It counts by name and files, and by what functions and objects hold; test_held.py has what was changed in it."""
        write_packages(tmp_path, {"packed.py": self.PACKAGE}, packed=[])
        monkeypatch.syspath_prepend(tmp_path)
        (module,) = import_again("packed")
        held.take(["packed"])
        values = [
            *(module.get, module.factory(1), module.factory(2), module.Tool(1), module.Tool(2)),
            *(functools.partial(module.get, 1), functools.partial(module.get, 2)),
            *(module.Tool(1).__call__, module.Tool(2).__call__, *module.both()),
            *(module.made(1), module.made(2), module.Kept()),
        ]
        assert len({content(value).digest for value in values}) == len(values)
        parts = {part.name for part in content(values).parts}
        assert {"distribution packed", "held by packed"} <= parts
        before = content(values).digest
        module.get.__defaults__ = (2,)
        assert content(values).digest != before
        module.get = factory(1)
        with pytest.raises(UnknownInput, match="is code of the program"):
            content(module.factory(1))
        del sys.modules["packed"]
