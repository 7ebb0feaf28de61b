"""kcl.frontends.loopy.held: what was changed in packages since their import."""

import sys
import threading
import typing

import pytest
from packages import import_again, write_packages

from kcl.errors import UnknownInput
from kcl.frontends import FACED
from kcl.frontends.loopy import held
from kcl.frontends.loopy.callables.content import content
from kcl.generate import distributions

FILES = {
    "near.py": "def get():\n    import far\n    return far.get()\n",
    "far.py": """
import threading, types
import numpy as np
LIMIT, SCALE, LOCK, _LAZY, __LIMIT = 1, np.float64(1), threading.Lock(), None, 1
TABLE, NAMES = {"inner": [1]}, {1}
config = types.SimpleNamespace(limit=1)
def get(number=1, *, more=1): return number
def less(a, b): return a - b
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
""",
}
# What a program changes in a package that another one requires, by the name of the case.
CHANGES = {
    "nothing": "",
    "a variable": "far.LIMIT = 2",
    "a variable of another type": "far.LIMIT = True",
    "a variable with a private name": "vars(far)['__LIMIT'] = 2",
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
    "a function": "exec('def less(b, a): return b - a', vars(far))",
    "an attribute of a function": "far.get.more = 2",
    "code": "far.get.__code__ = (lambda number=1, *, more=1: 2).__code__",
    "keyword defaults": "far.get.__kwdefaults__ = {'more': 2}",
    "defaults of a method": "far.Base.get.__defaults__ = (2,)",
    "defaults of a static method": "far.Base.of.__defaults__ = (2,)",
    "bases of a class": "far.Derived.__bases__ = (far.Base.Inner,)",
}


class Says:
    """A value with a key of its own; it notes whether another thread can have the lock meanwhile."""

    seen: typing.ClassVar = []

    def __kcl_key__(self):
        def ask():
            lock = held._state().lock
            self.seen.append(lock.acquire(blocking=False))
            if self.seen[-1]:
                lock.release()

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        return 1


@pytest.fixture(params=["attended", "early"])
def load(request, no_packages, tmp_path, monkeypatch):
    """Return a function that imports two installed packages, of which one requires the other, once more."""
    assert no_packages is None
    write_packages(tmp_path, FILES, near=["far"], far=[])
    monkeypatch.syspath_prepend(tmp_path)

    def loaded():
        modules = import_again("near", "far")
        if request.param == "attended":
            held.take(["near", "far"])
        return modules

    yield loaded
    for name in ("near", "far"):
        sys.modules.pop(name, None)


