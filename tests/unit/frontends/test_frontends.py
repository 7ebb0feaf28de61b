"""kcl.frontends: a recipe's result goes to the front end that knows it."""

import textwrap

import numpy as np
import pytest
from loopys_own import loopy as lp
from recorded_units import make

import kcl
import kcl.loopy as face
from kcl.errors import RecipeError
from kcl.frontends import RecipeResult, accept
from kcl.frontends.loopy import recorder
from kcl.frontends.loopy.translation import LoopyUnit
from kcl.frontends.source.result import SourceUnit
from kcl.generate.declarations import RecipeCall

UNIT = make("out[i] = a[i]", lp, name="made")


def source(factor=2, options=()):
    return kcl.Source(
        f"kernel void f(global int *a) {{ a[0] = {factor}; }}",
        arguments=[kcl.Array("a", np.int32, "(1,)")],
        global_size="(1,)",
        entry="f",
        build_options=options,
    )


def accepted(value, name):
    return accept(value, RecipeCall(name, source, {}))


@pytest.mark.parametrize(
    ("value", "kind", "name"), [(UNIT, LoopyUnit, "loopy"), (source(), SourceUnit, "opencl")]
)
def test_front_ends(value, kind, name):
    """A unit of loopy goes to loopy's front end, a Source to that of OpenCL C."""
    unit = accepted(value, "f").unit()
    assert isinstance(unit, kind)
    assert unit.front_end == name


@pytest.mark.parametrize("result", [None, "kernel void f() {}", 3, object(), kcl.Source])
def test_neither(result):
    """Anything else is refused with the name of the recipe and what to return."""
    with pytest.raises(RecipeError, match=r"'mine'.*TranslationUnit.*kcl\.Source"):
        accepted(result, "mine")


@pytest.mark.parametrize("module", [lp, face])
def test_executor(module, context):
    """An executor, of loopy or of a recorded unit, is refused with what to leave out."""
    words = r"'mine' returned .*Executor; .*leave `\.executor\(context\)` out"
    with pytest.raises(RecipeError, match=words):
        accepted(make(module=module).executor(context), "mine")


HEAD = """
import builtins, importlib, json, sys
import kcl
@kcl.kernel
def nothing():
    pass
come = lambda: "kcl.frontends.loopy.imports" in sys.modules
before = come()
"""
FIRST = [
    "import loopy",
    "from loopy import make_kernel",
    "import pymbolic.primitives",
    'importlib.import_module("cgen")',
]


@pytest.mark.parametrize(
    ("lines", "comes"),
    [*[(line, True) for line in FIRST], ("import decimal, numpy, os.path", False)],
)
def test_first_import(child, lines, comes):
    """The front end of loopy comes with the first import of loopy, or of what it is made of; a kcl.Source needs none."""
    assert child.json(f"{HEAD}{lines}\nprint(json.dumps([before, come()]))") == [False, comes]


def test_the_first_import_gives_the_face(child):
    """Also where another function stands in front of Python's import."""
    code = """
own = builtins.__import__
builtins.__import__ = lambda *given, **named: own(*given, **named)
import loopy
from kcl.frontends.loopy import face
print(json.dumps([loopy is face.face, "loopy.kernel" in sys.modules]))
"""
    assert child.json(HEAD + code) == [True, False]


def test_loopy_that_was_there_before(child):
    assert child.json(f"import loopy\n{HEAD}print(json.dumps(come()))") is True


RAN: list[int] = []


@pytest.fixture(autouse=True)
def forget():
    RAN.clear()


def recipe(factor=2):
    RAN.append(factor)
    return make(f"out[i] = {factor}*a[i]", name="made")


def of_loopy(factor=2):
    return make(f"out[i] = {factor}*a[i]", lp, name="made")


def nothing():
    return 3


def result(function, version=None, **arguments):
    return RecipeResult(RecipeCall(function.__name__, function, arguments, version=version))


def names(key):
    return [part.name for part in key.parts]


