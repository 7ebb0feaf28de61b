"""kcl.frontends.loopy.translation: what it takes, leaves open, generates and refuses."""

import importlib
import pathlib

import numpy as np
import pytest
from executor_cases import called, opened, scale, separated, two_steps
from loopys_own import loopy as lp

import kcl
from kcl.frontends.loopy.translation import LoopyUnit, quiet

pytestmark = pytest.mark.slow_platforms

HERE = str(pathlib.Path(__file__).parent)
F4, F8, I4, I8 = (np.dtype(name) for name in ("f4", "f8", "i4", "i8"))


OUTPUT = [lp.GlobalArg("y", np.float32, shape=(4,))]


def filled(name, value):
    return lp.make_kernel("{[i]: 0<=i<4}", f"y[i] = {value}", OUTPUT, name=name)


@kcl.kernel
def several(chosen=""):
    """Two entry points, or one of them."""
    unit = lp.merge([filled("one", 1), filled("two", 2)])
    return unit.with_entrypoints(chosen) if chosen else unit


@kcl.kernel
def one_kernel():
    """A LoopKernel instead of a TranslationUnit."""
    return scale.function()["scale"]


@kcl.kernel
def with_option(name, value=True):
    return lp.set_options(filled("one", 1), **{name: value})


def result(recipe, **parameters):
    return LoopyUnit(recipe.function(**parameters), recipe.__name__)


def launched(queue, kernel):
    _event, (y,) = kernel(queue, out_host=True)
    return y.tolist()


class TestAccepted:
    def test_chosen_entry_point(self, queue):
        """Of several kernels the chosen one runs, each under its own key."""
        assert launched(queue, several("one")) == [1.0] * 4
        assert launched(queue, several("two")) == [2.0] * 4

    def test_several_entry_points(self, queue):
        words = r"'several' returned 2 entry points.*with_entrypoints"
        with pytest.raises(kcl.RecipeError, match=words):
            launched(queue, several())

    def test_kernel_in_place_of_a_unit(self, queue):
        with pytest.raises(kcl.RecipeError, match=r"'one_kernel'.*LoopKernel.*TranslationUnit"):
            launched(queue, one_kernel())


class TestOptions:
    def test_wrapper_that_is_printed(self, queue, capsys, looks):
        """Generating prints the wrapper, so a hit would not: the look-up is a bypass that says why."""
        for _ in range(2):
            looks.clear()
            assert launched(queue, with_option("write_wrapper")) == [1.0] * 4
            assert "one" in capsys.readouterr().out
            assert (looks[0].layer, looks[0].outcome) == ("generator", "bypass")
            assert "write_wrapper" in looks[0].reason

    def test_wrapper_under_strict(self, queue, under):
        """KCL_STRICT=hit names the option that bypasses, and sends nobody to fill the cache."""
        under(KCL_STRICT="hit")
        with pytest.raises(kcl.CacheMiss, match=r"bypass: .*write_wrapper.*mend that first"):
            launched(queue, with_option("write_wrapper"))

    def test_code_that_is_printed(self, queue, capsys, looks, tmp_path):
        """A hit prints the stored OpenCL C, as generating it does; a file name instead of True gets it."""
        printed = []
        for outcome in ("miss", "hit"):
            looks.clear()
            assert launched(queue, with_option("write_code")) == [1.0] * 4
            printed.append(capsys.readouterr().out)
            assert (looks[0].layer, looks[0].outcome) == ("generator", outcome)
        assert "__kernel" in printed[0]
        assert printed[0] == printed[1]
        launched(queue, with_option("write_code", str(tmp_path / "code.cl")))
        assert "__kernel" in (tmp_path / "code.cl").read_text()

    def test_caching_that_is_switched(self, queue, looks):
        for is_on, outcome in ((True, "miss"), (False, "bypass"), (True, "hit")):
            looks.clear()
            with lp.CacheMode(is_on):
                launched(queue, several("one"))
            assert (looks[0].layer, looks[0].outcome) == ("generator", outcome)

    @pytest.mark.parametrize("value", ["-DA -DB=2", ["-DA", "-DB=2"]])
    def test_build_options(self, value):
        """Build options are a list, however they were given."""
        code = result(with_option, name="build_options", value=value).generate("one", {})
        assert code.text.options == ("-DA", "-DB=2")


