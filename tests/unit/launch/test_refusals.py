"""kcl.launch.refusals: what a call was refused for, in the words of its user."""

import sys

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import kcl
from kcl.launch import refusals

pytestmark = pytest.mark.slow_platforms

SCALED = """
kernel void scaled(global const float *x, global float *y, float a, int n)
{ y[get_global_id(0)] = a * x[get_global_id(0)]; }
"""
ONES = np.ones(4, np.float32)
TWO = np.float32(2)


@kcl.kernel
def raw():
    """Return OpenCL C with declared arguments."""
    arrays = [kcl.Array("x", np.float32, "n"), kcl.Array("y", np.float32, "n", "out")]
    scalars = [kcl.Scalar("a", np.float32), kcl.Scalar("n", np.int32)]
    return kcl.Source(SCALED, entry="scaled", arguments=[*arrays, *scalars], global_size="n")


@kcl.kernel
def typed():
    """Return a unit of loopy whose dtypes are all declared."""
    import loopy as lp

    arrays = lp.GlobalArg("x,y", np.float32, shape="n")
    arguments = [arrays, lp.ValueArg("a", np.float32), lp.ValueArg("n", np.int32)]
    return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = a*x[i]", arguments, lang_version=(2018, 2))


@kcl.kernel
def untyped():
    """Return a unit of loopy whose dtypes follow from the arguments."""
    import loopy as lp

    return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = a*x[i]", lang_version=(2018, 2))


RECIPES = pytest.mark.parametrize("recipe", [raw, typed, untyped], ids=lambda one: one.__name__)


def refused(queue, kernel, arguments):
    """Return what a call raises: of a Source a TypeError, of loopy the executor's class; it names the kernel."""
    with pytest.raises(TypeError if kernel.name == "raw" else Exception) as raised:
        kernel(queue, **{"x": ONES, "a": TWO, **arguments})
    assert raised.traceback[-1].name == "__call__"
    assert f"kernel {kernel.name!r}" in str(raised.value)
    return str(raised.value)


class TestArguments:
    """What a call says of its arguments."""

    def test_loopy(self, queue):
        """A unit of loopy takes no buffer, and no array in the place of a number."""
        buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 16)
        words = "not a Buffer; write x=pyopencl.array.Array(queue, shape, np.float32, data=buffer)"
        assert words in refused(queue, typed(), {"x": buffer})
        words = "'a' is a number of dtype float32, not an array of shape (4,)"
        assert words in refused(queue, typed(), {"a": ONES})

    def test_positional(self, queue):
        """Arguments without a name are refused with the way to write them, by their names once these are known."""
        kernel = raw()
        for names in "name=...", "x=..., y=..., a=..., n=...":
            words = rf"kernel 'raw' takes its arguments by name: write kernel\(queue, {names}\)$"
            for given in (ONES,), ((4,), (2,), ONES):
                with pytest.raises(TypeError, match=words):
                    kernel(queue, *given)
            kernel(queue, x=ONES, a=TWO)

    def test_parts_of_an_array(self, queue):
        """An array whose parts are separate is given as a tuple, a list or an array of objects, as in loopy."""

        @kcl.kernel
        def copied():
            import loopy as lp

            return lp.fix_parameters(lp.make_copy_kernel("c,c", "f,sep"), n1=2)

        kernel, parts = copied(), np.empty(2, object)
        parts[:] = [ONES, 2 * ONES]
        for given in ((ONES, 2 * ONES), [ONES, 2 * ONES], parts):
            _event, (output,) = kernel(queue, input=given)
            assert np.asarray(output).tolist() == [[1.0, 2.0]] * 4
        with pytest.raises(KeyError, match="takes no argument 'bogus'"):
            kernel(queue, input=[ONES, 2 * ONES], bogus=1)


class Foreign:
    """An array of another package, with a dtype of its own."""

    dtype, shape, strides = "float32 of others", (4,), (1,)


def elsewhere(queue):
    """Return an array of another context, with an event."""
    elsewhere.kept = context = cl.Context(queue.context.devices)  # Intel's buffers do not keep it
    return cl_array.to_device(cl.CommandQueue(context), ONES)


