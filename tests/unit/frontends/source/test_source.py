"""kcl.frontends.source: what a Source declares, and which declarations are refused."""

import pathlib
import re

import numpy as np
import pytest

import kcl
from kcl.frontends.source import LAUNCH
from kcl.frontends.source.result import SourceUnit

pytestmark = pytest.mark.one_platform


def source(**changes):
    good = {
        "code": "kernel void f(global float *x, int n) {}",
        "entry": "f",
        "arguments": [kcl.Array("x", np.float32, "(n,)"), kcl.Scalar("n", np.int32)],
        "global_size": "(n,)",
    }
    return kcl.Source(**(good | changes))


TAKEN = ("queue", "self", "wait_for", "_np", "_kcl_x", "min", "round_up", *LAUNCH)
NO_KERNEL_TAKES = "dtype of argument 'v' is .*, which no kernel takes"


class TestDeclarations:
    def test_good(self):
        """What is given is kept."""
        one = source(local_size="(1,)", build_options=["-DA"], include_dirs=["here"])
        assert (one.entry, one.global_size, one.local_size) == ("f", "(n,)", "(1,)")
        assert (one.build_options, one.include_dirs, one.path) == (("-DA",), ("here",), None)

    def test_misspelt_attribute(self):
        """An attribute that a Source does not have cannot be set: nobody would read it."""
        with pytest.raises(AttributeError, match="local_sise"):
            source().local_sise = "(64,)"

    def test_subclass(self):
        """Another kernel of the text of a subclass takes over declarations alone."""

        class Named(kcl.Source):
            pass

        class Slotted(kcl.Source):
            __slots__ = ("note",)

        text = "kernel void f() {} kernel void g() {}"
        for kind in (Named, Slotted):
            one = kind(text, entry="f", arguments=[], global_size=1, build_options=["-DN=4"])
            one.note = "mine"
            other = one.kernel("g")
            assert (other.entry, other.build_options) == ("g", one.build_options)

    @pytest.mark.parametrize(
        "text",
        [
            *("(n,", "(len(x),)", "[n]", "n if n else 1", "x.data", "(m,)", "n.real", "('n',)"),
            *("(0.5*n,)", "None", "(x[0:1],)", "__import__('os')", "(lambda: 1)()"),
            *("max(n, key=n)", "(*x.shape,)", "(n := 3)", "n == 1"),
        ],
    )
    @pytest.mark.parametrize("place", ["global_size", "local_size", "shape", "size"])
    def test_expression_that_is_none(self, text, place):
        """Nothing but whole-number arithmetic, min, max and shapes passes, wherever it stands."""
        x, n = kcl.Array("x", np.float32, "(n,)"), kcl.Scalar("n", np.int32)
        changes = {
            "shape": {"arguments": [kcl.Array("x", np.float32, text), n]},
            "size": {"arguments": [x, kcl.Local("l", np.float32, text), n]},
        }.get(place, {place: text})
        with pytest.raises(kcl.RecipeError, match="'f'"):
            source(**changes)

    @pytest.mark.parametrize(
        "text",
        [
            *("(n,)", "n", "(2*n + 1, -(-n//4))", "x", "x.shape", "(x.size, x.shape[0])"),
            "(max(n, 1),)",
        ],
    )
    def test_expression_that_is_one(self, text):
        assert source(global_size=text).global_size == text

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            *((name, "is no name in Python") for name in ("1x", "a b", "in", "lambda")),
            *((name, "has a meaning of its own") for name in TAKEN),
        ],
    )
    def test_names_that_are_taken(self, name, reason):
        """A name that cannot be given, or that a call or the invoker needs, is refused with the reason and the cure."""
        says = (
            re.escape(f"kcl.Source 'f': {name!r} {reason}")
            + ".*given by name: declare it under another name, in its place$"
        )
        with pytest.raises(kcl.RecipeError, match=says):
            source(arguments=[kcl.Scalar(name, np.int32)], global_size="(1,)")

    @pytest.mark.parametrize(
        ("parameter", "value", "cure"),
        [
            ("build_options", "-DX", r"build_options=\['-DX'\]"),
            ("include_dirs", "/tmp", r"include_dirs=\['/tmp'\]"),
            ("include_dirs", pathlib.PurePosixPath("/tmp"), r"include_dirs=\[PurePosixPath"),
            ("build_options", 1, r"build_options=\[...\]"),
            ("build_options", b"-DX", r"build_options=\[...\]"),
            ("build_options", ["-DX", 1], "build_options lists str, not 1"),
            ("include_dirs", [b"/tmp"], "include_dirs lists str or PathLike, not b'/tmp'"),
            ("arguments", kcl.Scalar("n", np.int32), r"arguments=\[Scalar"),
            ("arguments", "n", r"arguments=\[...\]"),
            (
                "arguments",
                [kcl.Array("x", np.float32, "(1,)"), "n"],
                "arguments lists Array, Scalar, Local, Image or Sampler, not 'n'",
            ),
        ],
    )
    def test_lists(self, parameter, value, cure):
        """One text for a list would be taken letter by letter: it is refused with the parameter's name and the cure."""
        with pytest.raises(kcl.RecipeError, match=f"'f': {parameter}.*") as raised:
            source(**{parameter: value})
        assert re.search(cure, str(raised.value))

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"entry": "in"}, "'in' is no name in Python: rename the kernel in the OpenCL C$"),
            ({"arguments": [kcl.Scalar("n", np.int32)] * 2}, "declared twice"),
            (
                {"arguments": [kcl.Local("l", np.float32, 4)], "global_size": "(l,)"},
                "global_size is",
            ),
        ],
    )
    def test_refused(self, changes, words):
        """What cannot be meant is refused where the Source is made, with what is at fault and the cure."""
        with pytest.raises(kcl.RecipeError, match=f"kcl.Source '(f|in)': .*{words}"):
            source(**changes)

    @pytest.mark.parametrize(
        ("argument", "words"),
        [
            (kcl.Array("x", np.float32, 1, "both"), "'x': direction is one of in, out, inout"),
            (kcl.Image("p", direction="read_only"), "'p': direction is one of in, out, inout"),
            (kcl.Image("p", "image2d"), "'p': type is one of image1d_t, .*, not 'image2d'"),
            (kcl.Array("x", "flot32", 1), "dtype of argument 'x' is 'flot32', .*'float32'"),
            (kcl.Scalar("n", "integer"), "argument 'n' is 'integer', which numpy does not know"),
            (kcl.Scalar("v", object), NO_KERNEL_TAKES),
            (kcl.Scalar("v", "U5"), NO_KERNEL_TAKES),
            (kcl.Scalar("v", "S5"), NO_KERNEL_TAKES),
            (kcl.Scalar("v", "M8[s]"), NO_KERNEL_TAKES),
        ],
    )
    def test_argument_refused(self, argument, words):
        with pytest.raises(kcl.RecipeError, match=f"kcl.Source 'f': .*{words}"):
            source(arguments=[argument], global_size=1)


