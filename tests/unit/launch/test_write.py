"""kcl.launch.write: what cannot be written as Python is named; calls are played in test_launch and test_replay."""

import pytest

from kcl.launch.recording import (
    AllocatedOutput,
    Allocation,
    Allocator,
    Mark,
    NotPlayable,
    QueueMark,
    Recording,
    Step,
)
from kcl.launch.write import Form, Script

FORM = Form(("x", "y", "a"), ("x", "y"), (), ("a",), (), in_order=True, bound=False)
BOUND = FORM._replace(bound=True)
ARRAYS = {
    index: ("_set_arg_multi", (Mark(f"{name}.base_data"),)) for index, name in enumerate("xy")
}


def recording(size=4, number="_kcl_float(a)", **beside):
    """Return a recording of a call of the kernel above."""
    last = Mark(number) if isinstance(number, str) else number
    step = Step("f", {**ARRAYS, 2: ("_set_arg_multi", (last,))}, ((size,), None, None), ())
    noted = Recording()
    facts = {"steps": [step], "waited": ["x", "y"], "written": ["y"], "outputs": ("y",)}
    vars(noted).update(facts | beside)
    return noted


def allocated(value):
    """Return an output that is made of this size."""
    given = QueueMark("_kcl_queue"), value, "f4"
    return AllocatedOutput("_kcl_made0", given, {"allocator": Allocator("_kcl_allocator")}, {}, 0)


@pytest.mark.parametrize(
    ("form", "beside", "said"),
    [
        (FORM._replace(names=("x", "y", "_kcl_a")), {}, "an argument whose name begins with _kcl"),
        (FORM, {"waited": ["x"]}, "without waiting"),
        (BOUND, {"made": [allocated((4,))]}, "allocates"),
        (FORM, {"made": [allocated(Mark("n"))]}, "by a value that differs"),
    ],
)
def test_what_cannot_be_written_is_named(form, beside, said):
    with pytest.raises(NotPlayable, match=said):
        Script(form, recording(**beside))


def test_allocation():
    """An output is allocated by the allocator of the call, in the bytes of the signature."""
    made = allocated((4,))
    made = made._replace(keywords={**made.keywords, "data": Allocation(64)})
    written = Script(FORM, recording(made=[made]))
    assert "data=_kcl_allocator(_kcl_c" in written.text
    assert {(4,), "f4", 64} <= {*written.cells}
