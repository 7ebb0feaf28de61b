"""kcl.direct.readings and kcl.history.kept: what is read off code, remembered, and kept for the next run."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest

from kcl import option
from kcl.direct import code, readings, scan
from kcl.entry import Entry
from kcl.history import kept as history

SOURCE = """
def recipe(n, m=2):
    import math
    def inner(x=math.pi):
        return lambda: getattr(json, "dumps")(x, n)
    def helper(a):
        return [item + OFFSET for item in a if item in {1, 2.5, "x"}]
    return helper([n * m, -0.0, 1j, b"z", None, ..., ("a", 7)]), inner
"""
# what readings are made of, and another value for it, of the code below
CAUGHT = """
def recipe(a, /, b, *, c):
    try:
        return lambda: a.d + g
    except ValueError:
        return h.b
"""
ATTRIBUTES = {
    "co_code": lambda one: one.co_code[:-1] + bytes([one.co_code[-1] ^ 1]),
    "co_consts": lambda one: (*one.co_consts, 1),
    "co_names": lambda one: (*one.co_names[:-1], "other"),
    "co_varnames": lambda one: (*one.co_varnames[:-1], "other"),
    "co_cellvars": lambda one: (*one.co_cellvars, "other"),
    "co_freevars": lambda one: (*one.co_freevars, "other"),
    "co_name": lambda one: one.co_name + "_",
    "co_argcount": lambda one: one.co_argcount - 1,
    "co_posonlyargcount": lambda one: one.co_posonlyargcount - 1,
    "co_kwonlyargcount": lambda one: one.co_kwonlyargcount - 1,
    "co_flags": lambda one: one.co_flags ^ 0x20,
    "co_exceptiontable": lambda one: one.co_exceptiontable[1:],
}
# constants of which no two are one
CONSTANTS = (
    *(None, False, 0, 0.0, -0.0, 0j, -0j, "", b"", ..., ()),
    *(True, 1, 1.0, "1", b"1", (1,), (1.0,), frozenset([1]), frozenset([1.0]), frozenset(["1"]), ((1,),), float("nan")),
)


def compiled(source: str = SOURCE, name: str = "recipe", file: str = "recipe.py") -> types.CodeType:
    """Return the code of a function in a text."""
    module = compile(source, file, "exec", dont_inherit=True)
    return next(item for item in module.co_consts if isinstance(item, types.CodeType) and item.co_name == name)


def codes(*modules: types.ModuleType):
    """Yield the code of modules and everything in it."""
    waiting = [compile(inspect.getsource(module), module.__file__, "exec", dont_inherit=True) for module in modules]
    while waiting:
        one = waiting.pop()
        waiting += [constant for constant in one.co_consts if isinstance(constant, types.CodeType)]
        yield one


def told(found):
    """Return all that references say, so that two can be compared."""
    chains = [
        (one.root, one.name, one.level, one.attributes, id(one.code), one.unit, one.line, one.dotted)
        for one in found.chains
    ]
    return chains, found.mentions, found.stored


def paths():
    """Return the paths of what is kept."""
    folder = os.path.join(option.folder("kcl"), "readings")
    return sorted(item.path for item in os.scandir(folder)) if os.path.isdir(folder) else []


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """No reading is remembered."""
    for name in ("before", "now", "_places", "_digests", "_references"):
        monkeypatch.setattr(readings, name, {})


def forget():
    """Forget what this process has read, as the next one does not know it, and read what is kept."""
    for memo in (readings.now, readings._places, readings._digests, readings._references):
        memo.clear()
    history.reset()
    history.load()


def count(monkeypatch):
    """Return the list that grows by a name whenever a code object is read."""
    read = []
    for module, name in ((code, "digest"), (scan, "references")):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda one, name=name, original=original: read.append(name) or original(one))
    return read


class TestRead:
    def test_the_same(self):
        """What comes back from JSON is what was read, lines included, for all code of some modules of many kinds."""
        number = 0
        for one in codes(argparse, inspect, textwrap, json, subprocess, sys.modules[__name__]):
            found = scan.references(one)
            kept = json.loads(json.dumps(readings._plain(one, found)))
            assert told(readings._restored(one, kept)) == told(found)
            assert readings.digest(one) == code.digest(one)
            assert told(readings.references(one)) == told(found)
            number += 1
        assert number > 500

    def test_once(self, monkeypatch):
        """A code object is read once in a process."""
        read, one = count(monkeypatch), compiled()
        readings.digest(one)
        readings.references(one)
        assert read.count("references") == 1
        read.clear()
        readings.digest(one)
        readings.references(one)
        assert read == []

    def test_text(self):
        """A text that is made of bytes is made once for these bytes and this kind."""
        read = []

        def make(content):
            read.append(content)
            return content.decode().upper()

        assert [readings.text("kind", b"a", make) for _ in range(3)] == ["A"] * 3
        assert readings.text("other kind", b"a", make) == "A"
        assert readings.text("kind", b"b", make) == "B"
        assert read == [b"a", b"a", b"b"]

    def test_empty_text(self):
        """An empty text is one too."""
        assert readings.text("kind", b"", lambda _content: "") == ""
        assert readings.text("kind", b"", lambda _content: "another") == ""

    @pytest.mark.parametrize("bound", [{}, {"LIMIT": 1}])
    def test_bounded(self, monkeypatch, bound):
        """Beyond a bound nothing more is remembered, and all is right."""
        for name, value in bound.items():
            monkeypatch.setattr(readings, name, value)
        for one in codes(textwrap):
            assert readings.digest(one) == code.digest(one)
            assert told(readings.references(one)) == told(scan.references(one))
        assert (len(readings.now) > 20) is not bool(bound)
        assert (len(readings._digests) > 10) is not bool(bound)


class TestPlace:
    def test_elsewhere(self):
        """Where code stands does not count: the file, the lines, comments."""
        moved = compiled("# a comment\n\n" + SOURCE.replace("import math", "import math  # of Python"), file="other.py")
        assert readings._place("digest", moved) == readings._place("digest", compiled())

    @pytest.mark.parametrize(
        ("text", "other"),
        [
            ("m=2", "k=2"),
            ("OFFSET", "SHIFT"),
            ("-0.0", "0.0"),
            ("1j", "2j"),
            ('b"z"', '"z"'),
            ("item +", "item -"),
            ("math.pi", "math.e"),
            ('"dumps"', '"loads"'),
            ("2.5", "2"),
            ("None", "False"),
            ("...", "True"),
            ("n, m=2", "n, /, m=2"),
            ("n, m=2", "n, *, m=2"),
            ("n, m=2", "n, *m"),
            ("def helper(a)", "async def helper(a)"),
            ("7", "True"),
            ("lambda: getattr", "lambda k: getattr"),
        ],
    )
    def test_other(self, text, other):
        """Whatever else differs is another place, in nested code too."""
        assert SOURCE.count(text) >= 1
        assert readings._place("digest", compiled(SOURCE.replace(text, other))) != readings._place("digest", compiled())

    @pytest.mark.parametrize("name", ATTRIBUTES)
    def test_attributes(self, name):
        """Each attribute of a code object that is read counts by itself."""
        one = compiled(CAUGHT)
        if not hasattr(one, name):
            pytest.skip("Python 3.10 has no table of handlers")
        changed = types.SimpleNamespace(**{each: getattr(one, each, b"") for each in ATTRIBUTES})
        setattr(changed, name, ATTRIBUTES[name](one))
        assert getattr(changed, name) != getattr(one, name)
        assert readings._content(changed) != readings._content(one)

    def test_constants(self):
        """No two constants that differ by value or type have one place, alone and nested."""
        one = compiled("def recipe(): return 1")
        for wrap in (lambda value: value, lambda value: (value,), lambda value: frozenset([value])):
            places = {readings._place("digest", one.replace(co_consts=(wrap(value),))) for value in CONSTANTS}
            assert len(places) == len(CONSTANTS)
            assert "" not in places

    @pytest.mark.parametrize(
        "constant",
        [
            object(),
            [],
            {},
            bytearray(b"x"),
            np.float64(2.0),
            np.int64(1),
            types.SimpleNamespace(),
            type("T", (str,), {})(),
        ],
    )
    def test_made_by_nobody(self, constant):
        """Code with a constant that no compiler makes is read, and not kept."""
        one = compiled("def recipe(): return other.thing").replace(co_consts=((constant,),))
        assert readings._place("digest", one) == ""
        (reference,) = readings.references(one).chains
        assert reference.dotted == "other.thing"
        assert readings.now == {}


class TestKept:
    def test_next_run(self, monkeypatch):
        """What one process read the next one does not read."""
        one, another = compiled(), compiled(file="moved.py")
        history.load()
        expected = readings.digest(one), told(readings.references(one))
        history.write()
        assert len(paths()) == 1
        forget()
        read = count(monkeypatch)
        assert (readings.digest(one), told(readings.references(one))) == expected
        assert readings.digest(another) == expected[0]
        assert any(reference.code is another for reference in readings.references(another).chains)
        assert read == []

    def test_lines(self, monkeypatch):
        """A reference that was kept names the line where the code stands now."""
        history.load()
        lines = [reference.line for reference in readings.references(compiled()).chains]
        history.write()
        forget()
        read = count(monkeypatch)
        found = readings.references(compiled("\n\n" + SOURCE)).chains
        assert [reference.line for reference in found] == [line + 2 for line in lines]
        assert read == []

    def test_hash_seed(self, child):
        """Another hash seed, which changes the order of constant sets, is no other code."""
        script = """
        from kcl.direct import readings

        def recipe(a):
            return a in {"x", "y", "z", 1, 2.5}, [b for b in a if b in {"p", "q", "r"}]

        print(readings._place("digest", recipe.__code__))
        """
        places = {child.run(script, PYTHONHASHSEED=str(seed)).stdout for seed in range(1, 5)}
        assert len(places) == 1
        assert len(places.pop()) == len("digest ") + 65

    def test_nothing_new(self):
        """A process that reads nothing new writes nothing."""
        history.load()
        readings.digest(compiled())
        history.write()
        (path,) = paths()
        before = os.stat(path)
        history.write()
        forget()
        readings.digest(compiled())
        history.write()
        assert (os.stat(path).st_ino, os.stat(path).st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def test_before_load(self):
        """A process that looked nothing up writes nothing."""
        readings.digest(compiled())
        history.reset()
        history.write()
        assert paths() == []

    @pytest.mark.parametrize("what", ["driver_name", "_version"])
    def test_others(self, monkeypatch, what):
        """Another driver, and another state of kcl's own code, have readings of their own."""
        history.load()
        readings.digest(compiled())
        history.write()
        monkeypatch.setattr(history, what, lambda: "another")
        forget()
        assert readings.before == {}
        readings.digest(compiled())
        history.write()
        assert len(paths()) == 2

    def test_other_python(self, monkeypatch):
        """Another Python reads by itself."""
        history.load()
        readings.digest(compiled())
        history.write()
        monkeypatch.setattr(sys, "version", "4.0.0")
        forget()
        assert readings.before == {}

    def test_version(self, monkeypatch, tmp_path):
        """A change of kcl's modules that read code is another version; without files it is that of kcl."""
        version = history._version()
        assert all(name in version for name in history._MODULES)
        for name in history._MODULES:
            (tmp_path / f"{name}.py").write_text("")
        monkeypatch.setattr(readings, "__file__", str(tmp_path / "readings.py"))
        changed = {history._version()}
        for name in history._MODULES:
            (tmp_path / f"{name}.py").write_text("# changed")
            changed.add(history._version())
            os.utime(tmp_path / f"{name}.py", (1e9, 1e9))
            changed.add(history._version())
        assert len(changed) == 1 + 2 * len(history._MODULES)
        monkeypatch.setattr(readings, "__file__", str(tmp_path / "nowhere" / "readings.py"))
        assert history._version() == version.split(",")[0]

    def test_all_that_read(self):
        """The modules in the key are all of kcl's own that reading imports."""
        script = """
import sys
from kcl.direct import distributions, readings
def recipe(): return sys.argv
assert readings.references(recipe.__code__).chains and readings.digest(recipe.__code__)
assert distributions.owner("numpy").kind == "distribution" and distributions.identity("numpy")
print(*(name for name in sys.modules if name.startswith("kcl.")))
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        below = {"kcl.direct", "kcl.namedtuple"}
        assert set(done.stdout.split()) - below <= {f"kcl.direct.{name}" for name in history._MODULES}

    @pytest.mark.parametrize("content", [b"", b"not an entry", b"kclentry" + b"\0" * 100])
    def test_damaged(self, content):
        """What cannot be read is passed over, and written anew."""
        history.load()
        expected = readings.digest(compiled())
        history.write()
        (path,) = paths()
        with open(path, "wb") as stream:
            stream.write(content)
        forget()
        assert readings.before == {}
        assert readings.digest(compiled()) == expected
        history.write()
        forget()
        assert readings.before

    @pytest.mark.parametrize("found", [None, [], "text", {}, 5, ["ab"], [[[], 1]]])
    def test_wrong(self, found):
        """What is not of the shape that is written is of no use, and no harm."""
        history.load()
        expected = readings.digest(compiled()), told(readings.references(one := compiled()))
        history.write()
        (path,) = paths()
        with open(path, "rb") as stream:
            entry = Entry.unpack(stream.read())
        for left in (found, [[place, found] for place, _found in entry.metadata["readings"]]):
            with open(path, "wb") as stream:
                stream.write(Entry(entry.key, {"readings": left}, {}).pack())
            forget()
            if found != "text":  # which could be a digest
                assert readings.digest(compiled()) == expected[0]
            assert told(readings.references(one)) == expected[1]

    @pytest.mark.parametrize(
        "kept",
        [
            [[["x"]], [], []],
            [[[0, "x", 0, [], [99], 0]], [], []],
            [[[0, "x", 0, [], [0], 0]], [], []],
            [[[0, "x", 0, [], [0, 0], 0]], [], []],
            [[[0, "x", 0, [], None, 0]], [], []],
            [[[0, "x", 0, 5, [], 0]], [], []],
            [[], 5, []],
            [[], [[]], []],
            [[], []],
        ],
    )
    def test_wrong_references(self, kept):
        """References that are not of the shape that is written are read anew."""
        assert readings._restored(compiled(), kept) is None

    def test_few_idle(self, monkeypatch):
        """Of readings that a run had no use for few are kept, the last ones."""
        monkeypatch.setattr(history, "_FEW", 3)
        history.load()
        for number in range(10):
            readings.text("kind", str(number).encode(), lambda _content: "text")
        history.write()
        first = list(readings.now)
        forget()
        assert list(readings.before) == first
        readings.text("kind", b"another", lambda _content: "text")
        history.write()
        forget()
        assert list(readings.before)[:-1] == first[-4:]

    def test_another_directory(self, tmp_path):
        """After `kcl.option.cache_dir` they are read and written there."""
        history.load()
        readings.digest(compiled())
        option.cache_dir(str(tmp_path / "other"))
        history.write()
        assert paths() == []
        history.load()
        history.write()
        (path,) = paths()
        assert path.startswith(str(tmp_path / "other"))

    def test_not_ours_to_touch(self, monkeypatch):
        """Readings whose time cannot be set, as on a read-only file system, are used all the same."""
        history.load()
        readings.digest(compiled())
        history.write()
        (path,) = paths()
        os.utime(path, (1e9, 1e9))

        def refuse(*_arguments):
            raise PermissionError("read-only")

        monkeypatch.setattr(os, "utime", refuse)
        forget()
        assert readings.before

    def test_off(self, child):
        """Where both layers are off for all recipes of a driver nothing of kcl is written."""
        script = """
        import numpy as np
        import pyopencl as cl
        import kcl

        @kcl.kernel
        def twice():
            import loopy as lp
            return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", lang_version=(2018, 2))

        context = cl.create_some_context(interactive=False)
        queue = cl.CommandQueue(context)
        _event, (y,) = twice()(queue, x=np.arange(4.0))
        print(y.sum())
        """
        done = child.run(script, LOOPY_NO_CACHE="1", KCL_NO_CACHE="binary")
        assert (done.returncode, done.stdout) == (0, "12.0\n"), done.stderr
        assert [path for path in child.cache.rglob("*") if "kcl" in str(path.relative_to(child.cache))] == []

    def test_unwritable(self):
        """Where nothing can be read or written nothing is raised."""
        os.makedirs(option.folder("kcl"), mode=0o700)
        with open(os.path.join(option.folder("kcl"), "readings"), "w") as stream:
            stream.write("in the way")
        history.load()
        readings.digest(compiled())
        history.write()
        assert readings.before  # for this process