class TestSizes:
    """Shapes and sizes as texts, numbers, and tuples of both."""

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            (64, "64"),
            (np.int64(64), "64"),
            ("n", "n"),
            (("n",), "(n,)"),
            ((64, "n"), "(64, n)"),
            ([np.int32(2), "2*n", 3], "(2, 2*n, 3)"),
            (("round_up(n, 64)", "max(n, 1)"), "(round_up(n, 64), max(n, 1))"),
            ((), "()"),
        ],
    )
    def test_written(self, given, text):
        """Whatever the form, one text is kept, so equal sizes have one key."""
        one = source(global_size=given, local_size=given)
        assert (one.global_size, one.local_size) == (text, text)
        arguments = [kcl.Array("x", np.float32, given), kcl.Scalar("n", np.int32)]
        assert source(arguments=arguments).arguments[0].shape == text
        identities = [SourceUnit(source(global_size=one)).identity() for one in (given, text)]
        assert identities[0] == identities[1]

    @pytest.mark.parametrize(
        "given", [1.5, np.float32(4), True, -1, (4, -4), ("n", 1.5), ((4,),), b"n", {}, (None,)]
    )
    def test_refused(self, given):
        """What is neither a whole number nor a text is refused with the place and the forms that are accepted."""
        words = r"'f': {} is .*; write a whole number, a text such as 'n', or a tuple of these"
        for place in ("global_size", "local_size"):
            with pytest.raises(kcl.RecipeError, match=words.format(place)):
                source(**{place: given})
        with pytest.raises(kcl.RecipeError, match=words.format("shape of 'x'")):
            source(arguments=[kcl.Array("x", np.float32, given), kcl.Scalar("n", np.int32)])

    @pytest.mark.parametrize("item", ["n, n", "n), (n", "(n,)", "n)", ""])
    def test_items(self, item):
        """Each item of a tuple is one expression by itself."""
        with pytest.raises(kcl.RecipeError, match="global_size"):
            source(global_size=(item, 4))

    @pytest.mark.parametrize(
        "text", ["round_up", "round_up(n)", "round_up(n, 1, 2)", "max", "(x, n)[0].data"]
    )
    def test_functions(self, text):
        """A function is called, and with as many arguments as it has."""
        with pytest.raises(kcl.RecipeError, match="min, max, round_up and shapes over x, n"):
            source(global_size=text)

    def test_images(self):
        """An image has width, height and depth; it is no number, and has no shape."""
        arguments = [kcl.Image("picture"), kcl.Scalar("n", np.int32)]
        assert source(arguments=arguments, global_size=("picture.width", "picture.height*n"))
        for text in ("picture", "picture.shape[0]", "n.width", "max(picture, 1)"):
            with pytest.raises(kcl.RecipeError, match=r"shapes over n, picture\.width"):
                source(arguments=arguments, global_size=text)

    def test_local_memory(self):
        """The size of local memory may follow from the sizes of the launch; nothing else may."""
        part = kcl.Local("part", np.float32, "2*local_size[0] + global_size[0]")
        assert source(arguments=[part], global_size=1).arguments == (part,)
        with pytest.raises(kcl.RecipeError, match="shape of 'x'"):
            source(arguments=[kcl.Array("x", np.float32, "local_size")], global_size=1)
        for size in (("local_size[0]", 4), (4,), ("local_size[0]",), "(4,)"):
            words = r"size of 'part' is .*write one number or text"
            with pytest.raises(kcl.RecipeError, match=words):
                source(arguments=[kcl.Local("part", np.float32, size)], global_size=1)


