"""Units that come from elsewhere than a plain recipe: cold, warm (without loopy where that can be), and uncached."""

from __future__ import annotations

import ast
import importlib.util

import pytest
from cases import MODES, ran
from harness import PLATFORMS, SUPPORT, Child

pytestmark = pytest.mark.one_platform
SCRIPT = SUPPORT / "recorded_cases.py"
_functions = [node for node in ast.parse(SCRIPT.read_text()).body if isinstance(node, ast.FunctionDef)]
_marks = {node.name: {mark.id for mark in node.decorator_list if isinstance(mark, ast.Name)} for node in _functions}
CASES = sorted(name for name, marks in _marks.items() if marks & {"case", "asking"})
# What a call asks that is carried out at once, for an object that may change: one of a class of the user, for example.
AT_ONCE = {name: {name, f"{name}:"} for name in ("make_kernel", "register_callable")}
# What a warm run has loopy make, by the question; the cases that only need loopy's own objects are not among them.
MADE = {
    "a_callable_of_the_user": {"from", *AT_ONCE["register_callable"]},  # a module of loopy that only it imports
    "a_registered_kernel": {"__getitem__", *AT_ONCE["register_callable"]},
    "a_target_of_the_user": AT_ONCE["make_kernel"],
    "arguments_of_the_user": AT_ONCE["make_kernel"],
    "loaded_from_another_pickle_of_one_name": {"pickle"},
    "tags_of_the_user": {"default_entrypoint"},
    "with_kernel": {"with_kernel"},
}


@pytest.fixture(scope="module")
def runs(platform_name, tmp_path_factory):
    """Run every case in three processes; return what they said by mode and the name of the case."""
    child = Child(tmp_path_factory.mktemp(platform_name))
    return ran(child, SCRIPT, PLATFORMS[platform_name], tuple(MODES), str(child.directory))


@pytest.fixture
def case(request, runs):
    """What the processes said of one case."""
    name = request.param
    if name.startswith("sympy") and not importlib.util.find_spec("sympy"):
        pytest.skip("sympy is not installed")
    return {mode: said[name] for mode, said in runs.items()}


@pytest.mark.parametrize("case", CASES, indirect=True)
class TestEveryCase:
    def test_numbers(self, case):
        """Cold and warm the numbers are those of a run without a cache."""
        assert [said["error"] for said in case.values()] == [""] * 3
        assert case["cold"]["result"] == case["warm"]["result"] == case["without"]["result"]

    def test_warm(self, case):
        """The second run hits alone, and what could not be stored was nothing in the first."""
        assert {outcome for _layer, _kernel, outcome, _reason in case["warm"]["looks"]} == {"hit"}
        assert {outcome for _layer, _kernel, outcome, _reason in case["cold"]["looks"]} <= {"hit", "miss"}

    def test_questions(self, case, request):
        """No question but those of the program itself had a unit made."""
        expected = MADE.get(request.node.callspec.params["case"], set())
        asked = {question.partition(" ")[0] for question in case["warm"]["made"]}
        assert asked == expected


def test_the_table_names_cases():
    """No row of `MADE` is left over."""
    assert MADE.keys() <= set(CASES)
