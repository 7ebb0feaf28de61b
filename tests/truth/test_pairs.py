"""Texts of callables differ if results do, for what code seldom depends on: no launch, two versions of a project each.

A callable that reads what no key holds is refused, and then loopy generates. What stands here is small and odd:
identity, positions, layouts of memory, hooks of classes, what a program does to its modules while it runs. Whole
processes on PoCL are in the families.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import Any

import pytest
from harness import ROOT, SUPPORT

ONE_LINE = "\n\ndef recipe():\n    return {}\n"


def pair(text: str, before: str, after: str, result: str = "", **files: str) -> dict[str, Any]:
    """Make a row of an edit in the only file that holds `before`; `result` is what the recipe returns."""
    every = {name.replace("__in__", "/") + ".py": textwrap.dedent(body) for name, body in files.items()}
    every["main.py"] = textwrap.dedent(text) + (ONE_LINE.format(result) if result else "")
    assert [before in body for body in every.values()].count(True) == 1, before
    return {"files": every, "other": {name: body.replace(before, after) for name, body in every.items()}}


def packed(form: str, row: dict[str, Any]) -> dict[str, Any]:
    """Make a row of a project that is an archive, or of compiled files alone."""
    return {**row, "form": form}


def act(text: str, change: str, result: str = "", **files: str) -> dict[str, Any]:
    """Make a row of something that is done in the process, where `m` is the recipe's module."""
    every = {name.replace("__in__", "/") + ".py": textwrap.dedent(body) for name, body in files.items()}
    every["main.py"] = textwrap.dedent(text) + (ONE_LINE.format(result) if result else "")
    return {"files": every, "change": change}


LAZILY = "def recipe():\n    import far\n    return far.VALUE\n"
PACKAGE = "def recipe():\n    from package.near import found\n    return found()\n"
DEEPER = pair(LAZILY, "= 3", "= 4", far="from farther import VALUE\n", farther="VALUE = 3\n")
FIELDS = "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int = {}\n"
ARRAY = "import numpy as np\n"
SENTINELS = "A = object()\nB = object()\n"