OPEN = "give the dtypes of 'a'"
OF_X = "'x' is an array of dtype float32, not the"
OF_A = "'a' is a number of dtype float32, not the"
# arguments of a call, made of the queue; what all front ends say of it; what a Source says in other words; what is said
# while the arguments of a unit are unknown
CALLS = {
    "list": (lambda _: {"x": [1.0]}, rf"{OF_X} list \[1.0\]; write x=np", None, "'x' is the list"),
    "str": (lambda _: {"x": "f4"}, f"{OF_X} str 'f4'; give a numpy array", None, "'x' is the str"),
    "number": (lambda _: {"x": TWO}, f"{OF_X} float32 ", None, "'x' is an array"),
    "number in a list": (lambda _: {"a": [2]}, rf"{OF_A} list \[2\]", None, "'a' is the list"),
    "number in a text": (lambda _: {"a": "2"}, f"{OF_A} str '2'", None, "'a' is the str"),
    "unknown": (lambda _: {"xs": ONES}, r"takes no argument 'xs' \(did you mean 'x'\?\); its arguments are ", None),
    "missing": (lambda _: {"a": None}, "'a'", "'a' was not given, and no shape says it; it is a number of dtype"),
    "dtype": (lambda _: {"x": ONES.astype("f8"), "y": ONES}, "'[xy]'.*float64.*float32", None),
    "axes": (lambda _: {"x": np.ones((2, 2), "f4")}, r"shape mismatch on argument 'x' \(got: \(2, 2\)", None),
    "size": (lambda _: {"x": ONES, "n": 5}, r"shape mismatch on argument 'x' .*\(5,\)", None),
    "output": (lambda _: {"y": np.ones(3, "f4")}, "shape mismatch on argument 'y'", None),
    "gaps": (lambda _: {"x": np.ones(8, "f4")[::2]}, r"'x'.* \(?8,.*write x=np.ascontiguousarray", "strides mismatch"),
    "reverse": (lambda _: {"x": ONES[::-1]}, r"'x'.* \(?-4,.*write x=np.ascontiguousarray", "strides mismatch"),
    "reverse, written": (lambda _: {"y": ONES.copy()[::-1]}, "'y'.*-4,", "write the result to an array in C order"),
    "view": (lambda queue: {"x": cl_array.zeros(queue, 8, "f4")[::2]}, "strides mismatch on argument 'x'", None),
    "offset": (lambda queue: {"x": cl_array.zeros(queue, 8, "f4")[4:]}, "'x' does not allow arrays with offsets", None),
    "context": (lambda queue: {"x": elsewhere(queue)}, "'x' lies in another context than the queue", None),
    "foreign": (lambda _: {"x": Foreign()}, "'x' is .*a Foreign; give a numpy array", None),
    "class": (lambda _: {"x": np.float32}, "'x' is .*the class float32", None),
    "complex": (lambda _: {"a": 1j}, f"'a' is .*the complex 1j|{OPEN}", "of dtype float32, not the complex 1j"),
    "too large": (lambda _: {"a": 10**400}, f"'a' is .*the int 1000|{OPEN}", "of dtype float32, not the int 1000"),
}  # fmt: skip


