"""Texts of callables differ if results do, for what code seldom depends on: no launch, two versions of a program each.

What stands here is small and odd: identity, positions, layouts of memory, hooks of classes, what a program does to its
objects while it runs, and modules that the body of a pure recipe imports. Whole processes on PoCL are in the families.
"""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from kcl.record.callables.walker import reach, walked
from kcl.record.declarations import Declarations, RecipeCall

ONE_LINE = "\n\ndef recipe():\n    return {}\n"
ARRAY = "import numpy as np\n"
ENUM = "import enum\nclass E(enum.Enum):\n    A = 1\nE.A.more = 3\n"
FIELDS = "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int = {}\n"
SENTINELS = "A = object()\nB = object()\ndef given(x=A):\n    return x is A\n"

# A text, what the recipe returns, and an edit of the text.
EDITED = {
    "metadata of a field": (
        FIELDS.format("dataclasses.field(default=1, metadata={'unit': 3})"),
        "dataclasses.fields(A)[0].metadata['unit']",
        ("'unit': 3", "'unit': 4"),
    ),
    "type of a field": (
        FIELDS.format("1"),
        "dataclasses.fields(A)[0].type",
        ("x: int", "x: float"),
    ),
    "frozen dataclass": (
        FIELDS.format("1").replace("dataclass\n", "dataclass(frozen=True)\n"),
        "A.__hash__ is None",
        ("=True", "=False"),
    ),
    "attribute of a member": (
        """
        import enum
        class E(enum.Enum):
            A = (1, 3)
            def __new__(cls, value, more):
                made = object.__new__(cls)
                made._value_ = value
                made.more = more
                return made
        """,
        "E.A.more",
        ("(1, 3)", "(1, 4)"),
    ),
    "order of members": (
        "import enum\nE = enum.Enum('E', 'A B')\n",
        "[e.name for e in E]",
        ("A B", "B A"),
    ),
    "order in memory": (
        ARRAY + "V = np.array([[1, 2], [3, 4]], order='C')\n",
        "V.ravel('K').tolist()",
        ("'C'", "'F'"),
    ),
    "writable array": (
        ARRAY + "V = np.arange(3)\nV.setflags(write=True)\n",
        "V.flags.writeable",
        ("=True", "=False"),
    ),
    "metadata of a dtype": (
        ARRAY + "V = np.dtype('i4', metadata={'unit': 3})\n",
        "V.metadata['unit']",
        ("'unit': 3", "'unit': 4"),
    ),
    "payload of a NaN": (
        "import struct\nV = struct.unpack('<d', bytes.fromhex('010000000000f87f'))[0]\n",
        "struct.pack('<d', V).hex()",
        ("fromhex('01", "fromhex('02"),
    ),
    "the same list under two names": ("A = [1]\nB = [1]\n", "A is B", ("B = [1]", "B = A")),
    "the same object in a list": (
        "class O: pass\na = O()\nL = [a, O()]\n",
        "L[0] is L[1]",
        ("[a, O()]", "[a, a]"),
    ),
    "sentinels": (SENTINELS, "given()", ("x=A", "x=B")),
    "class made by exec": (
        "made = {}\nexec('class A:\\n    value = 3', made)\nA = made['A']\n",
        "A.value",
        ("= 3", "= 4"),
    ),
    "match by position": (
        """
        class P:
            __match_args__ = ("a", "b")
            a, b = 1, 2
        def found():
            match P():
                case P(x, y):
                    return x
        """,
        "found()",
        ('("a", "b")', '("b", "a")'),
    ),
    "what __prepare__ gives": (
        """
        class M(type):
            @classmethod
            def __prepare__(meta, name, bases):
                return {"x": 3}
        class A(metaclass=M): pass
        """,
        "A.x",
        ('"x": 3', '"x": 4'),
    ),
}
# A text, what the recipe returns, and something that is done in the process, where `m` is the module of the text.
DONE = {
    "attribute of a member": (ENUM, "E.A.more", "m.E.A.more = 4"),
    "attribute of a member in a container": (ENUM + "L = [E.A]\n", "L[0].more", "m.E.A.more = 4"),
    "class registered later": (
        "import abc\nclass A(abc.ABC): pass\nclass B: pass\n",
        "isinstance(B(), A)",
        "m.A.register(m.B)",
    ),
    "array behind a view": (
        ARRAY + "B = np.arange(6)\nA = B[::2]\nA.setflags(write=False)\n",
        "int(A.sum())",
        "m.B[2] = 9",
    ),
    "dictionary behind a proxy": (
        "import types\nD = {'a': 3}\nV = types.MappingProxyType(D)\n",
        "V['a']",
        "m.D['a'] = 4",
    ),
    "names of a dtype": (
        ARRAY + "T = (np.dtype([('a', 'i4')]),)\n",
        "T[0].names",
        "m.T[0].names = ('b',)",
    ),
    "cell emptied": (
        """
        def both():
            value = 3
            def get():
                try:
                    return value
                except NameError:
                    return 0
            def remove():
                nonlocal value
                del value
            return get, remove
        get, remove = both()
        """,
        "get()",
        "m.remove()",
    ),
}
# The same, but nothing changes that the recipe returns, and no text does.
EDITED_IN_VAIN = {
    "another line": (
        "def made():\n    class A:\n        x = 3\n    return A\n",
        "made().x",
        ("    return A", "\n    return A"),
    ),
    "unreached sentinel": (
        SENTINELS.replace("B = object()\n", ""),
        "given()",
        ("A = ", "B = object()\nA = "),
    ),
    "annotation, and fields of something else": (
        ARRAY + "class A:\n    x: int = 1\nD = np.dtype([('a', 'i4')])\n",
        "type(D.fields), A.x",
        ("x: int", "x: float"),
    ),
}
DONE_IN_VAIN = {
    "equal value": ("X = (1, 2)\n", "X", "m.X = tuple([1, 2])"),
    "what an abstract class remembers": (
        "import abc\nclass A(abc.ABC): pass\n",
        "isinstance(2, A)",
        "isinstance(1, m.A); issubclass(dict, m.A)",
    ),
}
FAR = "def recipe():\n    from {} import VALUE\n    return VALUE\n"
FUNCTION = "def optional():\n    from gpu import thing\n    return thing\ndef f():\n    return 3\n"
# Files beside a recipe that imports one of them in its body; the file with a 3 is edited.
IMPORTED: dict[str, dict[str, str]] = {
    "two modules away": {
        "main": FAR.format("far"),
        "far": "from farther import VALUE\n",
        "farther": "VALUE = 3\n",
    },
    "by a star": {
        "main": FAR.format("far"),
        "far": "from farther import *\n",
        "farther": "VALUE = 3\n",
    },
    "package around the module": {
        "main": FAR.format("package.near"),
        "package/__init__": "import builtins\nbuiltins.ADDED = 3\n",
        "package/near": "VALUE = ADDED\n",
    },
    "folder without a package": {"main": FAR.format("folder.near"), "folder/near": "VALUE = 3\n"},
    "relative import in a try": {
        "main": FAR.format("package.near"),
        "package/__init__": "",
        "package/near": "try:\n    from .far import VALUE\nexcept ImportError:\n    VALUE = 0\n",
        "package/far": "VALUE = 3\n",
    },
    "lazy module": {
        "main": "import kcl\neff = kcl.lazy('effects')\ndef recipe():\n    return eff.f()\n",
        "effects": "def f():\n    return 3\n",
    },
    "import for its effect": {
        "main": "import near\ndef recipe():\n    import far\n    return near.TABLE\n",
        "near": "TABLE = []\n",
        "far": "import near\nnear.TABLE.append(3)\n",
    },
    "import that is not reached, and fails": {
        "main": "def recipe():\n    import helper\n    return helper.f()\n",
        "gpu/__init__": "raise RuntimeError('no GPU')\n",
        "gpu/thing": "",
        "helper": FUNCTION,
    },
}


