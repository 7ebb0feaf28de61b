"""The nearest earlier entry, and what differs."""

import json

import numpy as np
import pytest

import kcl
from kcl.cache.key import Key
from kcl.cache.phrases import Origin
from kcl.inspect.explain import FIRST_TIME, Candidate, Texts, changes, explain, nearest, texts_in
from kcl.inspect.explain.listing import of

pytestmark = pytest.mark.slow_platforms

HEAD = [("kcl", "1"), ("python", "cpython 3.11")]
BODY = "def matmul():\n    block = 16\n    return block\n"


def recipe(**parts):
    """Return a direct key; underscores in names are blanks."""
    return Key(
        [
            *HEAD,
            ("code matmul", "1" * 64),
            *((name.replace("_", " "), value) for name, value in parts.items()),
        ]
    )


def known(key, written=0.0, texts=None):
    """Return an entry that holds code."""
    return Candidate(key, written, lambda: texts or Texts())


def said(explanation):
    """Return the sentences."""
    return [change.sentence for change in explanation[1]]


def sentences(before, missed, texts=Texts()):  # noqa: B008 (never changed)
    """Return what is said of an earlier entry and a missed key."""
    return [change.sentence for change in changes(before, missed, texts)]


class TestNearest:
    def test_fewest(self):
        """The entry with the fewest differing parts is the nearest, however old it is."""
        far = known(recipe(parameter_a="1", parameter_b="1"), 9.0)
        near = known(recipe(parameter_a="1", parameter_b="2"))
        assert nearest(recipe(parameter_a="2", parameter_b="2"), Texts(), [far, near]) is near

    def test_youngest(self):
        """Of equally near ones the youngest."""
        old, young = known(recipe(parameter_a="1"), 1.0), known(recipe(parameter_a="2"), 2.0)
        for order in ([old, young], [young, old]):
            assert nearest(recipe(parameter_a="3"), Texts(), order) is young

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
            assert nearest(missed, Texts(), [other]) is None


class TestChanges:
    def test_first_time(self):
        """Without an entry of that kernel nothing is compared."""
        assert explain(recipe(), Texts(), []) == FIRST_TIME

    def test_body(self):
        """A changed body is shown with its line and a short diff, before all else that changed."""
        origins = {"code matmul": Origin("driver", 10)}
        before = known(
            Key([*HEAD, ("code helper", "1" * 64), ("code matmul", "1" * 64)]),
            texts=Texts({"code matmul": BODY}),
        )
        missed = Key([*HEAD, ("code matmul", "2" * 64), ("code helper", "2" * 64)])
        found = changes(before, missed, Texts({"code matmul": BODY.replace("16", "32")}, origins))
        assert [change.sentence for change in found] == [
            "recipe `matmul`: body changed at line 11",
            "helper `helper` changed",
        ]
        assert found[0].diff == (
            " def matmul():",
            "-    block = 16",
            "+    block = 32",
            "     return block",
        )

    def test_format(self):
        """Where kcl's own format changed nothing else is worth a word."""
        before = known(Key([("kcl", "2 0.1 a"), ("code matmul", "x"), ("parameter a", "1")]))
        missed = Key([("kcl", "2 0.2 a"), ("code matmul", "y"), ("parameter a", "2")])
        assert sentences(before, missed) == ["kcl 0.1 -> 0.2"]

    def test_python(self):
        """Another Python digests the same code to something else: its code did not change."""
        texts = Texts({"code matmul": BODY})
        before = known(
            Key([("kcl", "1"), ("python", "cpython 3.10"), ("code matmul", "2" * 64)]), texts=texts
        )
        assert [change.part for change in changes(before, recipe(), texts)] == ["python"]

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

    arguments = [
        lp.GlobalArg("z", np.complex64, shape="n"),
        "...",
    ]  # the dtype of w follows from that of z
    knl = lp.make_kernel(
        "{[i]: 0<=i<n}", f"w[i] = {factor}*z[i]", arguments, lang_version=(2018, 2)
    )
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


TEXT = "def tiled(block):\n    length = {0}\n    return lp.split_iname(made(), 'i', length)\n"
ONE = f"2025.2 {'1' * 64}"


def recorded(length, *tags, loopy=ONE):
    """Return a record of one chain: a kernel, a split, and a tag for each name."""
    listed = [("make_kernel", 9, [["instructions", "'a[i] = 1'"]])]
    listed.append(("split_iname", 12, [["kernel", "call 1"], ["inner_length", str(length)]]))
    listed += [
        ("tag_inames", 20 + n, [["kernel", f"call {n + 2}"], ["tag", repr(tag)]])
        for n, tag in enumerate(tags)
    ]
    described = [
        {"function": f, "place": f"driver.py:{line}", "arguments": given}
        for f, line, given in listed
    ]
    return {"calls": described, "result": len(described), "beside": [["distribution loopy", loopy]]}


def keyed(record, **parts):
    """Return the key that a record has: its digest, and what stands beside its calls."""
    digest = Key([("record", json.dumps(record))]).digest
    beside = [(name, text) for name, text in record["beside"]]
    return Key(
        [
            *HEAD,
            ("record", digest),
            *beside,
            *((name.replace("_", " "), text) for name, text in parts.items()),
        ]
    )