class TestEveryPath:
    """Whatever a call does wrong, the error names the kernel, the argument, and what is accepted."""

    @RECIPES
    def test_named(self, queue, recipe, under):
        """At the first call and later, under strict rules: no layer has a fault, and a right call goes on."""
        under(KCL_STRICT="fault")
        for name, (wrong, words, of_source, *unknown) in CALLS.items():
            if recipe is untyped and name == "dtype":
                continue  # any dtype will do
            kernel, arguments = recipe(), {"x": ONES, "a": TWO, **wrong(queue)}
            known = of_source if of_source and recipe is raw else words
            for expected in ("|".join([known, *unknown]), known):
                with pytest.raises(Exception, match=expected) as raised:
                    kernel(queue, **arguments)
                assert f"kernel {kernel.name!r}" in str(raised.value), name
                assert not unknown or raised.traceback[-1].name == "__call__", name
                assert not isinstance(raised.value, kcl.KclError), name
                _event, (y,) = kernel(queue, x=ONES, a=TWO)
                assert y[0] == 2
        assert kcl.stats()["generator"]["errors"] == kcl.stats()["binary"]["errors"] == 0

    def test_buffers(self, queue):
        """What OpenCL would take and could not use is refused before the launch."""
        flags = cl.mem_flags
        small = cl.Buffer(queue.context, flags.READ_WRITE, 8)
        closed = cl.Buffer(queue.context, flags.READ_ONLY, 16)
        far = elsewhere(queue).base_data
        for given, words in (
            ({"x": small}, r"'x' is a buffer of 8 bytes, but its shape \(4,\) takes 16"),
            ({"y": closed}, "'y' is written, .* READ_ONLY"),
            ({"x": far}, "'x' is a buffer of another context than the queue's"),
        ):
            with pytest.raises(ValueError, match=f"kernel 'raw': argument {words}"):
                raw()(queue, **{"x": ONES, "a": TWO, "n": 4, **given})

    def test_no_queue(self, queue):
        """A call without a queue, with a context or something else names the kernel, ready or not; `bind` does too."""
        kernel, x = raw(), cl_array.to_device(queue, ONES)
        words = r"the first argument of kernel 'raw' is a pyopencl.CommandQueue, not"
        for holder in ((), (ONES,), (queue.context,)):
            with pytest.raises(TypeError, match=words):
                raw()(*holder, x=x, a=TWO)
        with pytest.raises(TypeError, match=words):
            kernel.bind(queue.context, x=x, a=TWO)
        for prepare in (lambda: kernel(queue, x=x, a=TWO), lambda: kernel.prepare(queue.context)):
            prepare()
            with pytest.raises(TypeError, match=words):
                kernel(queue.context, x=x, a=TWO)


class TestAsked:
    """What is asked for without a launch, by dtype: `prepare`, `source`, `key` and `explain`."""

    @pytest.mark.parametrize("verb", ["prepare", "source", "key", "explain"])
    @RECIPES
    def test_unknown_dtype(self, context, recipe, verb, under):
        """A misspelt dtype is no fault of the cache: it is named, with the one that is meant."""
        under(KCL_STRICT="fault")
        words = r"kernel '\w+': argument 'x' has the dtype 'flaot32', which numpy does not know \(did you mean"
        with pytest.raises(TypeError, match=words):
            getattr(recipe(), verb)(context, x="flaot32")

    @pytest.mark.parametrize("verb", ["prepare", "source", "key"])
    @RECIPES
    def test_unlike_the_kernel(self, context, recipe, verb):
        """A name that the kernel does not take is refused, and so is an array of another dtype than it takes."""
        ask = getattr(recipe(), verb)
        ask(context, x=np.float32, a="float32", n=4)
        words = r"takes no argument 'xs' \(did you mean 'x'\?\); it takes "
        with pytest.raises(TypeError, match=words):
            ask(context, x="float32", a=TWO, xs=ONES)
        if recipe is not untyped:
            words = "argument 'x' is an array of dtype float32, not float64"
            with pytest.raises(TypeError, match=words):
                ask(context, x=np.ones(4), a=TWO)

    @pytest.mark.parametrize("verb", ["prepare", "source"])
    @pytest.mark.parametrize(("given", "names"), [({}, "'a', 'x'"), ({"a": np.float32}, "'x'")])
    def test_the_dtypes_that_the_kernel_lacks_are_named_with_the_recipe(
        self, context, verb, given, names
    ):
        words = f"kernel 'untyped': give the dtypes of {names}, which decide the code, such as {names[1]}=np.float32"
        with pytest.raises(RuntimeError, match=words):
            getattr(untyped(), verb)(context, **given)

    def test_sizes_of_a_launch_are_no_arguments(self, context):
        raw().prepare(context, global_size=4)

    def test_attributes(self):
        """Who looks for loopy's executor, or for another kernel of the text, is told where that is."""
        for kernel, name, words in (
            (typed(), "executor", r"; it is called itself: kernel\(queue, ...\)"),
            (
                raw(),
                "kernel",
                r"; `\.kernel` belongs to kcl\.Source: .*return source\.kernel\(\.\.\.\) from",
            ),
        ):
            with pytest.raises(AttributeError, match=f"no attribute '{name}'{words}"):
                getattr(kernel, name)
        assert not hasattr(typed(), "others")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no notes")