class TestRecipeResult:
    def test_the_recipe_runs_once(self):
        one = result(recipe)
        assert (RAN, one.front_ends) == ([], frozenset())
        key = one.key()
        assert one.key() is key
        assert one.unit() is one.unit()
        assert RAN == [2]
        assert one.front_ends == {"loopy"}

    def test_keys(self):
        """The key is of what came back: a record, a unit's content, or a text."""
        functions = recipe, lambda: UNIT, of_loopy, source
        last = [names(result(function).key())[-1] for function in functions]
        assert last == ["record", "unit", "record", "source"]
        digests = [
            result(function, factor=factor).key().digest
            for function in (recipe, of_loopy, source)
            for factor in (2, 3, 2)
        ]
        # the same calls, by the face and by loopy itself, are one record
        assert digests[:3] == digests[3:6]
        assert len({*digests}) == 4

    def test_neither_the_recipe_nor_its_parameters_count(self):
        def other(twice):
            return recipe(2 * twice)

        assert result(other, twice=1).key().digest == result(recipe, factor=2).key().digest

    def test_a_declared_version_counts(self):
        found = [result(recipe, version).key() for version in (None, "1", "2")]
        assert len({key.digest for key in found}) == 3
        assert "declared version" in names(found[1])

    def test_what_is_no_kernel(self):
        """Anything else that comes back is refused by the recipe's name; the recipe's own errors are the user's."""
        with pytest.raises(kcl.RecipeError, match="nothing"):
            result(nothing).key()
        with pytest.raises(LookupError, match="mine"):
            result(lambda: {}["mine"]).key()

    def test_what_was_carried_out_is_said(self):
        cold, warm = result(recipe), result(recipe)
        cold.key()
        assert cold.remark == "1 call(s) of loopy carried out: no earlier run proved them"
        warm.key()
        assert warm.remark == ""

    def test_what_ran_without_the_layer(self):
        """A unit that was made while the layer was off is made again: loopy's own caches may have given it."""
        one = result(recipe)
        plain = one.unit()
        assert one.key() == result(recipe).key()
        assert one.unit() is not plain
        assert RAN == [2, 2, 2]

    def test_build_options_of_this_run(self):
        """Stored code of a kcl.Source is built with the options that the recipe gave now; loopy's are in the code."""
        for given in (("-DX=1",), ("-DX=2",)):
            one = result(source, options=given)
            one.key()
            assert one.options() == given
        one = result(recipe)
        one.key()
        assert one.options() is None

    def test_without_a_key(self):
        """Where the layer is off the recipe runs unrecorded."""
        one = result(recipe)
        before = recorder.thread.carried
        unit = one.unit()
        assert unit.front_end == "loopy"
        assert recorder.thread.carried == before


def test_threads_that_import_in_two_ways(child):
    """The import by `importlib` waits for the statement of another thread, which brings the front end just now."""
    code = """
        import importlib, json, os, sys, threading
        from importlib.machinery import PathFinder
        from kcl import frontends
        in_statement, by_name = threading.Event(), threading.Event()
        class Slow:
            def find_spec(self, name, path=None, target=None):
                if name == "kcl.frontends.loopy":
                    spec = PathFinder.find_spec(name, path)
                    self.loader, spec.loader = spec.loader, self
                    return spec
            def create_module(self, spec):
                return None
            def exec_module(self, module):
                in_statement.set()
                by_name.wait(60)
                self.loader.exec_module(module)
        sys.meta_path.insert(0, Slow())
        bring, found = frontends._bring, []
        def noted():
            if threading.current_thread() is second:
                by_name.set()
            return bring()
        frontends._bring = noted
        def by_statement():
            import loopy
            found.append(loopy.__name__)
        def by_import():
            in_statement.wait(60)
            found.append(importlib.import_module("loopy").__name__)
        first, second = [threading.Thread(target=one, daemon=True) for one in (by_statement, by_import)]
        first.start()
        second.start()
        first.join(60)
        second.join(60)
        # No import here: it would wait for theirs.
        insides = sys.modules.get("kcl.frontends.loopy.insides")
        print(json.dumps([found, insides and "loopy" in insides._state().modules]), flush=True)
        os._exit(0)
        """
    assert child.json(f"{HEAD}{textwrap.dedent(code)}") == [["loopy", "loopy"], True]
