"""What an unmade record, and a name of the face before loopy is imported, cannot imitate: a case for each row.

The page doc/explanation/the-face.md says what each case shows. Each runs in a process of its own, the second one of a
program: its calls have proofs and wait, and loopy is imported only where the case says so.
"""

import re
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

def load():
    return importlib.import_module("loopy")

def raised(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return type(error).__name__
"""
TAIL = """
print(json.dumps([found, "loopy" in sys.modules]))
"""
# What is asked, and what it finds; loopy is imported by then, but for these.
WITHOUT_LOOPY = {"waits", "questions_about_classes", "options"}
OF_UNITS = {
    "waits": ("found = 1", 1),
    "type_of_a_unit": (
        """
        before = type(knl).__name__, isinstance(knl, lp.TranslationUnit)
        knl.default_entrypoint
        found = [*before, type(knl).__name__, type(knl) is lp.TranslationUnit]
        """,
        ["RecordedUnit", True, "TranslationUnit", True],
    ),
    "dataclass_functions": (
        """
        import dataclasses
        found = [dataclasses.is_dataclass(knl), raised(dataclasses.replace, knl), type(knl).__name__]
        """,
        [True, None, "TranslationUnit"],
    ),
    "class_attribute": (
        """
        before = knl.__class__.__name__
        load()
        found = [before, knl.__class__.__name__, type(knl).__name__]
        """,
        ["RecordedUnit", "TranslationUnit", "RecordedUnit"],
    ),
    "one_object_of_a_record_is_made": (
        """
        import copy
        other = copy.copy(knl)
        knl.default_entrypoint
        found = [type(knl).__name__, type(other).__name__, knl == other]
        """,
        ["TranslationUnit", "RecordedUnit", True],
    ),
    "sets_and_dictionaries": ("found = len({knl})", 1),
    "executor": (
        """
        import pyopencl as cl
        context = cl.create_some_context(interactive=False)
        executor = knl.executor(context)
        found = [type(executor).__module__, isinstance(executor, lp.ExecutorBase)]
        """,
        ["kcl.frontends.loopy.executor", False],
    ),
}
OF_OTHERS = {
    "type_of_an_argument": (
        """
        before, kinds = type(arg) is lp.ValueArg, {lp.ArrayArg: "array", type(arg): "value"}
        name, real = arg.name, load()
        found = [before, name, type(arg) is lp.ValueArg, type(arg) == lp.ValueArg, kinds[lp.ValueArg],
                 isinstance(arg, real.ValueArg), arg.__class__ is real.ValueArg]
        """,
        [True, "n", False, True, "value", True, True],
    ),
    "comparison_from_loopys_side": (
        """
        real = load().ValueArg("n", "int32")
        found = [arg == real, real == arg]
        """,
        [True, False],
    ),
    "what_is_made_of_it_is_loopys": (
        """
        import pickle
        knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 3*x[i]", [arg, "..."], lang_version=(2018, 2))
        things = arg.copy(name="m"), pickle.loads(pickle.dumps(arg)), knl.default_entrypoint.args[0]
        found = [type(thing).__name__ for thing in things]
        """,
        ["ValueArg", "ValueArg", "ValueArg"],
    ),
    "identity_of_a_name": (
        """
        auto, shared = lp.auto, lp.AddressSpace.LOCAL
        hash(auto)
        real = load()
        found = [auto is lp.auto, lp.auto is real.auto, auto == lp.auto, {auto: 1}[real.auto],
                 shared is real.AddressSpace.LOCAL, shared == real.AddressSpace.LOCAL,
                 {real.AddressSpace.LOCAL: 7}[shared], issubclass(lp.PyOpenCLTarget, real.TargetBase)]
        """,
        [False, True, True, 1, False, True, 7, True],
    ),
    "instance_of_an_enumeration": (
        "found = isinstance(lp.AddressSpace.LOCAL, lp.AddressSpace)",
        True,
    ),
    "questions_about_classes": (
        """
        found = ["loopy" in sys.modules, isinstance(arg, lp.ValueArg), isinstance(3, lp.ArrayArg | lp.ValueArg)]
        found += ["loopy" in sys.modules]
        """,
        [False, True, False, False],
    ),
    "questions_about_classes: hash": ("found = len({lp.ArrayArg})", 1),
    "questions_about_classes: issubclass": (
        "found = issubclass(lp.PyOpenCLTarget, lp.TargetBase)",
        True,
    ),
    "questions_about_classes: assignment": ("found = lp.PyOpenCLTarget.mine = 1", 1),
    "questions_about_classes: documentation": ("found = bool(lp.ArrayArg.__doc__)", True),
    "metaclass": (
        """
        class Own(type):
            pass
        def inherit():
            class Mine(lp.LoopKernel, metaclass=Own):
                pass
        before = raised(inherit)
        lp.LoopKernel.__doc__
        found = [before, raised(inherit)]
        """,
        ["TypeError", None],
    ),
    "base_class": (
        """
        class Mine(lp.PyOpenCLTarget):
            pass
        found = Mine.__mro__[1].__module__
        """,
        "loopy.target.pyopencl",
    ),
    "options": ("found = lp.Options is None", False),
    "options: made": ("found = lp.Options(write_code=True).write_code", True),
    "functions": (
        """
        import inspect
        found = [inspect.isfunction(lp.split_iname), "tag" in (lp.split_iname.__doc__ or "")]
        found += [lp.split_iname is load().split_iname, str(inspect.signature(lp.split_iname))[:8]]
        """,
        [True, True, False, "(kernel:"],
    ),
    "star": (
        """
        names = {}
        exec("from kcl.loopy import *", names)
        found = "make_kernel" in names
        """,
        True,
    ),
    "loopy_error_imports_loopy": (
        """
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
        """,
        [False, True],
    ),
    "warning_category": (
        """
        category, real = lp.LoopyWarning, load()
        found = [category is real.LoopyWarning, issubclass(real.LoopyWarning, category)]
        """,
        [False, True],
    ),
    "traceback": (
        """
        import traceback
        try:
            lp.split_iname(knl, "nowhere", 16)
        except Exception as error:
            files = [frame.filename.replace("\\\\", "/") for frame in traceback.extract_tb(error.__traceback__)]
        found = [files[0], any("/kcl/frontends/loopy/" in file for file in files), "/loopy/" in files[-1]]
        """,
        ["<string>", True, True],
    ),
    "import_module": (
        """
        before, real = "loopy" in sys.modules, load()
        made = real.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", lang_version=(2018, 2))
        found = [before, real is not lp, type(made).__name__]
        """,
        [False, True, "TranslationUnit"],
    ),
    "private_names": ("found = hasattr(lp, '_DEFAULT_TARGET')", True),
    "listing_of_names": ("found = 'make_kernel' in dir(lp)", True),
}
CASES = {**OF_UNITS, **OF_OTHERS}
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in OF_OTHERS]


@pytest.fixture(scope="module")
def child(tmp_path_factory):
    """Child processes with proofs of the calls that all cases begin with."""
    child = Child(tmp_path_factory.mktemp("limits"))
    assert child.json(f"{HEAD}\nfound = 0\n{TAIL}") == [0, True]
    return child


@pytest.mark.parametrize("name", [*OF_UNITS, *SLOW])
def test_limit(child, platform_name, name):
    code, found = CASES[name]
    text = "\n".join([HEAD, textwrap.dedent(code), TAIL])
    said = child.json(text, PYOPENCL_CTX=PLATFORMS[platform_name])
    assert said == [found, name not in WITHOUT_LOOPY]


def test_page():
    """The page names every case, and no other."""
    page = (ROOT / "doc" / "explanation" / "the-face.md").read_text(encoding="utf-8")
    cases = {name.partition(":")[0] for name in CASES}
    assert set(re.findall(r"`test_limit\[(\w+)\]`", page)) == cases - {"waits"}
