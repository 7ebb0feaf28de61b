"""kcl.programs.compilation: programs from source; `test_stage.py` builds them through the layer."""

import pyopencl as cl
import pytest
from program_texts import generated

from kcl.programs import compilation

BUILD = "Build on x:\n\n"


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
        (
            f"{BUILD}/a/t.cl:1:2: warning: w\nerror: /a/t.cl:3:4: e",
            "does not compile: error: 3:4: e",
        ),
        (f"{BUILD}Invalid build option: -W\nmore", "does not compile: Invalid build option: -W"),
        (BUILD, ""),
        ("OUT_OF_HOST_MEMORY", ""),
    ],
)
def test_refusal(log, said):
    """A log's first line that names an error stands for it, without the driver's own path; without a log none does."""
    assert compilation.refusal(cl.RuntimeError(log)) == said
