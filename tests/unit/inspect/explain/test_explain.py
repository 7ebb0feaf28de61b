"""The nearest earlier entry, and what differs."""

import json

import numpy as np
import pytest

import kcl
from kcl.cache.key import Key
from kcl.cache.phrases import Origin
from kcl.inspect.explain import (
    FIRST_TIME,
    Candidate,
    Texts,
    explain,
    find_changes,
    find_nearest,
    read_texts,
)
from kcl.inspect.explain.listing import list_calls

pytestmark = pytest.mark.slow_platforms

HEAD = [("kcl", "1"), ("python", "cpython 3.11")]
BODY = "def matmul():\n    block = 16\n    return block\n"


def recipe(**parts):
    """Return a direct key; underscores in names are blanks."""
    more = [(name.replace("_", " "), value) for name, value in parts.items()]
    return Key([*HEAD, ("code matmul", "1" * 64), *more])


def known(key, written=0.0, texts=None):
    return Candidate(key, written, lambda: texts or Texts())


def said(explanation):
    return [change.sentence for change in explanation[1]]


def sentences(before, missed, texts=Texts()):  # noqa: B008 (never changed)
    return [change.sentence for change in find_changes(before, missed, texts)]


class TestNearest:
    def test_nearest(self):
        """The entry with the fewest differing parts is the nearest, however old; of equally near ones the youngest."""
        far = known(recipe(parameter_a="1", parameter_b="1"), 9.0)
        near = known(recipe(parameter_a="1", parameter_b="2"))
        assert find_nearest(recipe(parameter_a="2", parameter_b="2"), Texts(), [far, near]) is near
        old, young = known(recipe(parameter_a="1"), 1.0), known(recipe(parameter_a="2"), 2.0)
        for order in ([old, young], [young, old]):
            assert find_nearest(recipe(parameter_a="3"), Texts(), order) is young

    def test_not_itself(self):
        """The entry that the miss itself stored is no earlier one."""
        missed = recipe(row="special", argument_x="<f8")
        assert explain(missed, Texts(), [known(missed)]) == FIRST_TIME

    def test_beginning(self):
        """An entry whose key is the beginning of the missed one is an earlier one: a variable was set since."""
        missed, before = recipe(options="-DA", variable="1"), known(recipe(options="-DA"))
        assert explain(missed, Texts(), [before])[0] is before

    def test_kinds(self):
        """Keys of results, of programs and of recipes are not compared with each other."""
        result = known(Key([("kcl", "1"), ("result", "3" * 64)]))
        program = known(Key([("format", "1"), ("source", "3" * 64)]))
        pairs = ((recipe(), result), (recipe(), program), (program.key, known(recipe())))
        for missed, other in pairs:
            assert find_nearest(missed, Texts(), [other]) is None


class TestChanges:
    def test_body(self):
        """A changed body is shown with its line and a short diff, before all else that changed."""
        origins = {"code matmul": Origin("driver", 10)}
        earlier = Key([*HEAD, ("code helper", "1" * 64), ("code matmul", "1" * 64)])
        before = known(earlier, texts=Texts({"code matmul": BODY}))
        missed = Key([*HEAD, ("code matmul", "2" * 64), ("code helper", "2" * 64)])
        found = find_changes(
            before, missed, Texts({"code matmul": BODY.replace("16", "32")}, origins)
        )
        words = ["recipe `matmul`: body changed at line 11", "helper `helper` changed"]
        assert [change.sentence for change in found] == words
        diff = " def matmul():\n-    block = 16\n+    block = 32\n     return block"
        assert found[0].diff == (*diff.split("\n"),)

    def test_format(self):
        """Where kcl's own format changed nothing else is worth a word."""
        before = known(Key([("kcl", "2 0.1 a"), ("code matmul", "x"), ("parameter a", "1")]))
        missed = Key([("kcl", "2 0.2 a"), ("code matmul", "y"), ("parameter a", "2")])
        assert sentences(before, missed) == ["kcl 0.1 -> 0.2"]

    def test_python(self):
        """Another Python digests the same code to something else: its code did not change."""
        texts = Texts({"code matmul": BODY})
        earlier = Key([HEAD[0], ("python", "cpython 3.10"), ("code matmul", "2" * 64)])
        found = find_changes(known(earlier, texts=texts), recipe(), texts)
        assert [change.part for change in found] == ["python"]

    def test_device(self):
        """Another device brings its driver and all that with it; the driver says it alone where the device stayed."""
        names = ("platform", "device", "driver", "OpenCL C", "cpu features")

        def program(**changed):
            parts = dict.fromkeys(names, "1") | changed
            return Key([("format", "1"), ("source", "s"), *parts.items()])

        before, other = known(program()), program(**dict.fromkeys(names, "2"))
        assert sentences(before, other) == ["platform: 1 -> 2", "device: 1 -> 2"]
        assert sentences(before, program(driver="2")) == ["device: driver 1 -> 2"]


@kcl.kernel
def shifted(factor=1):
    import loopy as lp

    arguments = [lp.GlobalArg("w,z", np.float32, shape=8)]
    text = f"w[i] = {factor}*z[i]"
    return lp.make_kernel("{[i]: 0<=i<8}", text, arguments, lang_version=(2018, 2))


TEXT = "def tiled(block):\n    length = {0}\n    return lp.split_iname(made(), 'i', length)\n"
ONE = f"2025.2 {'1' * 64}"


