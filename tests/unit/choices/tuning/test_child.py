"""What a child does with a candidate: in this process, where it can be looked at."""

import numpy as np
import pyopencl as cl
import pytest
from elementwise import elementwise

import kcl
from kcl.choices.tuning import child

pytestmark = pytest.mark.slow_platforms


@kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(text=["right"]))
def accumulating(text="z[i] = 2*x[i]; w[i] += x[i];"):
    return elementwise("accumulating", text, local_size=1, x="in", w="inout", z="out")


@kcl.kernel(space=kcl.space(factor=[1, 2]))
def swapping(factor=1):
    import loopy as lp

    domain, text = "{[i,j]: 0<=i<2 and 0<=j<3}", f"z[i,j] = -{factor}*x[i,j]"
    arguments = [lp.GlobalArg("x", np.float32, shape=(2, 3), order="F"), ...]
    return lp.make_kernel(domain, text, arguments, lang_version=(2018, 2), name="swapping")


RIGHT = "z[i] = 2*x[i]; w[i] += x[i];"
ALL = "64 of 64 elements"


@pytest.fixture
def workshop(files_of):
    return files_of(accumulating(), x=np.arange(1, 65, dtype=np.float32), w=np.ones(64, np.float32))


@pytest.fixture
def begun(workshop, rig_of):
    """Return a function that makes a rig, which has launched the default."""

    def begun(tolerance=None):
        rig = rig_of(workshop, tolerance)
        for form, code in workshop.default.codes.items():
            verdict, seconds, _outputs = rig.begin(form, code)
            assert verdict.outcome == "ok"
            assert seconds > 0
        rig.weigh("", code)
        return rig

    return begun


@pytest.fixture
def bench(begun):
    return begun()


def default(bench):
    return next(iter(bench._launchers.values()))


def verdict(bench, workshop, text):
    return bench.check({"": workshop.trial({"text": text}).codes[""]})[0]


class TestMemory:
    def test_guard(self, bench):
        """Behind an array lie 4 kB that nobody may write; an array begins as its content, an output as NaN."""
        call = bench._calls[""]
        x = call.arrays["x"]
        assert x.base_data.size == x.nbytes + child.GUARD
        assert call.find_broken(call.read()) == []
        cl.enqueue_copy(bench.queue, x.base_data, np.zeros(1, np.uint8), dst_offset=x.nbytes + 4095)
        assert call.find_broken(call.read()) == ["x"]
        call.launch(default(bench))
        assert call.find_broken(call.read()) == []
        assert np.array_equal(call.results(call.read())["x"], np.arange(1, 65))
        found = bench._calls[""].results(bench._calls[""].starts)
        assert np.isnan(found["z"]).all()
        assert np.array_equal(found["w"], np.ones(64))

    def test_order(self, files_of, rig_of):
        like = np.asfortranarray(np.arange(6.0, dtype=np.float32).reshape(2, 3))
        files = files_of(swapping(), x=like)
        rig = rig_of(files)
        assert rig.begin("", files.default.codes[""])[0].outcome == "ok"
        call = rig._calls[""]
        assert call.arrays["x"].flags.f_contiguous
        assert np.array_equal(call.results(call.starts)["x"], like)


VERDICTS = {
    "z[i] = x[i] + x[i]; w[i] += x[i];": ("ok", ""),
    "w[i] += x[i];": ("wrong result", f"z[0] is nan, by the default 2.0, {ALL}"),
    "z[i] = 2*x[i];": ("wrong result", f"w[0] is 1.0, by the default 2.0, {ALL}"),
    RIGHT + "if (i == 63) z[64] = x[64];": ("writes past the end", "of z"),
    RIGHT + "if (i == 63) { z[64] = 1; x[70] = w[0]; }": ("writes past the end", "of x, z"),
    "z[i] = y;": ("does not build", "'y'"),
}


class TestVerdict:
    def test_wrong(self, bench, workshop):
        """What is not written, not changed, or written behind an array is seen; copied guards differ.

        A message of the compiler has no path of a temporary file.
        """
        for text, (outcome, detail) in VERDICTS.items():
            found = verdict(bench, workshop, text)
            assert (found[0], detail in found[1], "/" in found[1]) == (outcome, True, False), found

    @pytest.mark.parametrize(
        ("tolerance", "factor", "outcome"),
        [
            (None, 1.0001, "ok"),
            (None, 1.001, "wrong result"),
            (0.0, 1.0000002, "wrong result"),
            (0.1, 1.05, "ok"),
        ],
    )
    def test_tolerance(self, workshop, begun, tolerance, factor, outcome):
        """Results may differ by the root of the dtype's epsilon times each element, by what is given, or by no bit."""
        text = f"z[i] = 2*x[i]*{factor}f; w[i] += x[i];"
        assert verdict(begun(tolerance), workshop, text)[0] == outcome

    def test_cut(self, bench, workshop):
        """At a cut the arrays are shorter, and the guard lies directly behind them."""
        found = workshop.trial({"text": "z[i] = 2*x[i]; w[i] += x[i]; z[63] = 2*x[63];"})
        assert bench.check({"": found.codes[""]})[0].outcome == "ok"
        assert bench.check(found.codes)[0] == ("writes past the end", "of z, at n = 63")


class TestSample:
    def test_inputs_begin_anew(self, bench, workshop):
        """An input that the kernel changes is restored before each launch of a sample; time is counted."""
        code = workshop.trial({"text": RIGHT}).codes[""]
        found = bench.sample(code, 5)
        assert found.elapsed > 0
        assert found.processor > 0
        assert bench.check({"": code})[0].outcome == "ok"
        bench.sample(code, 1)
        call = bench._calls[""]
        assert np.array_equal(call.results(call.read())["w"], np.arange(2, 66))
