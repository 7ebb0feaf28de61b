"""The texts of a record that an entry holds."""

import numpy as np
from recorded_units import VERSION

import kcl.loopy as lp
from kcl.frontends.loopy import description, unmade


def recipe(block=16, dtype=np.float32):
    unit = lp.make_kernel("{[i]: 0<=i<n}", "a[i] = i", name="made", **VERSION)
    return lp.split_iname(lp.add_dtypes(unit, {"a": dtype}), "i", block)


def listed(unit):
    return description.listing(unmade.record_of(unit))


class TestListing:
    def test_calls(self):
        """A record is described with its calls, their places and their parameters by name."""
        found = listed(recipe())
        functions = [call["function"] for call in found["calls"]]
        assert functions == ["make_kernel", "add_dtypes", "split_iname"]
        assert all(call["place"].startswith("test_description.py:") for call in found["calls"])
        arguments = [["kernel", "call 2"], ["split_iname", "'i'"], ["inner_length", "16"]]
        assert found["calls"][2]["arguments"] == arguments
        assert found["calls"][1]["arguments"][1][1] == "{'a': numpy.float32}"
        assert found["result"] == 3

    def test_names_of_parameters(self):
        """Arguments are named as a class or its base names them; those that loopy passes on as `*args` are numbered."""
        kinds = {"a": lp.GlobalArg, "b": lp.ConstantArg, "n": lp.ValueArg}
        arguments = [kind(name, np.int32) for name, kind in kinds.items()]
        unit = lp.make_kernel("{[i]: 0<=i<n}", "a[i] = b[i]", arguments, **VERSION)
        unit = lp.set_options(unit, "return_dict")
        names = [[name for name, _text in call["arguments"]] for call in listed(unit)["calls"]]
        assert names[:3] == [["name", "dtype"]] * 3
        assert names[-1] == ["kernel", "2"]
