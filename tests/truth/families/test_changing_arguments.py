"""Arguments that change before, beside and after a call, against Python alone, in a first, a second and a third run."""

from __future__ import annotations

import pytest
from harness import PLATFORMS, SUPPORT, Child

pytestmark = [pytest.mark.one_platform, pytest.mark.slow_platforms]
SCRIPT = SUPPORT / "changing_arguments.py"
OFF = {"KCL_NO_CACHE": "1", "LOOPY_NO_CACHE": "1", "PYOPENCL_NO_CACHE": "1"}


@pytest.fixture(scope="module")
def said(platform_name, tmp_path_factory):
    """Return a function that runs the programs of a root: what Python alone said, and three runs with kcl."""

    def run(root: str):
        child = Child(tmp_path_factory.mktemp(root))
        ways = [((), OFF)] + [(("-m", "kcl", "run"), {})] * 3
        return [child.script(*way, SCRIPT, PLATFORMS[platform_name], root, **more) for way, more in ways]

    return run


@pytest.mark.parametrize("root", ["after", "kept", "usual"])
def test_numbers(said, root):
    """What a program computes is what Python alone computes, whenever an argument changes and whatever keeps it."""
    alone, *with_kcl = said(root)
    assert len(alone["numbers"]) >= 8
    for number, told in enumerate(with_kcl, 1):
        wrong = {name: found for name, found in told["numbers"].items() if found != alone["numbers"][name]}
        assert not wrong, f"run {number}: {wrong}"
    if root == "usual":  # containers that are copied, arrays, kept lists and tags that nobody changes
        assert [told["loopy"] for told in with_kcl] == [True, False, False], with_kcl[1]["made"]
