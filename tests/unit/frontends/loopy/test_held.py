"""kcl.frontends.loopy.held: what was changed in packages since their import."""

import importlib
import pathlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from harness import Child

from kcl.errors import UnknownInput
from kcl.frontends import FACED
from kcl.frontends.loopy import baseline, held
from kcl.frontends.loopy.callables.content import content
from kcl.generate import distributions

NEAR = "def get():\n    import far\n    return far.get()\n"
FAR = """
    import threading, types
    import numpy as np
    LIMIT, SCALE, LOCK, _LAZY = 1, np.float64(1), threading.Lock(), None
    TABLE, NAMES = {"inner": [1]}, {1}
    config = types.SimpleNamespace(limit=1)
    def get(number=1, *, more=1): return number
    class Base:
        limit = 1
        class Inner:
            limit = 1
        def get(self, number=1): return number
        @staticmethod
        def of(number=1): return number
    class Derived(Base):
        pass
    class Slotted:
        __slots__ = ("limit",)
    thing, slotted = Derived(), Slotted()
    thing.limit = slotted.limit = 1
    """
# What a program changes in a package that another one requires, by the name of the case.
CHANGES = {
    "a variable": "far.LIMIT = 2",
    "a variable of another type": "far.LIMIT = True",
    "a scalar of numpy": "far.SCALE = far.np.float64(2)",
    "a new variable": "far.more = 2",
    "a variable that is gone": "del far.LIMIT",
    "an attribute of a base class": "far.Base.limit = 2",
    "an attribute of an inner class": "far.Base.Inner.limit = 2",
    "a class": "exec('class Base: limit = 2', vars(far))",
    "a method": "far.Base.get = far.get",
    "an item of a table": "far.TABLE['more'] = 2",
    "an item of an inner table": "far.TABLE['inner'][0] = 2",
    "an element of a set": "far.NAMES.add(2)",
    "an attribute of an object": "far.config.limit = 2",
    "an attribute of an object of the package": "far.thing.limit = 2",
    "a slot": "far.slotted.limit = 2",
    "defaults": "far.get.__defaults__ = (2,)",
}
# Python tells of these only where kcl attended to the import.
TOLD = {
    "an attribute of a function": "far.get.more = 2",
    "code": "far.get.__code__ = (lambda number=1, *, more=1: 2).__code__",
    "keyword defaults": "far.get.__kwdefaults__ = {'more': 2}",
    "defaults of a method": "far.Base.get.__defaults__ = (2,)",
    "defaults of a static method": "far.Base.of.__defaults__ = (2,)",
    "bases of a class": "far.Derived.__bases__ = (far.Base.Inner,)",
}


@pytest.fixture(params=["attended", "early"])
def load(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Any]]:
    """Return a function that imports two installed packages, of which one requires the other, once more."""
    known, others, base = (
        distributions.InstallationMemos(),
        held.ComparedPackages(),
        baseline.TakenModules(),
    )
    monkeypatch.setattr(distributions, "_state", lambda: known)
    monkeypatch.setattr(held, "_state", lambda: others)
    monkeypatch.setattr(baseline, "state", lambda: base)
    for name, text in (("near", NEAR), ("far", FAR)):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        (tmp_path / f"{name}-1.dist-info").mkdir()
        (tmp_path / f"{name}-1.dist-info" / "RECORD").write_text(f"{name}.py,sha256=1,1\n")
    (tmp_path / "near-1.dist-info" / "METADATA").write_text("Name: near\nRequires-Dist: far\n")
    monkeypatch.syspath_prepend(tmp_path)

    def loaded() -> Any:
        for name in ("near", "far"):
            sys.modules.pop(name, None)
            importlib.import_module(name)
        if request.param == "attended":
            held.take(["near", "far"])
        return sys.modules["near"], sys.modules["far"]

    yield loaded
    for name in ("near", "far"):
        sys.modules.pop(name, None)