@pytest.fixture
def load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, Mapping[str, str]], ModuleType]]:
    """Import a program from a folder; each time anew."""
    before = {*sys.modules}

    def forget() -> None:
        for name in {*sys.modules} - before:
            if (getattr(sys.modules[name], "__file__", None) or str(tmp_path)).startswith(
                str(tmp_path)
            ):
                sys.modules.pop(name)

    def load(folder: str, files: Mapping[str, str]) -> ModuleType:
        for name, text in files.items():
            path = tmp_path / folder / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        forget()
        monkeypatch.syspath_prepend(tmp_path / folder)
        return importlib.import_module("main")

    yield load
    forget()


def told(module: ModuleType) -> tuple[str, str]:
    """Return what a callable counts by, and what it returns."""
    return walked(module.recipe).digest, repr(module.recipe())


def both(load: Any, text: str, result: str, change: Any) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return what is told before a change and after it; asking alone changes nothing."""
    text = textwrap.dedent(text) + ONE_LINE.format(result)
    module = load("before", {"main": text})
    told(module)
    before = told(module)
    if isinstance(change, str):
        exec(change, {"m": module, "np": np})
        return before, told(module)
    assert text.count(change[0]) == 1
    return before, told(load("after", {"main": text.replace(*change)}))


class TestCallables:
    @pytest.mark.parametrize(
        "row", [*EDITED.values(), *DONE.values()], ids=[*EDITED, *(f"{one}, done" for one in DONE)]
    )
    def test_different(self, load: Any, row: Any) -> None:
        """Another result, another text."""
        (key, result), (other, another) = both(load, *row)
        assert result != another
        assert key != other

    @pytest.mark.parametrize(
        "row",
        [*EDITED_IN_VAIN.values(), *DONE_IN_VAIN.values()],
        ids=[*EDITED_IN_VAIN, *DONE_IN_VAIN],
    )
    def test_same(self, load: Any, row: Any) -> None:
        """The same result, the same text."""
        before, after = both(load, *row)
        assert before == after


class TestPureRecipes:
    @staticmethod
    def parts(load: Any, folder: str, files: Mapping[str, str]) -> Any:
        """Return the key of a recipe, whose modules are not imported for it."""
        module = load(folder, files)
        before = {*sys.modules}
        found = reach(RecipeCall("recipe", module.recipe, {}, Declarations((), "1", pure=True)))[0]
        assert not ({*sys.modules} - before) & {name.partition("/")[0] for name in files}
        return found

    @pytest.mark.parametrize("files", IMPORTED.values(), ids=IMPORTED)
    def test_imported(self, load: Any, files: Mapping[str, str]) -> None:
        """A module that the body imports counts by its files, wherever it lies, and does not run for the key."""
        edited = {name: text.replace("3", "4") for name, text in files.items()}
        assert edited != files
        key = self.parts(load, "before", files)
        assert self.parts(load, "beside", files) == key
        assert self.parts(load, "after", edited) != key

    def test_module_that_nobody_imports(self, load: Any) -> None:
        """A package that is asked for a module of its own has the modules that were imported, and no other."""
        main = (
            "def recipe():\n    import package\n    return getattr(package, 'fast', None) is None\n"
        )
        files = {"main": main, "package/__init__": "", "package/fast": ""}
        self.parts(load, "before", files)
        assert sys.modules["main"].recipe()