class TestRoundUp:
    @pytest.mark.parametrize("n", [*range(-9, 10), np.uint8(250), 10**20])
    def test_function_and_text(self, n):
        """The function and its namesake in texts give the next multiple, in whole numbers of Python."""
        for multiple in (1, 2, 7, np.int8(64)):
            found = kcl.round_up(n, multiple)
            assert type(found) is int
            assert found % int(multiple) == 0
            assert int(n) <= found < int(n) + int(multiple)

    @pytest.mark.parametrize(
        ("arguments", "error", "words"),
        [
            (("n", 64), TypeError, "within a text: 'round_up"),
            ((1.5, 64), TypeError, "takes integers, not 1.5"),
            ((1, 0), ValueError, "multiple is at least 1, not 0"),
        ],
    )
    def test_refused(self, arguments, error, words):
        """What is no integer, and a multiple below one, are refused with the reason."""
        with pytest.raises(error, match=re.escape(words)):
            kcl.round_up(*arguments)


def test_repr():
    """A Source shows its kernel, its arguments and how long it is."""
    text = "kernel void one(global int *x) { x[0] = 1; }"
    source = kcl.Source(
        text, entry="one", arguments=[kcl.Array("x", np.int32, 4, "out")], global_size=1
    )
    assert repr(source) == f"<kcl.Source one(x): {len(text)} characters of OpenCL C>"