class TestOpen:
    def test_nothing(self):
        """A kernel of known dtypes leaves nothing open; input arrays are required."""
        found = result(scale).open({})
        assert (found.names, found.needed, found.required, found.packed) == ((), (), ("x",), {})

    def test_inputs_decide(self):
        """Input arrays, and scalars that nothing else decides, are needed; sizes and outputs follow."""
        found = result(opened).open({"x": F4, "a": F4, "n": I4, "y": F4})
        assert set(found.names) == {"x", "a", "n", "y"}
        assert set(found.needed) == {"x", "a"}

    @pytest.mark.parametrize(
        ("more", "follows"),
        [
            *[({}, True), ({"n": I4}, True), ({"y": F4}, True)],
            *[({"n": I8}, False), ({"y": F8}, False), ({"y": I4}, False)],
        ],
    )
    def test_follows(self, more, follows):
        """What is inferred from the needed dtypes follows; any other choice does not."""
        assert result(opened).follows({"x": F4, "a": F4, **more}, ("x", "a")) is follows

    def test_separated(self):
        """Arrays that are taken apart are required whole, and packed by index."""
        found = result(separated).open({})
        assert found.required == ("x",)
        assert found.packed == {"x": [(0, "x_s0"), (1, "x_s1")], "y": [(0, "y_s0"), (1, "y_s1")]}


class TestGenerated:
    @pytest.mark.parametrize(
        ("recipe", "kernels"), [(two_steps, ("two_steps", "two_steps_0")), (called, ("called",))]
    )
    def test_device_kernels(self, recipe, kernels):
        """The kernels are those that are launched: all device kernels, and no function that they call."""
        assert result(recipe).generate(recipe.__name__, {}).text.kernels == kernels

    def test_inferred_dtypes(self):
        """What was left open is written down as it was found, and again in the same bytes."""
        first, again = (result(opened).generate("opened", {"x": F4, "a": F8}) for _ in range(2))
        assert first.invoker.inferred == {"x": "<f4", "a": "<f8", "y": "<f8", "n": "<i4"}
        assert first == again
        assert first.digest == again.digest

    def test_unit_that_changes_after_its_key(self):
        unit = scale.function()
        held = LoopyUnit(unit, "scale")
        held.identity()
        assert held.code("scale", {})[1] == ""
        unit.default_entrypoint.options.return_dict = True
        assert "changed" in held.code("scale", {})[1]

    def test_names_no_place(self):
        made = result(scale).generate("scale", {})
        for text in (made.text.source, made.invoker.source):
            assert HERE not in text
            assert str(pathlib.Path(lp.__file__).parent) not in text


def test_abort_on_a_miss(child):
    """`LOOPY_ABORT_ON_CACHE_MISS` has loopy's error raised where kcl would generate, unless caching is off."""
    code = """
        import json
        import numpy as np
        import pyopencl as cl
        import kcl
        from pytools.persistent_dict import NoSuchEntryError

        @kcl.kernel
        def scaled():
            import loopy as lp
            return lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", lang_version=(2018, 2))

        context = cl.create_some_context(interactive=False)
        queue = cl.CommandQueue(context)
        try:
            event, (y,) = scaled()(queue, x=np.ones(3, dtype=np.float32))
            print(json.dumps(float(y[0])))
        except NoSuchEntryError as error:
            print(json.dumps(str(error)))
        """

    def said(**variables):
        return child.json(code, PYOPENCL_CTX="portable", **variables)

    aborting = {"LOOPY_ABORT_ON_CACHE_MISS": "1"}
    assert "run once without it" in said(**aborting)
    assert said(**aborting, LOOPY_NO_CACHE="1") == said() == said(**aborting) == 2.0


def test_quiet():
    """loopy's own disk caches are off while loopy may run for kcl, and as before in any other block."""
    loopy = importlib.import_module("loopy")
    before, found = loopy.CACHING_ENABLED, []
    for may_run in (False, True):
        with quiet(may_run):
            found.append(loopy.CACHING_ENABLED)
    assert found == [before, False]
    assert loopy.CACHING_ENABLED is before
