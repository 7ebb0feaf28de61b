"""What an unmade record, and a name of the face before loopy is imported, cannot imitate: a test for each row.

The page doc/explanation/the-face.md names these tests. Each runs in a process of its own, the second one of a program:
its calls have proofs and wait, and loopy is imported only where the test says so.
"""

import re
import sys
import textwrap

import pytest
from harness import PLATFORMS, ROOT, Child

pytestmark = pytest.mark.slow_platforms

HEAD = """
import importlib
import json
import sys

import kcl.loopy as lp

knl = lp.make_kernel(
    "{[i]: 0<=i<n}", "y[i] = 2*x[i]", [lp.GlobalArg("x,y", "float32", shape="n"), "..."], lang_version=(2018, 2)
)
arg = lp.ValueArg("n", "int32")
"""
TAIL = """
print(json.dumps([found, "loopy" in sys.modules]))
"""
RAISED = """
def raised(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return type(error).__name__
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Run a program for the second time: returns what it found, and whether loopy was imported by then."""
    child = Child(tmp_path_factory.mktemp("limits"))
    first = child.json(f"{HEAD}\narg = lp.ValueArg('n', 'int32')\nfound = 0\n{TAIL}")
    assert first == [0, True]

    def run(code, **variables):
        return child.json("\n".join([HEAD, RAISED, textwrap.dedent(code), TAIL]), **variables)

    return run


class TestUnit:
    def test_waits(self, program):
        """The calls of the programs in this file wait."""
        assert program("found = 1") == [1, False]

    def test_type_of_a_unit(self, program):
        """`type` gives a class of kcl's until the unit is made; then it gives loopy's own, of the same object."""
        code = """
        before = type(knl).__name__, isinstance(knl, lp.TranslationUnit)
        knl.default_entrypoint
        found = [*before, type(knl).__name__, type(knl) is lp.TranslationUnit]
        """
        assert program(code) == [["RecordedUnit", True, "TranslationUnit", True], True]

    def test_dataclass_functions(self, program):
        """`dataclasses` answers about a unit as loopy's does, and has it made."""
        code = """
        import dataclasses
        found = [dataclasses.is_dataclass(knl), raised(dataclasses.replace, knl), type(knl).__name__]
        """
        assert program(code) == [[True, None, "TranslationUnit"], True]

    def test_class_attribute(self, program):
        """`knl.__class__` is kcl's before loopy is imported, and loopy's after that, made or not."""
        code = """
        before = knl.__class__.__name__
        importlib.import_module("loopy")
        found = [before, knl.__class__.__name__, type(knl).__name__]
        """
        assert program(code) == [["RecordedUnit", "TranslationUnit", "RecordedUnit"], True]

    def test_one_object_of_a_record_is_made(self, program):
        """A copy of an unmade unit does not become loopy's with it; the two are equal."""
        code = """
        import copy
        other = copy.copy(knl)
        knl.default_entrypoint
        found = [type(knl).__name__, type(other).__name__, knl == other]
        """
        assert program(code) == [["TranslationUnit", "RecordedUnit", True], True]

    def test_sets_and_dictionaries(self, program):
        """A hash is loopy's, so a unit that is a key of a dictionary or a member of a set is made."""
        assert program("found = len({knl})") == [1, True]

    def test_executor(self, program, platform_name):
        """What `executor` returns is of a class of kcl's, and no instance of loopy's."""
        code = """
        import pyopencl as cl
        context = cl.create_some_context(interactive=False)
        executor = knl.executor(context)
        found = [type(executor).__module__, isinstance(executor, lp.ExecutorBase)]
        """
        variables = {"PYOPENCL_CTX": PLATFORMS[platform_name].partition(" ")[0].partition("(")[0]}
        assert program(code, **variables)[0] == ["kcl.frontends.loopy.executor", False]


@pytest.mark.slow
class TestArguments:
    def test_type_of_an_argument(self, program):
        """`type` of an argument is the face's class; the name is loopy's own after a question, and equal to it."""
        code = """
        before, kinds = type(arg) is lp.ValueArg, {lp.ArrayArg: "array", type(arg): "value"}
        name = arg.name
        real = importlib.import_module("loopy")
        found = [before, name, type(arg) is lp.ValueArg, type(arg) == lp.ValueArg, kinds[lp.ValueArg],
                 isinstance(arg, real.ValueArg), arg.__class__ is real.ValueArg]
        """
        assert program(code) == [[True, "n", False, True, "value", True, True], True]

    def test_comparison_from_loopys_side(self, program):
        """loopy's own argument compares its type with the proxy's; the proxy asks loopy's own."""
        code = """
        real = importlib.import_module("loopy").ValueArg("n", "int32")
        found = [arg == real, real == arg]
        """
        assert program(code) == [[True, False], True]

    def test_what_is_made_of_it_is_loopys(self, program):
        """A copy with other fields, a pickle, and what a made unit holds are loopy's own."""
        code = """
        import pickle
        knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 3*x[i]", [arg, "..."], lang_version=(2018, 2))
        things = arg.copy(name="m"), pickle.loads(pickle.dumps(arg)), knl.default_entrypoint.args[0]
        found = [type(thing).__name__ for thing in things]
        """
        assert program(code) == [["ValueArg", "ValueArg", "ValueArg"], True]