class TestNoted:
    """What a recipe or loopy raises keeps its class, and has a note with the kernel and the line of the recipe."""

    @pytest.mark.parametrize("pure", [False, True])
    def test_line(self, queue, pure):
        """The line is that of the recipe, the deepest one."""

        @kcl.kernel(pure=pure, version="1")
        def misspelt(iname):
            import loopy as lp

            knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", lang_version=(2018, 2))
            return lp.split_iname(knl, iname, 16)

        kernel, line = misspelt("j"), misspelt.function.__code__.co_firstlineno + 5
        for _ in range(2):
            with pytest.raises(KeyError) as raised:
                kernel(queue, x=ONES)
            assert raised.value.__notes__ == [
                f"in the recipe of kernel misspelt(iname='j'): {__file__}, line {line}"
            ]

    def test_an_error_of_kcl_names_the_recipe_itself(self, queue):
        with pytest.raises(kcl.RecipeError) as raised:
            kcl.kernel(lambda: None)()(queue)
        assert not hasattr(raised.value, "__notes__")


@RECIPES
def test_beside(queue, recipe):
    """What every call may give beside arguments is listed, and may be what is meant."""
    kernel = recipe()
    kernel(queue, x=ONES, a=TWO)
    words = r"takes no argument 'outhost' \(did you mean 'out_host'\?\); .*allocator, wait_for, out_host\"?$"
    # loopy looks for open dtypes.
    with pytest.raises(KeyError if recipe is untyped else TypeError, match=words):
        kernel(queue, x=ONES, a=TWO, outhost=True)


LOCAL = """
#define WHOLE int
kernel void shared(local float *part, global float *x, WHOLE n)
{
    part[get_local_id(0)] = x[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    x[get_global_id(0)] = part[0];
}
"""


@kcl.kernel
def shared(size):
    """Return a kernel that has local memory as its first parameter."""
    arrays = [kcl.Local("part", np.float32, size), kcl.Array("x", np.float32, "n", "inout")]
    arguments = [*arrays, kcl.Scalar("n", np.int32)]
    return kcl.Source(LOCAL, entry="shared", arguments=arguments, global_size="n", local_size=1)


class TestLocal:
    """Local memory is declared, and no call gives it."""

    @pytest.mark.parametrize(
        ("size", "words"),
        [
            ("n - 4", "n - 4 = 0 ele"),
            ("n - 5", "n - 5 = -1 ele"),
            ("local_size", r"local_size = \(1,\) elements; write a size"),
        ],
    )
    def test_size(self, queue, size, words):
        """A size below one, or a tuple of the launch, is refused on every driver, with its expression and its value."""
        for _ in range(2):
            with pytest.raises(
                ValueError, match=f"kernel 'shared': .*'part' is local memory of {words}"
            ):
                shared(size)(queue, x=ONES.copy())

    def test_not_given(self, queue):
        """It is not listed among what a call gives."""
        kernel = shared(4)
        kernel(queue, x=ONES.copy())
        with pytest.raises(TypeError, match=r"takes no argument 'part'; its arguments are x, n; "):
            kernel(queue, x=ONES.copy(), part=cl.LocalMemory(4))
        with pytest.raises(TypeError, match="takes no argument 'part'; it takes x, n"):
            kernel.prepare(queue, part=np.float32)
        with pytest.raises(TypeError, match=r"write kernel\(queue, x=..., n=...\)"):
            kernel(queue, ONES)


def test_class_that_wants_more():
    """Of a class that wants more than words it is the nearest one above that does not."""

    class Picky(ValueError):
        def __init__(self, one, two):
            super().__init__(one, two)

    found = refusals.reword(Picky(1, 2), "words")
    assert (type(found), str(found)) == (ValueError, "words")


