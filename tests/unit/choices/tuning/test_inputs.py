"""On which data candidates are compared, and which wrong ones these tell from the default."""

import numpy as np
import pytest
from elementwise import elementwise

import kcl
from kcl.choices.tuning import inputs
from kcl.choices.tuning.inputs import INTEGERS, NUMBERS, SIGNED
from kcl.code import Argument, Code, Invoker, ProgramText


def code(*arguments, **inferred):
    table = tuple(Argument(name, "Array", dtype, needed) for name, dtype, needed in arguments)
    text = ProgramText("k", "", (), ("k",))
    return Code(text, Invoker("source", "", "invoke", table, inferred, {}, []))


class TestDrawnForms:
    def test_floats(self):
        """What is declared floating point is drawn, scalars of any Python type too, and dtypes left open."""
        given = code(("x", "<f4", True), ("z", "", True), ("y", "<f8", False), ("a", "<f8", False))
        given = given._replace(invoker=given.invoker._replace(inferred={"z": "<c8"}))
        arrays = {"x": np.ones(3, "f4"), "z": np.ones(3, "c8"), "y": np.ones(3)}
        found = inputs.find_drawn(given, arrays, {"a": 2, "b": 1.5}, {})
        names = {"x": "<f4", "z": "<c8", "a": "<f8"}
        assert found == {NUMBERS: names, SIGNED: names}

    @pytest.mark.parametrize(
        ("values", "is_drawn"),
        [([0] * 9, True), ([1] * 8 + [9], True), ([2, 0, 1, 0], False), ([7, 7, 0, 0], False)],
    )
    def test_integers(self, values, is_drawn):
        """Integers are drawn if at most one differs from the others; any others may be indices."""
        arrays = {"x": np.array(values, np.int32)}
        found = inputs.find_drawn(code(("x", "<i4", True)), arrays, {}, {})
        assert found == ({INTEGERS: {"x": "<i4"}} if is_drawn else {})

    @pytest.mark.parametrize(
        ("value", "sizes", "is_drawn"),
        [(1, {}, True), (0, {}, True), (3, {}, False), (True, {}, False), (1, {"a": 1}, False)],
    )
    def test_integer_scalars(self, value, sizes, is_drawn):
        """A number 0 or 1 is drawn, if it is no size and no flag."""
        found = inputs.find_drawn(code(("a", "<i4", False)), {}, {"a": value}, sizes)
        assert found == ({INTEGERS: {"a": "<i4"}} if is_drawn else {})

    def test_constant(self):
        arrays = {"x": np.ones(4, int), "y": np.arange(4), "z": np.ones(4, int)}
        given = code(("x", "<i8", True), ("y", "<i8", True), ("z", "<i8", False))
        assert inputs.find_constant(given, arrays) == ["x"]


class TestDrawn:
    @pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
    @pytest.mark.parametrize("form", [NUMBERS, SIGNED])
    def test_arrays(self, form, dtype):
        """Both parts are drawn, in the dtype, shape and order of the array, and the same each time."""
        like = np.ones((40, 30), dtype, order="F")
        first, again = (inputs.draw(form, {"x": dtype}, {"x": like}, {})[0] for _ in range(2))
        x = first["x"]
        assert (x.dtype, x.shape, x.strides) == (like.dtype, like.shape, like.strides)
        assert np.array_equal(x, again["x"])
        for part in (x.real, x.imag) if x.dtype.kind == "c" else (x,):
            assert len(np.unique(part)) > 500
            assert (part.min() < 0) == (form == SIGNED)
            if form == NUMBERS:
                assert 0.5 <= part.min() < 0.6 < 1.4 < part.max() <= 1.5

    def test_scalars(self):
        _arrays, found = inputs.draw(
            NUMBERS, {"a": "<f4", "b": "<c16"}, {}, {"a": 2, "b": 1, "n": 3}
        )
        assert (type(found["a"]), type(found["b"]), found["n"]) == (np.float32, np.complex128, 3)
        assert found["b"].real != found["b"].imag != found["a"]

    def test_integers_are_places(self):
        arrays = {"x": np.zeros(900, np.int8), "y": np.zeros((30, 7))}
        found = inputs.draw(INTEGERS, {"x": "<i1"}, arrays, {})[0]["x"]
        assert set(found) == {2, 3, 4, 5, 6}

    def test_magnitudes(self):
        """Signs go, and equal elements get different."""
        arrays = {"x": np.full(9, -2.0), "z": np.full(9, -2j), "i": np.full(9, -2)}
        found, values = inputs.strip_signs(arrays, {"a": -3.0, "n": -3}, {"x", "z", "i"})
        assert values == {"a": 3.0, "n": -3}
        assert (found["i"] == -2).all()
        for name in "xz":
            assert 1.5 <= abs(found[name]).min() < abs(found[name]).max() <= 2.5


RIGHT = "y[i] += a*x[i]; z[i] = x[i] < 3 ? x[i] : -x[i];"
WRONG = {
    "factor": "y[i] += 2*a*x[i]; z[i] = x[i] < 3 ? x[i] : -x[i];",
    "permutation": "y[i] += a*x[n-1-i]; z[i] = x[i] < 3 ? x[i] : -x[i];",
    "missing update": "if (i % 2) y[i] += a*x[i]; z[i] = x[i] < 3 ? x[i] : -x[i];",
    "wrong branch": "y[i] += a*x[i]; z[i] = x[i];",
    "wrong scalar": "y[i] += x[i]; z[i] = x[i] < 3 ? x[i] : -x[i];",
}
DATA = {
    "zeros": (0, 0),
    "ones": (1, 1),
    "one large": (0, 1_000_000),
}  # all elements but one, and that
DIRECTIONS = ("in", "inout", "out")


@kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(text=[RIGHT, *WRONG.values()]))
def updating(text=RIGHT, dtype="float"):
    body = f"""kernel void updating(global {dtype} *x, global {dtype} *y, global {dtype} *z, {dtype} a, int n)
               {{ int i = get_global_id(0); {text} }}"""
    kind = {"float": np.float32, "int": np.int32}[dtype]
    arrays = [kcl.Array(name, kind, "n", how) for name, how in zip("xyz", DIRECTIONS, strict=True)]
    arguments = [*arrays, kcl.Scalar("a", kind), kcl.Scalar("n", np.int32)]
    return kcl.Source(body, entry="updating", arguments=arguments, global_size="n", local_size=1)


def call(dtype, data, n=1000):
    usual, one = DATA[data]
    kind = {"float": np.float32, "int": np.int32}[dtype]
    x = np.full(n, usual, kind)
    x[n // 3] = one
    return {"x": x, "y": np.zeros(n, kind), "a": 1}


@pytest.fixture
def begun(files_of, rig_of):
    """Return a function that makes the files of a kernel, and a rig that has begun all forms."""

    def begun(kernel, **arguments):
        files = files_of(kernel, **arguments)
        rig = rig_of(files)
        for form, code in files.default.codes.items():
            assert rig.begin(form, code)[0].outcome == "ok"
            if form not in (NUMBERS, INTEGERS):
                rig.weigh(form, code)
        return lambda **choice: rig.check(files.trial(choice).codes)[0].outcome

    return begun


@pytest.mark.slow_platforms
class TestTelling:
    @pytest.mark.parametrize("data", DATA)
    @pytest.mark.parametrize("dtype", ["float", "int"])
    def test_wrong_choices(self, begun, dtype, data):
        """Wrong choices are refused whatever the data of the first launch, and right ones are not."""
        outcome = begun(updating(dtype=dtype), **call(dtype, data))
        texts = {"right": f"/* */ {RIGHT}", **WRONG}
        outcomes = {name: outcome(text=text) for name, text in texts.items()}
        assert outcomes == {"right": "ok", **dict.fromkeys(WRONG, "wrong result")}

    @pytest.mark.parametrize("n", [100_000, pytest.param(10_000_000, marks=pytest.mark.slow)])
    @pytest.mark.parametrize("data", ["ones", "signed"])
    def test_order_of_sums(self, begun, n, data):
        """Right choices that sum in another order are right: one after the other, in parts, from behind."""
        x = np.ones(n, np.float32)
        x = x if data == "ones" else np.random.default_rng(1).standard_normal(n).astype(np.float32)
        outcome = begun(summing(), x=x)
        assert [outcome(parts=parts) for parts in (4, 1000, -1)] == ["ok"] * 3

    def test_cancellation(self, begun):
        """What cancels to nearly nothing may have another rounding error; what does not may not."""
        outcome = begun(curving(), x=np.linspace(0, 1, 1000, dtype=np.float32))
        assert outcome(text="(x[i] - x[j]) - (x[j] - x[k])") == "ok"
        assert outcome(text="(x[i] - x[j]) - 1.001f*(x[j] - x[k])") == "wrong result"

    def test_indices(self, files_of, rig_of):
        """Integers that say where a kernel writes are not drawn: the default then writes other elements."""
        files = files_of(scattering(), x=np.ones(64, np.float32), place=np.zeros(64, np.int32))
        rig = rig_of(files)
        verdicts = {form: rig.begin(form, code)[0] for form, code in files.default.codes.items()}
        assert verdicts[INTEGERS].outcome == "does not launch"
        assert "places of elements" in verdicts[INTEGERS].detail
        assert verdicts[NUMBERS].outcome == "ok"

    def test_outside(self, files_of, rig_of):
        """A default that computes with what lies behind an array differs at another place."""
        files = files_of(curving(), x=np.ones(64, np.float32))
        codes = files.trial({"text": "x[i + 1]"}).codes
        assert rig_of(files).begin("", codes[""])[0].outcome == "wrong result"


@kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(parts=[1, 4, 1000, -1]))
def summing(parts=1):
    """Sum in parts, and these; from behind if `parts` is negative."""
    place = "n - 1 - i" if parts < 0 else "i"
    body = f"""kernel void summing(global float *x, global float *y, int n)
               {{ float all = 0;
                  for (int part = 0; part < {abs(parts)}; ++part)
                  {{ float sum = 0;
                     for (int i = part; i < n; i += {abs(parts)}) sum += x[{place}];
                     all += sum; }}
                  y[0] = all; }}"""
    arrays = [kcl.Array("x", np.float32, "n", "in"), kcl.Array("y", np.float32, 1, "out")]
    arguments = [*arrays, kcl.Scalar("n", np.int32)]
    return kcl.Source(body, entry="summing", arguments=arguments, global_size=1, local_size=1)


@kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(text=["x[i] - 2*x[j] + x[k]"]))
def curving(text="x[i] - 2*x[j] + x[k]"):
    places = "int j = min(i + 1, n - 1), k = min(i + 2, n - 1);"
    return elementwise("curving", f"{places} y[i] = {text};", local_size=1, x="in", y="out")


@kcl.kernel(space=kcl.space(local=[1, 2]))
def scattering(local=1):
    body = """kernel void scattering(global float *x, global int *place, global float *y)
              { int i = get_global_id(0); y[(i + place[i]) % 64] = x[i]; }"""
    inputs = [kcl.Array("x", np.float32, 64, "in"), kcl.Array("place", np.int32, 64, "in")]
    arguments = [*inputs, kcl.Array("y", np.float32, 64, "out")]
    size = {"global_size": 64, "local_size": local}
    return kcl.Source(body, entry="scattering", arguments=arguments, **size)