@pytest.mark.slow
class TestNames:
    def test_identity_of_a_name(self, program):
        """A name that was taken before loopy was imported stands for loopy's thing: equal, with its hash, not `is`."""
        code = """
        auto, shared = lp.auto, lp.AddressSpace.LOCAL
        hash(auto)
        real = importlib.import_module("loopy")
        found = [auto is lp.auto, lp.auto is real.auto, auto == lp.auto, {auto: 1}[real.auto],
                 shared is real.AddressSpace.LOCAL, shared == real.AddressSpace.LOCAL,
                 {real.AddressSpace.LOCAL: 7}[shared], issubclass(lp.PyOpenCLTarget, real.TargetBase)]
        """
        assert program(code) == [[False, True, True, 1, False, True, 7, True], True]

    def test_instance_of_an_enumeration(self, program):
        """To ask whether a member is an instance of its enumeration imports loopy."""
        assert program("found = isinstance(lp.AddressSpace.LOCAL, lp.AddressSpace)") == [True, True]

    def test_questions_about_classes(self, program):
        """A hash of a class, `issubclass`, an assignment and its documentation import loopy; `isinstance` does not."""
        assert (
            program(
                "found = isinstance(arg, lp.ValueArg), isinstance(3, lp.ArrayArg | lp.ValueArg)"
            )[1]
            is False
        )
        for question in (
            "found = len({lp.ArrayArg})",
            "found = issubclass(lp.PyOpenCLTarget, lp.TargetBase)",
            "found = lp.PyOpenCLTarget.mine = 1",
            "found = bool(lp.ArrayArg.__doc__)",
        ):
            assert program(question) == [1, True]

    def test_metaclass(self, program):
        """A class of yours with a metaclass of its own inherits once the name is loopy's own class."""
        code = """
        class Own(type):
            pass
        def inherit():
            class Mine(lp.LoopKernel, metaclass=Own):
                pass
        before = raised(inherit)
        lp.LoopKernel.__doc__
        found = [before, raised(inherit)]
        """
        assert program(code) == [["TypeError", None], True]

    def test_base_class(self, program):
        """A class of yours that extends one of loopy's imports loopy."""
        code = """
        class Mine(lp.PyOpenCLTarget):
            pass
        found = Mine.__mro__[1].__module__
        """
        assert program(code) == ["loopy.target.pyopencl", True]

    def test_options(self, program):
        """An object of loopy's options is loopy's; the name of the class imports nothing."""
        assert program("found = lp.Options is None") == [False, False]
        assert program("found = lp.Options(write_code=True).write_code") == [True, True]

    def test_functions(self, program):
        """A function of the face passes for a Python function; its docstring is loopy's, and imports it."""
        code = """
        import inspect
        found = [inspect.isfunction(lp.split_iname), "tag" in (lp.split_iname.__doc__ or "")]
        real = importlib.import_module("loopy")
        found += [lp.split_iname is real.split_iname, str(inspect.signature(lp.split_iname))[:8]]
        """
        assert program(code) == [[True, True, False, "(kernel:"], True]

    def test_star(self, program):
        """`from loopy import *` imports loopy, since the list of names is loopy's."""
        code = """
        names = {}
        exec("from kcl.loopy import *", names)
        found = "make_kernel" in names
        """
        assert program(code) == [True, True]


@pytest.mark.slow
class TestErrors:
    def test_loopy_error_imports_loopy(self, program):
        """An `except` clause that names `lp.LoopyError` imports loopy when an exception reaches it, and not before."""
        code = """
        def attempt(error):
            try:
                if error is not None:
                    raise error
            except lp.LoopyError:
                return "loopy's"
            except ValueError:
                pass
            return "loopy" in sys.modules
        found = [attempt(None), attempt(ValueError())]
        """
        assert program(code) == [[False, True], True]

    def test_warning_category(self, program):
        """A warning category that was named before loopy was imported matches loopy's class and is not that class."""
        code = """
        category = lp.LoopyWarning
        real = importlib.import_module("loopy")
        found = [category is real.LoopyWarning, issubclass(real.LoopyWarning, category)]
        """
        assert program(code) == [[False, True], True]

    def test_traceback(self, program):
        """The traceback of an error has frames of kcl's between the line that calls and loopy."""
        code = """
        import traceback
        try:
            lp.split_iname(knl, "nowhere", 16)
        except Exception as error:
            files = [frame.filename.replace("\\\\", "/") for frame in traceback.extract_tb(error.__traceback__)]
        found = [files[0], any("/kcl/frontends/loopy/" in file for file in files), "/loopy/" in files[-1]]
        """
        assert program(code) == [["<string>", True, True], True]


@pytest.mark.slow
class TestModules:
    def test_import_module(self, program):
        """`importlib.import_module` gives loopy itself, whose calls outside of recipes are not recorded."""
        code = """
        before = "loopy" in sys.modules
        real = importlib.import_module("loopy")
        made = real.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", lang_version=(2018, 2))
        found = [before, real is not lp, type(made).__name__]
        """
        assert program(code) == [[False, True, "TranslationUnit"], True]

    def test_private_names(self, program):
        """A name that begins with an underscore imports loopy."""
        assert program("found = hasattr(lp, '_DEFAULT_TARGET')") == [True, True]

    def test_listing_of_names(self, program):
        """`dir` of the face imports loopy."""
        assert program("found = 'make_kernel' in dir(lp)") == [True, True]


class TestPage:
    def test_names(self):
        """The page names every test of this file, and no other."""
        page = (ROOT / "doc" / "explanation" / "the-face.md").read_text(encoding="utf-8")
        here = {name for kind in _classes() for name in vars(kind) if name.startswith("test_")}
        named = set(re.findall(r"`(test_\w+)`", page))
        assert named <= here
        assert here - named == {"test_names", "test_waits"}


def _classes():
    return [thing for name, thing in vars(sys.modules[__name__]).items() if name.startswith("Test")]