def texts(record, length=16, name="code tiled"):
    """Return what an entry with a record keeps: the record, and the text of the recipe, which begins in line 10."""
    return Texts({name: TEXT.format(length)}, {name: Origin("driver", 10)}, of(record))


class TestRecorded:
    """Entries with records are compared call by call."""

    def test_nearest(self):
        """The nearest entry is the one whose record differs least, not the youngest of those with another digest."""
        missed = recorded(16, "l.0", "g.0")
        records = [missed, recorded(16, "l.0"), recorded(32), recorded(8, "l.1")]
        far, near = (
            known(keyed(one), age, texts=Texts(listing=of(one)))
            for age, one in ((3.0, records[3]), (1.0, records[1]))
        )
        assert nearest(keyed(missed), texts(missed), [far, near]) is near
        bare = known(keyed(records[2]), 9.0)
        assert nearest(keyed(missed), texts(missed), [bare, near]) is near
        assert nearest(keyed(missed), texts(missed), [bare]) is bare

    def test_options(self):
        """Of a kcl.Source with two option sets the entry with the same set is the nearest, in the first run none."""

        def source(code, *options):
            given = [["code", repr(code)], ["build_options", repr(options)]]
            return {
                "calls": [{"function": "kcl.Source", "place": "", "arguments": given}],
                "result": 1,
                "beside": [],
            }

        def candidate(code, *options, age=1.0):
            return known(
                keyed(source(code, *options)), age, texts=Texts(listing=of(source(code, *options)))
            )

        missed = source("int b;")
        entries = [candidate("int a;"), candidate("int b;", "-DUSE_DOUBLE", age=2.0)]
        found = explain(keyed(missed), Texts(listing=of(missed)), entries, 3.0)
        assert said(found) == ["call 1, kcl.Source: code 'int a;' -> 'int b;'"]
        assert explain(keyed(missed), Texts(listing=of(missed)), entries[1:], 0.5) == FIRST_TIME
        found = explain(keyed(missed), Texts(listing=of(missed)), entries[1:], 3.0)
        assert said(found)[-1] == "build option -DUSE_DOUBLE removed"

    def test_call(self):
        """The call is named in the place of the digest, then the lines of the recipe that changed."""
        one, other = recorded(16, "l.0"), recorded(32, "l.0")
        call, code = changes(known(keyed(one), texts=texts(one)), keyed(other), texts(other, 32))
        assert (call.part, code.part) == ("call 2", "code tiled")
        assert call.sentence == "call 2 (driver.py:12), split_iname: inner_length 16 -> 32"
        assert code.sentence == "code of `tiled` changed"
        assert code.diff == (
            " def tiled(block):",
            "-    length = 16",
            "+    length = 32",
            "     return lp.split_iname(made(), 'i', length)",
        )

    def test_beside(self):
        """What differs beside the calls is told once, whether or not it stands in the key too."""
        one, other = recorded(16), recorded(16, loopy=f"2025.2.1 {'2' * 64}")
        bare = [Key([*HEAD, ("record", digit * 64)]) for digit in "12"]
        for before, key in ([keyed(one), keyed(other)], bare):
            found = sentences(known(before, texts=texts(one)), key, texts(other))
            assert found == ["loopy 2025.2 -> 2025.2.1"]

    def test_dtypes(self):
        """Rows of one record for other dtypes differ in these."""
        one = recorded(16)
        before, missed = keyed(one, argument_x="<f4"), keyed(one, argument_x="<f8")
        found = explain(missed, texts(one), [known(before, texts=texts(one))])
        assert said(found) == ["argument x: float32 -> float64"]

    def test_without(self):
        """Where one side has no record, the digest is all that differs."""
        one, other = recorded(16), recorded(32)
        found = sentences(known(keyed(one)), keyed(other), texts(other))
        assert found == ["the record of the recipe's calls changed"]

    def test_damaged(self):
        """A part that is no record counts as none; the texts beside it are read."""
        parts = {
            "reached.json": json.dumps({"code f": BODY}).encode(),
            "record.json": b'{"calls": 3}',
        }
        assert texts_in(parts) == Texts({"code f": BODY})

    def test_now(self, context):
        """A Kernel explains its next miss by the record that it has, before anything is stored."""
        shifted(factor=1).prepare(context)
        text = shifted(factor=2).explain(context)
        assert "make_kernel: instructions 'w[i] = 1*z[i]' -> 'w[i] = 2*z[i]'\n" in text
        assert "parameter factor: 1 -> 2\n" in text


class TestTexts:
    def test_row(self):
        """A row of the generator layer keeps the text of what its key holds digests of, and where it stands."""
        parts = {
            "reached.json": json.dumps({"code f": BODY}).encode(),
            "origins.json": b'{"code f": ["driver", 3]}',
        }
        assert texts_in(parts) == Texts({"code f": BODY}, {"code f": Origin("driver", 3)})

    def test_program(self):
        """An entry of the binary layer keeps the source."""
        assert texts_in({"source.cl": b"kernel"}) == Texts({"source": "kernel"})

    @pytest.mark.parametrize(
        "parts", [{}, {"reached.json": b"{"}, {"reached.json": b"{}", "origins.json": b"[1]"}]
    )
    def test_nothing(self, parts):
        """Without texts that can be read there are none."""
        assert texts_in(parts) == Texts()
