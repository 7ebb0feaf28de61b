"""kcl.frontends.loopy.result: the key of a unit, by its record or by its content."""

import importlib
import textwrap

import numpy as np
from recorded_units import VERSION, make

import kcl.loopy as lp
from kcl.frontends import RecipeResult
from kcl.frontends.loopy import unmade
from kcl.frontends.loopy.result import LoopyResult
from kcl.generate.declarations import RecipeCall


def recipe(factor=2):
    return make(f"out[i] = {factor}*a[i]", name="made")


def result(function, **arguments):
    return RecipeResult(RecipeCall(function.__name__, function, arguments))


class TestLoopyResult:
    def test_things_that_changed_after_the_call(self):
        array = np.arange(4, dtype=np.float32)
        more = {"initializer": array, "read_only": True, "address_space": lp.AddressSpace.GLOBAL}

        def changing(late):
            table = lp.TemporaryVariable("table", np.float32, shape=(4,), **more)
            code = "out[i] = table[i]"
            unit = lp.make_kernel("{[i]: 0<=i<4}", code, [table, ...], name="made", **VERSION)
            array[0] = late
            return unit

        keys = []
        for late in (0, 5, 0, 5):
            array[0] = 0
            one = result(changing, late=late)
            keys.append((one.key().parts[-1].name, one.key().digest))
            assert repr(float(late)) in one.generate({})[0].text.source
        assert keys[:2] == keys[2:]
        assert [name for name, _digest in keys[:2]] == ["record", "unit"]

    def test_brings_code(self):
        """A recorded unit has code of packages only if an argument counts again; of loopy's own nobody knows."""

        def with_callable(factor=2):
            return lp.register_preamble_generators(recipe(factor), [textwrap.dedent])

        own = importlib.import_module("loopy").make_kernel("{[i]: 0<=i<4}", "a[i] = 1", **VERSION)
        units = [recipe(), lp.split_iname(recipe(), "i", 4), with_callable(), own]
        held = [LoopyResult(unit, "made").unit() for unit in units]
        assert [unit.brings_code for unit in held] == [False, False, True, True]

    def test_an_unrecorded_unit(self):
        """A unit outside of recipes has a result of its own, named as loopy names it."""
        unit = recipe()
        one = LoopyResult.of_record(unmade.record_of(unit), None)
        assert one.name == "made"
        assert one.key().digest == result(recipe).key().digest
        other = LoopyResult.of_record(unmade.record_of(lp.split_iname(unit, "i", 4)), "made")
        assert "entry point" in dict(other.key().parts)
        assert LoopyResult.of_record(unmade.record_of(make()), None).name == "loopy_kernel"

    def test_evidence(self):
        """A recorded unit is described by its calls, a unit of loopy's own as one."""
        record = unmade.record_of(recipe())
        calls = LoopyResult.of_record(record, None).evidence().parts["record.json"]["calls"]
        assert [call["function"] for call in calls] == ["make_kernel"]
        own = make(module=importlib.import_module("loopy"))
        (call,) = LoopyResult.of_unit(own, "loopy_kernel").evidence().parts["record.json"]["calls"]
        assert call == {"function": "a unit that loopy made", "place": "", "arguments": []}
