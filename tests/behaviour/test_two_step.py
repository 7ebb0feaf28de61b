"""Recipes that return equal or unequal results: each finds its own code."""

import numpy as np
import pytest
from two_step import PLAIN, REFACTORED, importer, looks, scaled

import kcl
from kcl.errors import UnknownInput
from kcl.generate.frontends.opencl import SourceResult
from kcl.record.callables.walker import content_key

pytestmark = pytest.mark.slow_platforms

PREAMBLE = """
    import kcl

    def amount(info):
        yield ("10_amount", "#define AMOUNT 1")

    @kcl.kernel(pure=True, version='1')
    def filled():
        from loopys_own import loopy as lp
        import numpy as np

        knl = lp.make_kernel(
            "{[i]: 0<=i<4}",
            [lp.CInstruction("i", "y[i] = AMOUNT;", assignees="y[i]", id="fill")],
            [lp.GlobalArg("y", np.float32, shape=(4,), is_input=False)],
            name="filled",
            lang_version=(2018, 2),
        )
        return lp.register_preamble_generators(knl, [amount])
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Import a text as a module of its own; stores are asked anew."""
    return importer(tmp_path, monkeypatch)


class TestRecipes:
    def test_refactored_recipe(self, queue, load):
        """A helper taken out of a pure recipe is a miss; from then on it is a hit."""
        assert scaled(queue, load(PLAIN).scaled) == [2.0] * 4
        seen = looks()
        assert scaled(queue, load(REFACTORED).scaled) == [2.0] * 4
        assert scaled(queue, load(REFACTORED).scaled) == [2.0] * 4
        assert seen == [("miss", "not in the cache"), ("hit", "")]

    def test_another_result(self, queue, load):
        """Another result is generated, whatever lies there."""
        recipe = load(PLAIN).scaled
        assert scaled(queue, recipe, by=2) == [2.0] * 4
        assert scaled(queue, recipe, by=3) == [3.0] * 4

    def test_file_read_while_generating(self, queue, load, tmp_path):
        """What a version vouches for decides beside the result: such code serves no other version."""
        path = tmp_path / "amount"
        text = PREAMBLE.replace('yield ("10_amount", "#define AMOUNT 1")', f'yield ("1", open({str(path)!r}).read())')
        for expected in (1, 2):
            path.write_text(f"#define AMOUNT {expected}")
            module = load(text.replace("version='1'", f"version='{expected}'"), "two_step_vouched")
            with pytest.raises(UnknownInput):
                content_key(module.filled.function())
            _event, (y,) = module.filled()(queue, out_host=True)
            assert y.tolist() == [expected] * 4


class TestSource:
    def source(self, **changes):
        """Declare a Source, with changes."""
        return kcl.Source(
            **{
                "code": "kernel void f(global float *x, local float *t) { x[0] = 1; }",
                "entry": "f",
                "arguments": [kcl.Array("x", np.float32, "(4,)", "inout"), kcl.Local("t", np.float32, "4")],
                "global_size": "(4,)",
                **changes,
            }
        )

    @pytest.mark.parametrize(
        "changes",
        [
            {"code": "kernel void f(global float *x, local float *t) { x[0] = 2; }"},
            {"entry": "g"},
            {"global_size": "(8,)"},
            {"local_size": "(2,)"},
            {"build_options": ["-DA"]},
            {"arguments": [kcl.Array("x", np.float32, "(4,)", "out"), kcl.Local("t", np.float32, "4")]},
            {"arguments": [kcl.Array("x", np.int32, "(4,)", "inout"), kcl.Local("t", np.float32, "4")]},
            {"arguments": [kcl.Array("x", np.float32, "(4,)", "inout"), kcl.Local("t", np.float32, "8")]},
        ],
    )
    def test_each_difference(self, changes):
        """Everything that is declared counts."""
        plain = SourceResult(self.source()).identity()
        assert SourceResult(self.source()).identity() == plain
        assert SourceResult(self.source(**changes)).identity() != plain