DIFFERENT: dict[str, dict[str, Any]] = {
    "parent package that is not loaded": pair(
        PACKAGE,
        "ADDED = 3",
        "ADDED = 4",
        package__in____init__="import builtins\nbuiltins.ADDED = 3\n",
        package__in__near="def found():\n    return ADDED\n",
    ),
    "name put into builtins": pair("import builtins\nbuiltins.ADDED = 3\n", "= 3", "= 4", "ADDED"),
    "function put into builtins": pair("import builtins\nbuiltins.ADDED = max\n", "max", "min", "ADDED(1, 2)"),
    "metadata of a field": pair(
        FIELDS.format("dataclasses.field(default=1, metadata={'unit': 3})"),
        "'unit': 3",
        "'unit': 4",
        "dataclasses.fields(A)[0].metadata['unit']",
    ),
    "type of a field": pair(FIELDS.format("1"), "x: int", "x: float", "dataclasses.fields(A)[0].type"),
    "frozen dataclass": pair(
        FIELDS.format("1").replace("dataclass\n", "dataclass(frozen=True)\n"), "=True", "=False", "A.__hash__ is None"
    ),
    "attribute of a member": pair(
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
        "(1, 3)",
        "(1, 4)",
        "E.A.more",
    ),
    "order of members": pair("import enum\nE = enum.Enum('E', 'A B')\n", "A B", "B A", "[e.name for e in E]"),
    "order in memory": pair(
        ARRAY + "V = np.array([[1, 2], [3, 4]], order='C')\n", "'C'", "'F'", "V.ravel('K').tolist()"
    ),
    "writable array": pair(
        ARRAY + "V = np.arange(3)\nV.setflags(write=True)\n", "=True", "=False", "V.flags.writeable"
    ),
    "mask": pair(ARRAY + "V = np.ma.array([1, 2], mask=[0, 1])\n", "[0, 1]", "[1, 0]", "int(V.sum())"),
    "attribute of an array's subclass": pair(
        ARRAY + "class T(np.ndarray): pass\nV = np.zeros(2).view(T)\nV.tag = 3\n", "tag = 3", "tag = 4", "V.tag"
    ),
    "metadata of a dtype": pair(
        ARRAY + "V = np.dtype('i4', metadata={'unit': 3})\n", "'unit': 3", "'unit': 4", "V.metadata['unit']"
    ),
    "payload of a NaN": pair(
        "import struct\nV = struct.unpack('<d', bytes.fromhex('010000000000f87f'))[0]\n",
        "fromhex('01",
        "fromhex('02",
        "struct.pack('<d', V).hex()",
    ),
    "class registered with an abstract one": pair(
        "import abc\nclass A(abc.ABC): pass\nclass B: pass\nA.register(B)\n", "A.register(B)", "", "isinstance(B(), A)"
    ),
    "module of a class": pair("class A:\n    __module__ = 'one'\n", "'one'", "'two'", "A.__module__"),
    "docstring by getattr": pair("class A:\n    'three'\n", "three", "four", "getattr(A, '__doc__')"),
    "the same list under two names": pair("A = [1]\nB = [1]\n", "B = [1]", "B = A", "A is B"),
    "the same object in a list": pair("class O: pass\na = O()\nL = [a, O()]\n", "[a, O()]", "[a, a]", "L[0] is L[1]"),
    "sentinels": pair(SENTINELS + "def given(x=A):\n    return x is A\n", "x=A", "x=B", "given()"),
    "sentinel as a recipe's default": pair(
        SENTINELS + "def recipe(x=A):\n    return x is A\nARGUMENTS = {'x': recipe.__defaults__[0]}\n", "x=A", "x=B"
    ),
    "class made by exec": pair(
        "made = {}\nexec('class A:\\n    value = 3', made)\nA = made['A']\n", "= 3", "= 4", "A.value"
    ),
    "hook of a module that is not loaded": pair(
        LAZILY, "return 3", "return 4", far="def __getattr__(name):\n    return 3\n"
    ),
    "module of a package that is not loaded": pair(
        "def recipe():\n    from package import near\n    return near.VALUE\n",
        "= 3",
        "= 4",
        package__in____init__="",
        package__in__near="VALUE = 3\n",
    ),
    "module of a package in a package that is not loaded": pair(
        "def recipe():\n    import package.inner.near as near\n    return near.found()\n",
        "= 3",
        "= 4",
        package__in____init__="",
        package__in__inner__in____init__="",
        package__in__inner__in__near="from .. import far\ndef found():\n    return far.deep.VALUE\n",
        package__in__far__in____init__="from . import deep\n",
        package__in__far__in__deep="VALUE = 3\n",
    ),
    "module in a folder without a package": pair(
        "def recipe():\n    from folder import near\n    return near.VALUE\n",
        "= 3",
        "= 4",
        folder__in__near="VALUE = 3\n",
    ),
    "second name of an import": pair(
        "def recipe():\n    from package import near, far\n    return near.VALUE\n",
        "changed.VALUE = 3",
        "changed.VALUE = 4",
        package__in____init__="",
        package__in__near="VALUE = 2\n",
        package__in__far="from package import near as changed\nchanged.VALUE = 3\n",
    ),
    "the first of two imports": pair(
        "import package\ndef recipe():\n    try:\n        from package import fast as near\n"
        "    except ImportError:\n        from package import slow as near\n    return near.VALUE\n",
        "= 3",
        "= 4",
        package__in____init__="",
        package__in__fast="VALUE = 3\n",
        package__in__slow="VALUE = 2\n",
    ),
    "relative import in a try": pair(
        "from package.near import recipe\n",
        "= 3",
        "= 4",
        package__in____init__="",
        package__in__near="def recipe():\n    try:\n        from .far import VALUE\n    except ImportError:\n"
        "        return 0\n    return VALUE\n",
        package__in__far="VALUE = 3\n",
    ),
    "import in the body of a class": pair(
        "import far as near\ndef recipe():\n    class A:\n        import math as near\n        def value(self):\n"
        "            return near.VALUE\n    return A().value()\n",
        "= 3",
        "= 4",
        far="VALUE = 3\n",
    ),
    "import for its effect alone": pair(
        "import near\ndef recipe():\n    import far\n    return near.TABLE\n",
        "append(3)",
        "append(4)",
        near="TABLE = []\n",
        far="import near\nnear.TABLE.append(3)\n",
    ),
    "import that may fail": act(
        "def recipe():\n    try:\n        import appearing\n    except ImportError:\n        return 0\n    return 1\n",
        "import importlib; open(sys.path[0] + '/appearing.py', 'w').close(); importlib.invalidate_caches()",
    ),
    "module of a package, in place": act(
        "def recipe():\n    from package import near\n    return near.VALUE\n",
        "import package.near; package.near.VALUE = 4",
        package__in____init__="",
        package__in__near="VALUE = 3\n",
    ),
    "archive": packed("archive", pair(LAZILY, "= 3", "= 4", far="VALUE = 3\n")),
    "archive: two modules away": packed("archive", DEEPER),
    "archive: package": packed(
        "archive",
        pair(
            PACKAGE,
            "= 3",
            "= 4",
            package__in____init__="",
            package__in__near="from .inner import VALUE\ndef found():\n    return VALUE\n",
            package__in__inner="VALUE = 3\n",
        ),
    ),
    "compiled files alone": packed("compiled", pair(LAZILY, "= 3", "= 4", far="VALUE = 3\n")),
    "compiled files alone: two modules away": packed("compiled", DEEPER),
    "star import in a module that is not loaded": pair(
        LAZILY, "VALUE = 3", "VALUE = 4", far="from farther import *\n", farther="VALUE = 3\n"
    ),
    "match by position": pair(
        """
        class P:
            __match_args__ = ("a", "b")
            a, b = 1, 2
        def recipe():
            match P():
                case P(x, y):
                    return x
        """,
        '("a", "b")',
        '("b", "a")',
    ),
    "what __prepare__ gives": pair(
        """
        class M(type):
            @classmethod
            def __prepare__(meta, name, bases):
                return {"x": 3}
        class A(metaclass=M): pass
        """,
        '"x": 3',
        '"x": 4',
        "A.x",
    ),
    "attribute of a member, in place": act(
        "import enum\nclass E(enum.Enum):\n    A = 1\nE.A.more = 3\n", "m.E.A.more = 4", "E.A.more"
    ),
    "member as a parameter": act(
        "import enum\nclass E(enum.Enum):\n    A = 1\nE.A.more = 3\ndef recipe(e):\n    return e.more\n"
        "ARGUMENTS = {'e': E.A}\n",
        "m.E.A.more = 4",
    ),
    "class registered later": act(
        "import abc\nclass A(abc.ABC): pass\nclass B: pass\n", "m.A.register(m.B)", "isinstance(B(), A)"
    ),
    "name put into builtins, in place": act(
        "import builtins\nbuiltins.ADDED = 3\n", "import builtins; builtins.ADDED = 4", "ADDED"
    ),
    "function of a library replaced by one without a module": act(
        "import textwrap\n", "exec('import textwrap; textwrap.dedent = lambda t: 3', {})", "textwrap.dedent(' a')"
    ),
    "value of the standard library": act("import string\n", "import string; string.digits = '9'", "string.digits"),
    "array behind a view": act(
        ARRAY + "B = np.arange(6)\nA = B[::2]\nA.setflags(write=False)\n", "m.B[2] = 9", "int(A.sum())"
    ),
    "dictionary behind a proxy": act(
        "import types\nD = {'a': 3}\nV = types.MappingProxyType(D)\n", "m.D['a'] = 4", "V['a']"
    ),
    "names of a dtype in place": act(ARRAY + "T = (np.dtype([('a', 'i4')]),)\n", "m.T[0].names = ('b',)", "T[0].names"),
    "cell emptied": act(
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
        "m.remove()",
        "get()",
    ),
    "module reloaded": act(
        "import far\n",
        "import importlib; open(m.far.__file__, 'w').write('VALUE = 44'); importlib.reload(m.far)",
        "far.VALUE",
        far="VALUE = 3\n",
    ),
    "module that appears": act(
        "def recipe():\n    try:\n        import appearing\n    except ImportError:\n        return 0\n"
        "    return appearing.VALUE\n",
        "import importlib; open(sys.path[0] + '/appearing.py', 'w').write('VALUE = 4'); importlib.invalidate_caches()",
    ),
    "module that is shadowed": act(
        LAZILY,
        "import importlib, os; os.mkdir(sys.path[0] + '/first'); sys.path.insert(0, sys.path[0] + '/first'); "
        "open(sys.path[0] + '/far.py', 'w').write('VALUE = 4'); del sys.modules['far']; importlib.invalidate_caches()",
        far="VALUE = 3\n",
    ),
}