def recorded(length, *tags, loopy=ONE):
    """Return a record of one chain: a kernel, a split, and a tag for each name."""
    listed = [("make_kernel", 9, [["instructions", "'a[i] = 1'"]])]
    listed.append(("split_iname", 12, [["kernel", "call 1"], ["inner_length", str(length)]]))
    for n, tag in enumerate(tags):
        listed.append(("tag_inames", 20 + n, [["kernel", f"call {n + 2}"], ["tag", repr(tag)]]))
    described = [
        {"function": function, "place": f"driver.py:{line}", "arguments": arguments}
        for function, line, arguments in listed
    ]
    return {"calls": described, "result": len(described), "beside": [["distribution loopy", loopy]]}


def keyed(record, **parts):
    """Return the key that a record has: its digest, and what stands beside its calls."""
    digest = Key([("record", json.dumps(record))]).digest
    more = [(name.replace("_", " "), text) for name, text in parts.items()]
    return Key([*HEAD, ("record", digest), *map(tuple, record["beside"]), *more])


def texts(record, length=16, name="code tiled"):
    """Return what an entry with a record keeps: the record, and the text of the recipe, which begins in line 10."""
    return Texts({name: TEXT.format(length)}, {name: Origin("driver", 10)}, list_calls(record))


class TestRecorded:
    """Entries with records are compared call by call."""

    def test_nearest(self):
        """The nearest entry is the one whose record differs least, not the youngest of those with another digest."""
        missed = recorded(16, "l.0", "g.0")
        records = [missed, recorded(16, "l.0"), recorded(32), recorded(8, "l.1")]
        far, near = (
            known(keyed(one), age, texts=Texts(listing=list_calls(one)))
            for age, one in ((3.0, records[3]), (1.0, records[1]))
        )
        assert find_nearest(keyed(missed), texts(missed), [far, near]) is near
        bare = known(keyed(records[2]), 9.0)
        assert find_nearest(keyed(missed), texts(missed), [bare, near]) is near
        assert find_nearest(keyed(missed), texts(missed), [bare]) is bare

    def test_options(self):
        """Of a kcl.Source with two option sets the entry with the same set is the nearest, in the first run none."""

        def source(code, *options):
            given = [["code", repr(code)], ["build_options", repr(options)]]
            call = {"function": "kcl.Source", "place": "", "arguments": given}
            return {"calls": [call], "result": 1, "beside": []}

        def candidate(code, *options, age=1.0):
            record = source(code, *options)
            return known(keyed(record), age, texts=Texts(listing=list_calls(record)))

        missed = source("int b;")
        given = keyed(missed), Texts(listing=list_calls(missed))
        entries = [candidate("int a;"), candidate("int b;", "-DUSE_DOUBLE", age=2.0)]
        found = said(explain(*given, entries, 3.0))
        assert found == ["call 1, kcl.Source: code 'int a;' -> 'int b;'"]
        assert explain(*given, entries[1:], 0.5) == FIRST_TIME
        assert said(explain(*given, entries[1:], 3.0))[-1] == "build option -DUSE_DOUBLE removed"

    def test_call(self):
        """The call is named in the place of the digest, then the lines of the recipe that changed."""
        one, other = recorded(16, "l.0"), recorded(32, "l.0")
        call, code = find_changes(
            known(keyed(one), texts=texts(one)), keyed(other), texts(other, 32)
        )
        assert (call.part, code.part) == ("call 2", "code tiled")
        assert call.sentence == "call 2 (driver.py:12), split_iname: inner_length 16 -> 32"
        assert code.sentence == "code of `tiled` changed"
        assert code.diff[1:3] == ("-    length = 16", "+    length = 32")

    def test_beside(self):
        """What differs beside the calls is told once, whether or not it stands in the key too."""
        one, other = recorded(16), recorded(16, loopy=f"2025.2.1 {'2' * 64}")
        bare = [Key([*HEAD, ("record", digit * 64)]) for digit in "12"]
        for before, key in ([keyed(one), keyed(other)], bare):
            found = sentences(known(before, texts=texts(one)), key, texts(other))
            assert found == ["loopy 2025.2 -> 2025.2.1"]

    def test_dtypes(self):
        """Rows of one record differ in their dtypes; where one side has no record, the digest is all that differs."""
        one = recorded(16)
        before, missed = keyed(one, argument_x="<f4"), keyed(one, argument_x="<f8")
        found = explain(missed, texts(one), [known(before, texts=texts(one))])
        assert said(found) == ["argument x: float32 -> float64"]
        one, other = recorded(16), recorded(32)
        found = sentences(known(keyed(one)), keyed(other), texts(other))
        assert found == ["the record of the recipe's calls changed"]

    def test_now(self, context):
        """A Kernel explains its next miss by the record that it has, before anything is stored."""
        shifted(factor=1).prepare(context)
        text = shifted(factor=2).explain(context)
        assert "make_kernel: instructions 'w[i] = 1*z[i]' -> 'w[i] = 2*z[i]'\n" in text
        assert "parameter factor: 1 -> 2\n" in text


class TestTexts:
    def test_texts(self):
        """A row of the generator layer keeps the texts of what its key digests, a program keeps its source."""
        parts = {
            "reached.json": json.dumps({"code f": BODY}).encode(),
            "origins.json": b'{"code f": ["driver", 3]}',
        }
        assert read_texts(parts) == Texts({"code f": BODY}, {"code f": Origin("driver", 3)})
        assert read_texts({"source.cl": b"kernel"}) == Texts({"source": "kernel"})

    @pytest.mark.parametrize(
        ("parts", "texts"),
        [
            ({}, {}),
            ({"reached.json": b"{"}, {}),
            ({"reached.json": b"{}", "origins.json": b"[1]"}, {}),
            ({"reached.json": b'{"code f": "x"}', "record.json": b'{"calls": 3}'}, {"code f": "x"}),
        ],
    )
    def test_damaged(self, parts, texts):
        assert read_texts(parts) == Texts(texts)
