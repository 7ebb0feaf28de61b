"""kcl.programs.compilation: programs from source; `test_stage.py` builds them through the layer."""

import pyopencl as cl
import pytest
from program_texts import generated

from kcl.programs import compilation


@pytest.fixture
def builds(monkeypatch):
    """The number of times that the driver is asked to build."""
    counted, build = [], cl._cl._Program._build

    def count(*given, **named):
        counted.append(given)
        return build(*given, **named)

    monkeypatch.setattr(cl._cl._Program, "_build", count)
    return counted


@pytest.mark.one_platform
def test_failed(context, builds):
    """What does not compile is compiled once, and raises pyopencl's own error with log and source."""
    made = generated("__kernel void add(__global float *x) { x[0] = undeclared_name; }\n")
    with pytest.raises(cl.RuntimeError, match="undeclared_name") as raised:
        compilation.from_source(context, made, made.source)
    assert len(builds) == 1
    assert "-DADDEND=1" in str(raised.value)
    with pytest.raises(cl.RuntimeError, match="undeclared_name") as plain:
        cl.Program(context, made.source).build(["-DADDEND=1"])
    first = str(plain.value).partition("Build on ")[0]
    assert str(raised.value).startswith(first)
    assert (raised.value.code, raised.value.routine) == (plain.value.code, plain.value.routine)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("Build on x:\n\n/a/t.cl:1:2: warning: w\nerror: /a/t.cl:3:4: e", "error: 3:4: e"),
        ("Build on x:\n\nInvalid build option: -Wall\nmore", "Invalid build option: -Wall"),
    ],
)
def test_refusal(log, said):
    """The first line of a log that names an error stands for it, without the path of the driver's own file."""
    assert compilation.refusal(cl.RuntimeError(log)) == f"does not compile: {said}"


@pytest.mark.parametrize("words", ["Build on x:\n\n", "OUT_OF_HOST_MEMORY"])
def test_no_refusal(words):
    """An error without a log is none of the source."""
    assert compilation.refusal(cl.RuntimeError(words)) == ""