SAME: dict[str, dict[str, Any]] = {
    "compiled files that lie elsewhere": packed("compiled", pair(LAZILY, "far", "far", far="VALUE = 3\n")),
    "archive that lies elsewhere": packed("archive", pair(LAZILY, "far", "far", far="VALUE = 3\n")),
    "package that the driver imports later": act(
        PACKAGE,
        "[sys.modules.pop(name) for name in ('package.near', 'package.inner', 'package')]; import package.near",
        package__in____init__="",
        package__in__near="from package import inner\ndef found():\n    return inner.VALUE\n",
        package__in__inner="VALUE = 3\n",
    ),
    "class with a name of its own in a function": pair(
        "def made():\n    class A:\n        x = 3\n    return A\n", "    return A", "\n    return A", "made().x"
    ),
    "equal value": act("X = (1, 2)\n", "m.X = tuple([1, 2])", "X"),
    "folder of modules without a package": pair(
        "def recipe():\n    from folder import near\n    return near.VALUE\n",
        "4",
        "5",
        folder__in__near="VALUE = 3\n",
        folder__in__unreached="VALUE = 4\n",
    ),
    "annotation, and fields of something else": pair(
        ARRAY + "class A:\n    x: int = 1\nD = np.dtype([('a', 'i4')])\n", "x: int", "x: float", "type(D.fields), A.x"
    ),
    "fill value of a masked array": act(
        ARRAY + "V = np.ma.array([1, 2], mask=[0, 1])\n", "m.V.fill_value; m.V[:1]", "int(V.sum())"
    ),
    "what an abstract class remembers": act(
        "import abc\nclass A(abc.ABC): pass\n", "isinstance(1, m.A); issubclass(dict, m.A)", "isinstance(2, A)"
    ),
    "unreached sentinel": pair(SENTINELS + "def given(x=A):\n    return x is A\n", "B = object()", "B = A", "given()"),
}