class TestText:
    """A callable of a package counts by what is changed in the modules of what the package requires."""

    def test_changes(self, load, request):
        """Each change is another key, also after a first look; without one, keys are equal."""
        is_attended = request.node.callspec.params["load"] == "attended"
        titles, unchanged = {}, None
        for title, change in {**CHANGES, **(TOLD if is_attended else {})}.items():
            near, far = load()
            before = content(near.get).digest
            unchanged = unchanged or before
            assert before == content(near.get).digest == unchanged
            exec(change, {"far": far})
            after = content(near.get).digest
            assert after not in titles, (title, titles[after])
            titles[after] = title
        assert titles[unchanged] == "nothing"

    def test_changed_again(self, load):
        """A change within what a program has put there counts, too."""
        near, far = load()
        far.TABLE = {"inner": [2]}
        before = content(near.get).digest
        far.TABLE["inner"][0] = 3
        assert content(near.get).digest != before

    @pytest.mark.parametrize("load", ["attended"], indirect=True)
    def test_code_of_the_user(self, load):
        """A method `__kcl_key__` runs without the lock, which another thread may want that it waits for."""
        near, far = load()
        far.TABLE["more"], far.LIMIT = Says(), Says()
        Says.seen.clear()
        content(near.get)
        assert {*Says.seen} == {True}

    def test_imported_later(self, load):
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

    def test_loader_of_the_program(self, load):
        """Code that a loader of the program made is in no file of the package."""
        near, far = load()

        class Loader(type(far.__spec__.loader)):
            pass

        far.__spec__.loader = Loader("far", far.__file__)
        with pytest.raises(
            UnknownInput, match="a loader of the program made the code of module far"
        ):
            content(near.get)

    @pytest.mark.parametrize("load", ["attended"], indirect=True)
    def test_after_an_error(self, load, monkeypatch):
        near, far = load()
        before = content(near.get).digest
        far.LIMIT = 2
        with monkeypatch.context() as patch:
            patch.setattr(held, "_is_as_taken", lambda *_: {}[0])
            with pytest.raises(UnknownInput, match="KeyError"):
                content(near.get)
        assert content(near.get).digest != before

    def test_code_of_the_program(self, load):
        near, far = load()
        far.get = load
        with pytest.raises(UnknownInput, match="is code of the program"):
            content(near.get)

    def test_what_counts_for_nothing(self, load, monkeypatch):
        """A module that is imported below its package, and names of Python's, change no key."""
        near, far = load()
        before = content(near.get).digest
        far.__warningregistry__ = {}
        setattr(far, FACED, False)
        far.deep = type(sys)("far.deep")
        monkeypatch.setitem(sys.modules, "far.deep", far.deep)
        held.take(["far.deep"])
        assert content(near.get).digest == before

    def test_graphs(self, load, monkeypatch):
        """Of what a package of graphs requires, the other packages of graphs count."""
        near, far = load()
        for names, is_same in ((("near",), True), (("near", "far"), False)):
            monkeypatch.setattr(distributions, "GRAPHS", names)
            held._state().packages.clear()
            before = content(near.get).digest
            far.LIMIT += 1
            assert (content(near.get).digest == before) is is_same

    def test_hash_seed(self, child):
        """The order of a frozenset is in no key."""
        files = {"pack.py": "NAMES = frozenset('abcdefgh')\ndef get(): pass\n"}
        write_packages(child.directory, files, pack=[])
        code = """
            import json
            import pack
            from kcl.frontends.loopy.callables.content import content
            print(json.dumps(content(pack.get).digest))
            """
        assert len({child.json(code, PYTHONHASHSEED=str(seed)) for seed in range(3)}) == 1


class TestTake:
    """Modules are taken as their imports end."""

    def test_order(self, child):
        """What a package changes during its own import is its own, what the importing module changes is not.

        Only packages that require a generator, and what they require, are taken, less what decides no text.
        """
        files = {
            "pack/__init__.py": "from pack import base, more\nbase.LIMIT = 2",
            "pack/base.py": "LIMIT, TABLE = 1, {}",
            "pack/more.py": "from pack.base import TABLE\nTABLE['more'] = 1",
            "pack/late.py": "",
            "own.py": "import client, pack.base, plain, codepy\npack.base.LIMIT = 3",
            "client.py": "import pack",
            "codepy.py": "",
            "plain.py": "",
        }
        required = {"client": ["loopy", "pack", "codepy"], "codepy": [], "plain": [], "pack": []}
        write_packages(child.directory, files, **required)
        code = """
            import json
            import kcl.loopy
            import own, pack.late
            from kcl.frontends.loopy import baseline
            taken = baseline.state().taken
            del taken[baseline.__name__]
            base = {one.name: one.held for one in taken["pack.base"]}
            spec = pack.base.__spec__
            print(json.dumps([
                base["pack.base"]["LIMIT"], base["pack.base.TABLE"], sorted(taken),
                type(spec).__name__, spec._initializing,
            ]))
            """
        names = ["client", "pack", "pack.base", "pack.late", "pack.more"]
        assert child.json(code) == [2, {"more": 1}, names, "ModuleSpec", False]

    def test_error_of_an_import(self, child):
        """A package whose import fails is taken as it is imported again; the traceback names no file of kcl."""
        files = {"pack.py": "import sys\nif sys.argv == ['']: raise ValueError\n"}
        write_packages(child.directory, files, pack=["loopy"])
        code = """
            import sys, json, traceback
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