def test_entry(queue):
    """A program that lacks the kernel is told of with the recipe, the kernel and those that it has."""

    @kcl.kernel
    def misnamed():
        arguments = [kcl.Scalar("n", int)]
        return kcl.Source(SCALED, entry="scale", arguments=arguments, global_size=1)

    words = r"'misnamed' \(recipe in .*: the program has no kernel 'scale'"
    with pytest.raises(kcl.RecipeError, match=words):
        misnamed()(queue, n=1)


TEXT = """
kernel void broken(global int *x)
{
    int n = 3;
    x[0] = missing + n;
}
"""


@kcl.kernel
def broken(text, directories=()):
    """A kernel that does not compile."""
    arguments, folders = [kcl.Array("x", np.int32, 4, "out")], list(directories)
    return kcl.Source(
        text, entry="broken", arguments=arguments, global_size=1, include_dirs=folders
    )


class TestDoesNotCompile:
    """A program that does not compile is told of once, with the recipe, the kernel and the line."""

    @pytest.mark.parametrize(
        ("log", "cured"),
        [
            ("error: unknown target CPU 'generic'\n1 error", True),
            ("error: use of undeclared identifier 'missing'", False),
        ],
    )
    def test_unknown_cpu(self, log, cured):
        """Where PoCL does not know the CPU the error ends with the command that has the cure; no other error does."""
        record = cl._cl._ErrorRecord(msg=f"failed: {log}", code=-11, routine="clBuildProgram")
        said = str(refusals.build_error("scaled", None, cl.RuntimeError(record), ""))
        assert (
            said.endswith("\n\n`python -m kcl doctor` has the cure") is ("doctor" in said) is cured
        )

    def test_line(self, queue):
        """The error is pyopencl's, once, with kernel and line of the recipe; the text's line is below its message."""
        with pytest.raises(cl.RuntimeError) as raised:
            broken(TEXT)(queue)
        assert raised.traceback[-1].name == "__call__"
        assert raised.value.__cause__ is None
        assert raised.value.__suppress_context__ or raised.value.__context__ is None
        words = str(raised.value)
        assert f"the program of kernel 'broken' (recipe in {__file__}, line " in words
        assert words.count("clBuildProgram failed") == 1
        assert below(words, "'missing'").endswith(" x[0] = missing + n;")

    def test_header(self, queue, tmp_path):
        """Of an error in a header it is the header's line, and not one of the text."""
        (tmp_path / "broken.h").write_text("\n\ninline int f() { return absent; }\n")
        text = '#include "broken.h"\n' + TEXT.replace("missing", "f()")
        with pytest.raises(cl.RuntimeError) as raised:
            broken(text, (str(tmp_path),))(queue)
        assert below(str(raised.value), "'absent'").endswith(" inline int f() { return absent; }")


def below(log, words):
    """Return the line of a log below the one with some words."""
    lines = log.splitlines()
    return lines[next(number for number, line in enumerate(lines) if words in line) + 1]


@pytest.mark.one_platform
class TestLines:
    @pytest.mark.parametrize(
        "message",
        [
            "error: /nowhere/tempfile_1.cl:5:12: use of undeclared identifier 'missing'",
            "/nowhere/tempfile_1.cl:5:12: error: use of undeclared identifier 'missing'",
            "<kernel>:5:12: error: use of undeclared identifier 'missing'",
            "1:5:12: fatal error: something",
        ],
    )
    def test_messages(self, message):
        """Messages of several drivers name a line of the text, by its number."""
        found = refusals.with_lines(f"{message}\nend", TEXT)
        assert found == f"{message}\n    x[0] = missing + n;\nend"

    @pytest.mark.parametrize(
        "log",
        [
            "",
            "3 errors generated.",
            "error: something else",
            "error: /nowhere/tempfile_1.cl:99:1: words",
            "error: /nowhere/tempfile_1.cl:0:1: words",
            "error: /nowhere/tempfile_1.cl:1:1: words",
            "error: /nowhere/header.h:5:12: words",
            "warning: /nowhere/tempfile_1.cl:5:12: words",
            "<kernel>:5:12: error: words\n    x[0] = missing + n;\n           ^",
        ],
    )
    def test_left_alone(self, log):
        """Where no line is named, none is there, or the log has it itself, the log stays as it is."""
        assert refusals.with_lines(log, TEXT) == log