WITHOUT_KEY: dict[str, dict[str, Any]] = {
    "line number": pair("def f(): pass\n", "def f", "\ndef f", "f.__code__.co_firstlineno"),
    "function of numpy made of one of Python": pair(
        ARRAY + "U = np.frompyfunc(lambda a: a + 3, 1, 1)\n", "a + 3", "a + 4", "U(1)"
    ),
    "configuration that an import reads": pair(
        LAZILY,
        "x.ini",
        "y.ini",
        far="import configparser\nc = configparser.ConfigParser()\nc.read('x.ini')\nVALUE = c.sections()\n",
    ),
    "variable that an import reads by a computed name": pair(
        LAZILY, "or 3", "or 4", far="import os\nVALUE = getattr(os, 'envi' + 'ron').get('NOBODY_SET_THIS') or 3\n"
    ),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one child found of all rows."""
    done = subprocess.run(
        [sys.executable, "-B", str(SUPPORT / "truth_pairs.py")],
        input=json.dumps(DIFFERENT | SAME | WITHOUT_KEY),
        cwd=tmp_path_factory.mktemp("pairs"),
        env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class TestPairs:
    @pytest.mark.parametrize("name", DIFFERENT)
    def test_different(self, name: str, answers: dict[str, Any]) -> None:
        """Another result, another text, or a refusal."""
        (key, result), (other, another) = answers[name]
        assert result != another
        assert key != other or "refused" in key

    @pytest.mark.parametrize("name", SAME)
    def test_same(self, name: str, answers: dict[str, Any]) -> None:
        """The same result, the same text or the same refusal."""
        (key, result), (other, another) = answers[name]
        assert (key, result) == (other, another)

    @pytest.mark.parametrize("name", WITHOUT_KEY)
    def test_without_key(self, name: str, answers: dict[str, Any]) -> None:
        """What no key holds is refused, with the line."""
        for key, _result in answers[name]:
            assert "refused: recipe (main.py:" in key