class TestText:
    """A callable of a package counts by what is changed in the modules of what the package requires."""

    def test_changes(self, load: Callable[[], Any], request: pytest.FixtureRequest) -> None:
        """Each change of a required package is another key, also after a first look; without one, keys are equal."""
        is_attended = request.node.callspec.params["load"] == "attended"
        found = {}
        for title, change in {"": "", **CHANGES, **(TOLD if is_attended else {})}.items():
            near, far = load()
            before = content(near.get).digest
            assert before == content(near.get).digest == found.setdefault("", before)
            exec(change, {"far": far})
            found[title] = content(near.get).digest
        same = {
            title: [other for other in found if found[other] == one] for title, one in found.items()
        }
        assert not {title: titles for title, titles in same.items() if len(titles) > 1}

    def test_changed_again(self, load: Callable[[], Any]) -> None:
        """A change within what a program has put there counts, too."""
        near, far = load()
        far.TABLE = {"inner": [2]}
        before = content(near.get).digest
        far.TABLE["inner"][0] = 3
        assert content(near.get).digest != before

    def test_imported_later(self, load: Callable[[], Any]) -> None:
        """A module that is imported after a look counts as one that was there before it."""
        found = []
        for is_later in (False, True):
            near, far = load()
            near.more = far.LIMIT = 2
            if is_later:
                del sys.modules["far"]
                found.append(content(near.get).digest)
                sys.modules["far"] = far
            found.append(content(near.get).digest)
        assert found[0] == found[2] != found[1]
        far.LIMIT = 3
        assert content(near.get).digest != found[0]

    @pytest.mark.parametrize("load", ["attended"], indirect=True)
    def test_after_an_error(self, load: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
        """A change that an error kept from being compared is found by the next key."""
        near, far = load()
        before, asked = content(near.get).digest, list[object]()

        def fail(*_arguments: object) -> None:
            asked.append(None)
            raise RuntimeError("dictionary changed size during iteration")

        far.LIMIT = 2
        with monkeypatch.context() as patch:
            patch.setattr(held, "_is_as_taken", fail)
            with pytest.raises(UnknownInput):
                content(near.get)
        assert asked
        assert content(near.get).digest != before

    def test_code_of_the_program(self, load: Callable[[], Any]) -> None:
        """A function of the program in a required package has no key."""
        near, far = load()
        far.get = load
        with pytest.raises(UnknownInput, match="is code of the program"):
            content(near.get)

    def test_what_counts_for_nothing(self, load: Callable[[], Any]) -> None:
        """A module that is imported below its package, and names of Python's, change no key."""
        near, far = load()
        before = content(near.get).digest
        far.__warningregistry__ = {}
        setattr(far, FACED, False)
        sys.modules["far.deep"] = far.deep = type(sys)("far.deep")
        held.take(["far.deep"])
        try:
            assert content(near.get).digest == before
        finally:
            del sys.modules["far.deep"]

    def test_graphs(self, load: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
        """Of what a package of graphs requires, the other packages of graphs count."""
        near, far = load()
        for names, is_same in ((("near",), True), (("near", "far"), False)):
            monkeypatch.setattr(distributions, "GRAPHS", names)
            held._state().packages.clear()
            before = content(near.get).digest
            far.LIMIT += 1
            assert (content(near.get).digest == before) is is_same

    def test_hash_seed(self, child: Child, tmp_path: pathlib.Path) -> None:
        """The order of a frozenset is in no key."""
        (tmp_path / "pack-1.dist-info").mkdir()
        (tmp_path / "pack-1.dist-info" / "RECORD").write_text("pack.py,sha256=1,1")
        (tmp_path / "pack.py").write_text("NAMES = frozenset('abcdefgh')\ndef get(): pass\n")
        code = f"""
            import json, sys
            sys.path.insert(0, {str(tmp_path)!r})
            import pack
            from kcl.frontends.loopy.callables.content import content
            print(json.dumps(content(pack.get).digest))
            """
        found = {child.json(code, PYTHONHASHSEED=str(seed)) for seed in range(3)}
        assert len(found) == 1


class TestTake:
    """Modules are taken as their imports end."""

    def test_order(self, child: Child, tmp_path: pathlib.Path) -> None:
        """What a package changes during its own import is its own, what the importing module changes is not.

        Only packages that require a generator, and what they require, are taken, less what decides no text.
        """
        for name, text in {
            "pack/__init__.py": "from pack import base, more\nbase.LIMIT = 2",
            "pack/base.py": "LIMIT, TABLE = 1, {}",
            "pack/more.py": "from pack.base import TABLE\nTABLE['more'] = 1",
            "pack/late.py": "",
            "own.py": "import client, pack.base, plain, codepy\npack.base.LIMIT = 3",
            **{f"{name}.py": "" for name in ("codepy", "plain")},
            **{
                f"{name}-1.dist-info/RECORD": f"{name}.py,sha256=1,1"
                for name in ("codepy", "plain")
            },
            "pack-1.dist-info/RECORD": "pack/__init__.py,sha256=1,1",
            "client.py": "import pack",
            "client-1.dist-info/RECORD": "client.py,sha256=1,1",
            "client-1.dist-info/METADATA": "Requires-Dist: loopy\nRequires-Dist: pack\nRequires-Dist: codepy",
        }.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        code = f"""
            import sys, json
            sys.path.insert(0, {str(tmp_path)!r})
            import kcl.loopy
            import own, pack.late
            from kcl.frontends.loopy import baseline
            taken = baseline.state().taken
            del taken[baseline.__name__]
            base = {{one.name: one.held for one in taken["pack.base"]}}
            spec = pack.base.__spec__
            print(json.dumps([
                base["pack.base"]["LIMIT"], base["pack.base.TABLE"], sorted(taken),
                type(spec).__name__, spec._initializing,
            ]))
            """
        assert child.json(code) == [
            2,
            {"more": 1},
            ["client", "pack", "pack.base", "pack.late", "pack.more"],
            "ModuleSpec",
            False,
        ]

    def test_error_of_an_import(self, child: Child, tmp_path: pathlib.Path) -> None:
        """A package whose import fails is taken as it is imported again; the traceback names no file of kcl."""
        (tmp_path / "pack-1.dist-info").mkdir()
        (tmp_path / "pack-1.dist-info" / "RECORD").write_text("pack.py,sha256=1,1")
        (tmp_path / "pack-1.dist-info" / "METADATA").write_text("Requires-Dist: loopy")
        (tmp_path / "pack.py").write_text("import sys\nif sys.argv == ['']: raise ValueError\n")
        code = f"""
            import sys, json, traceback
            sys.path.insert(0, {str(tmp_path)!r})
            sys.argv = ['']
            import kcl.loopy
            from importlib import import_module
            try:
                import_module("pack")
            except ValueError as error:
                frames = traceback.extract_tb(error.__traceback__)
            sys.argv = ['again']
            import_module("pack")
            from kcl.frontends.loopy import baseline
            print(json.dumps(["/kcl/" in str(frames), bool(baseline.state().taken["pack"])]))
            """
        assert child.json(code) == [False, True]
