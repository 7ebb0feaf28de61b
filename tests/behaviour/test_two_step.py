"""Recipes that return equal or unequal results: each finds its own code."""

import numpy as np
import pytest
from loopys_own import loopy as lp
from two_step import PLAIN, REFACTORED, importer, looks, scaled

import kcl
from kcl.cache import layers
from kcl.errors import UnknownInput
from kcl.generate.frontends.opencl import SourceResult
from kcl.record.callables.walker import content_key

pytestmark = pytest.mark.slow_platforms

TIMED = """
    import time

    import kcl

    @kcl.kernel(pure=True, version='1')
    def scaled(by=2):
        from loopys_own import loopy as lp

        by = by if time.time() else 0
        knl = lp.make_kernel("{[i]: 0<=i<n}", f"y[i] = {by}*x[i]", name="scaled", lang_version=(2018, 2))
        return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
"""
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
        recipe = load(TIMED).scaled
        assert scaled(queue, recipe, by=2) == [2.0] * 4
        assert scaled(queue, recipe, by=3) == [3.0] * 4

    def test_layer_off(self, queue, load, monkeypatch):
        """With the generator layer off nothing is looked up or stored."""
        monkeypatch.setenv("KCL_NO_CACHE", "generator")
        seen = looks()
        for text in (PLAIN, REFACTORED):
            assert scaled(queue, load(text).scaled) == [2.0] * 4
        assert {reason for _outcome, reason in seen} == {"off: KCL_NO_CACHE=generator"}
        assert not any(layers.generator().memory.scan())

    def test_printing_result(self, queue, load, capfd):
        """A result whose generating does something beside is generated each time."""
        text = TIMED.replace("(knl,", "(lp.set_options(knl, write_code=True, allow_terminal_colors=False),")
        for _ in range(2):
            scaled(queue, load(text).scaled)
            assert "kernel void" in capfd.readouterr().out


class TestPreambles:
    def test_changed_body(self, queue, load):
        """A changed preamble generator gives new code, although loopy's own key is the same."""
        loopys, kcls = set(), set()
        for expected in (1, 2):
            module = load(PREAMBLE.replace("AMOUNT 1", f"AMOUNT {expected}"), "two_step_preamble")
            made = module.filled.function()
            loopys.add(lp.tools.LoopyKeyBuilder()(made))
            kcls.add(content_key(made))
            _event, (y,) = module.filled()(queue, out_host=True)
            assert y.tolist() == [expected] * 4
        assert (len(loopys), len(kcls)) == (1, 2)

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
