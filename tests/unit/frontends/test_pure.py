"""kcl.frontends.pure: the inputs of a pure recipe, found without running it."""

import functools
import sys

import numpy as np
import pytest

import kcl
from kcl.errors import UnknownInput
from kcl.frontends.pure import PureResult, key_parts
from kcl.generate.declarations import RecipeCall

PURE = (), "1", True
ran = []


def recipe(factor=2):
    ran.append(factor)
    return kcl.Source(
        f"kernel void f(global int *x) {{ x[get_global_id(0)] *= {factor}; }}",
        entry="f",
        arguments=[kcl.Array("x", np.int32, "(n,)", "inout"), kcl.Scalar("n", np.int32)],
        global_size="(n,)",
    )


def result(factor=2, declared=PURE):
    ran.clear()
    return PureResult(RecipeCall("recipe", recipe, {"factor": factor}, *declared))


class TestPureResult:
    def test_moment(self, monkeypatch):
        """The key is that of the moment: another state of the generators is another key, and stores nothing."""
        expressions = pytest.importorskip("loopy.target.c.codegen.expression")
        one = result()
        before = one.key().digest
        assert not one.renew()
        one.unit()
        monkeypatch.setenv("_LOOPY_SKIP_ARG_CHECKS", "1")
        assert "changed after the key" in one.generate({})[1]
        assert one.renew()
        assert one.key().digest != before
        monkeypatch.delenv("_LOOPY_SKIP_ARG_CHECKS")
        with monkeypatch.context() as patched:
            mapper = expressions.ExpressionToCExpressionMapper
            patched.setattr(mapper, "map_constant", lambda *_: None)
            assert one.renew()
            with pytest.raises(UnknownInput, match="map_constant was changed"):
                one.key()
        assert one.renew()
        assert one.key().digest == before
        one.unit()
        assert not one.generate({})[1]

    def test_nothing_runs(self):
        """The key comes without the recipe; parameters and version decide it."""
        keys = [result(factor).key().digest for factor in (2, 3, 2)]
        assert keys[0] == keys[2] != keys[1]
        assert result(2, ((), "2", True)).key().digest != keys[0]
        assert ran == []

    def test_it_runs_on_a_miss(self):
        """For code the recipe runs once, and for a dump again; its front end is known from its code before that."""
        one = result()
        one.key()
        assert one.front_ends == {"opencl"}
        assert one.unit().front_end == "opencl"
        code, refused = one.generate({})
        assert "*= 2" in code.text.source
        assert refused == ""
        assert ran == [2]
        assert one.unit()
        assert one.generate({})[0] == code
        assert ran == [2, 2]

    def test_evidence(self):
        """The source of the reached code explains a later miss."""
        one = result()
        one.key()
        assert (
            one.evidence().parts["reached.json"]["code recipe"].startswith("def recipe(factor=2):")
        )
        assert one.evidence().site == f"test_pure.py:{recipe.__code__.co_firstlineno}"


MISS = """
import json, sys
import numpy as np
import pyopencl as cl
import kcl

@kcl.kernel(pure=True, version="1")
def one():
    text = "kernel void one(global int *x) { x[get_global_id(0)] = 1; }"
    x = kcl.Array("x", np.int32, 4, "out")
    return kcl.Source(text, entry="one", arguments=[x], global_size=4)

context = cl.create_some_context(interactive=False)
_event, (x,) = one()(cl.CommandQueue(context), out_host=True)
assert x.tolist() == [1] * 4 and kcl.stats()["generator"]["misses"] == 1
print(json.dumps("kcl.frontends.loopy.translation" in sys.modules))
"""


@pytest.mark.one_platform
def test_a_miss_of_opencl_imports_nothing_that_generates_of_loopy(child):
    assert child.json(MISS) is False


def of_loopy():
    import loopy as lp

    return lp.make_kernel("{[i]: 0<=i<4}", "a[i] = 1", lang_version=(2018, 2))


def of_either():
    return recipe()


@pytest.mark.parametrize(
    ("function", "ends"), [(of_loopy, {"loopy"}), (recipe, {"opencl"}), (of_either, set())]
)
def test_front_ends(function, ends):
    """The names in the code of a recipe tell its front end, if it names one."""
    one = PureResult(RecipeCall(function.__name__, function, {}, *PURE))
    one.key()
    assert one.front_ends == ends


def made(number):
    def inner():
        return number

    return inner


def call(function=recipe, version="1", depends=(), **given):
    return RecipeCall("recipe", function, given, depends, version, pure=True)


def thing(number):
    class Thing:
        def number(self):
            return number

    return Thing()


class TestKey:
    def test_version_and_parameters(self):
        calls = [call(), call(version="2"), call(x=1), call(x=1.0)]
        calls += [call(depends=(1,)), call(depends=(2,))]
        keys = [tuple(key_parts(one)) for one in calls]
        assert len({*keys}) == len(keys)
        assert tuple(key_parts(call())) == keys[0]

    def test_what_a_function_holds(self):
        """Two recipes of one factory are two keys, and so are two parts of one function."""
        functions = [made(1), made(2), functools.partial(recipe, 1), functools.partial(recipe, 2)]
        parameters = [tuple(key_parts(call(x=function))) for function in functions]
        recipes = [tuple(key_parts(call(function))) for function in functions[:2]]
        assert len({*parameters, *recipes}) == 6
        assert tuple(key_parts(call(made(1)))) == recipes[0]
        things = [tuple(key_parts(call(x=thing(number)))) for number in (1, 2, 1)]
        assert things[0] == things[2] != things[1]

    def test_parameter_without_a_text(self):
        with pytest.raises(UnknownInput, match=r"recipe \(test_pure.py:\d+\).*__kcl_key__"):
            key_parts(call(x=sys.stdout))
