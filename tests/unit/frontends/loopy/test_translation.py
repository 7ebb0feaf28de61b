"""kcl.frontends.loopy.translation: what it takes, leaves open, generates and refuses."""

import pathlib

import numpy as np
import pytest
from executor_cases import called, opened, scale, separated, two_steps
from loopys_own import loopy as lp

import kcl
from kcl.frontends.loopy.translation import LoopyUnit

pytestmark = pytest.mark.slow_platforms

HERE = str(pathlib.Path(__file__).parent)
F4, F8, I4, I8 = (np.dtype(name) for name in ("f4", "f8", "i4", "i8"))


@kcl.kernel
def several(chosen=""):
    """Two entry points, or one of them."""
    unit = lp.merge(
        [
            lp.make_kernel(
                "{[i]: 0<=i<4}", "y[i] = 1", [lp.GlobalArg("y", np.float32, shape=(4,))], name="one"
            ),
            lp.make_kernel(
                "{[i]: 0<=i<4}", "y[i] = 2", [lp.GlobalArg("y", np.float32, shape=(4,))], name="two"
            ),
        ]
    )
    return unit.with_entrypoints(chosen) if chosen else unit


@kcl.kernel
def one_kernel():
    """A LoopKernel instead of a TranslationUnit."""
    return scale.function()["scale"]


@kcl.kernel
def with_option(name, value=True):
    """A kernel with a loopy option."""
    knl = lp.make_kernel(
        "{[i]: 0<=i<4}", "y[i] = 1", [lp.GlobalArg("y", np.float32, shape=(4,))], name="one"
    )
    return lp.set_options(knl, **{name: value})


def result(recipe, **parameters):
    """Return a recipe's result in the hands of the front end."""
    return LoopyUnit(recipe.function(**parameters), recipe.__name__)


def launched(queue, kernel):
    """Launch a Kernel without inputs."""
    _event, (y,) = kernel(queue, out_host=True)
    return y.tolist()


class TestAccepted:
    def test_chosen_entry_point(self, queue):
        """Of several kernels the chosen one runs, each under its own key."""
        assert launched(queue, several("one")) == [1.0] * 4
        assert launched(queue, several("two")) == [2.0] * 4

    def test_several_entry_points(self, queue):
        """More than one entry point is a RecipeError that says how to choose."""
        words = r"'several' returned 2 entry points.*with_entrypoints"
        with pytest.raises(kcl.RecipeError, match=words):
            launched(queue, several())

    def test_kernel_in_place_of_a_unit(self, queue):
        """A LoopKernel is a RecipeError that names what is wanted."""
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

    def test_code_that_is_printed(self, queue, capsys, looks):
        """A hit prints the stored OpenCL C, as generating it does."""
        printed = []
        for outcome in ("miss", "hit"):
            looks.clear()
            assert launched(queue, with_option("write_code")) == [1.0] * 4
            printed.append(capsys.readouterr().out)
            assert (looks[0].layer, looks[0].outcome) == ("generator", outcome)
        assert "__kernel" in printed[0]
        assert printed[0] == printed[1]

    def test_caching_that_is_switched(self, queue, looks):
        """`CacheMode` switches the layer off and on for recipes of loopy, at any time."""
        for is_on, outcome in ((True, "miss"), (False, "bypass"), (True, "hit")):
            looks.clear()
            with lp.CacheMode(is_on):
                launched(queue, several("one"))
            assert (looks[0].layer, looks[0].outcome) == ("generator", outcome)

    @pytest.mark.parametrize("value", ["-DA -DB=2", ["-DA", "-DB=2"]])
    def test_build_options(self, value):
        """Build options are a list, however they were given."""
        assert result(with_option, name="build_options", value=value).generate(
            "one", {}
        ).text.options == (
            "-DA",
            "-DB=2",
        )

    def test_code_written_to_a_file(self, queue, tmp_path):
        """A file name instead of True gets the OpenCL C."""
        path = tmp_path / "code.cl"
        launched(queue, with_option("write_code", str(path)))
        assert "__kernel" in path.read_text()


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
            ({}, True),
            ({"n": I4}, True),
            ({"y": F4}, True),
            ({"n": I8}, False),
            ({"y": F8}, False),
            ({"y": I4}, False),
        ],
    )
    def test_follows(self, more, follows):
        """What is inferred from the needed dtypes follows; any other choice does not."""
        one = result(opened)
        dtypes = {"x": F4, "a": F4, **more}
        assert one.follows(dtypes, ("x", "a")) is follows

    def test_separated(self):
        """Arrays that are taken apart are required whole, and packed by index."""
        found = result(separated).open({})
        assert found.required == ("x",)
        assert found.packed == {"x": [(0, "x_s0"), (1, "x_s1")], "y": [(0, "y_s0"), (1, "y_s1")]}


class TestGenerated:
    def test_device_kernels(self):
        """The kernels are those that are launched: all device kernels, and no function that they call."""
        assert result(two_steps).generate("two_steps", {}).text.kernels == (
            "two_steps",
            "two_steps_0",
        )
        assert result(called).generate("called", {}).text.kernels == ("called",)

    def test_inferred_dtypes(self):
        """What was left open is written down as it was found."""
        found = result(opened).generate("opened", {"x": F4, "a": F8}).invoker.inferred
        assert found == {"x": "<f4", "a": "<f8", "y": "<f8", "n": "<i4"}

    def test_same_every_time(self):
        """Generating twice gives the same bytes."""
        first, again = (result(opened).generate("opened", {"x": F4, "a": F4}) for _ in range(2))
        assert first == again
        assert first.digest == again.digest

    def test_unit_that_changes_after_its_key(self):
        """Code of a unit that is no longer what its key was made of is not stored."""
        unit = scale.function()
        held = LoopyUnit(unit, "scale")
        held.identity()
        assert held.code("scale", {})[1] == ""
        unit.default_entrypoint.options.return_dict = True
        assert "changed" in held.code("scale", {})[1]

    def test_names_no_place(self):
        """Neither the source nor the invoker holds a path of the machine."""
        made = result(scale).generate("scale", {})
        for text in (made.text.source, made.invoker.source):
            assert HERE not in text
            assert str(pathlib.Path(lp.__file__).parent) not in text


class TestLoopyIsLeftAsItWas:
    def test_caching_switch(self, queue):
        """loopy's own caching is on again afterwards, also where the recipe failed."""
        before = lp.CACHING_ENABLED
        launched(queue, several("one"))
        assert lp.CACHING_ENABLED is before
        with pytest.raises(kcl.RecipeError):
            launched(queue, several())
        assert lp.CACHING_ENABLED is before


class TestAbort:
    CODE = """
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

    def test_a_miss(self, child):
        """`LOOPY_ABORT_ON_CACHE_MISS` has loopy's error raised where kcl would generate, unless caching is off."""

        def said(**variables):
            return child.json(self.CODE, PYOPENCL_CTX="portable", **variables)

        assert "run once without it" in said(LOOPY_ABORT_ON_CACHE_MISS="1")
        assert said(LOOPY_ABORT_ON_CACHE_MISS="1", LOOPY_NO_CACHE="1") == 2.0
        assert said() == 2.0
        assert said(LOOPY_ABORT_ON_CACHE_MISS="1") == 2.0
