"""kcl.foreign.late_switches: variables that change after their owner has read them."""

LATE = """
import json, os, sys
from kcl import foreign
from kcl.foreign import late_switches
import loopy, pyopencl as cl, pyopencl.invoker
cl.get_platforms()
foreign.off("pocl")  # as when a layer is first used
changed = [foreign.changed()]
for pair in sys.argv[1:]:
    name, _, value = pair.partition("=")
    os.environ[name] = value
changed.append(foreign.changed())
print(json.dumps([changed, late_switches.find()]))
"""


class TestLate:
    def test_after(self, child):
        """A variable that changes after its owner read it is found, with what the owner goes on with."""
        changes = [
            "LOOPY_NO_CACHE=1",
            "POCL_KERNEL_CACHE=0",
            "XDG_CACHE_HOME=/elsewhere",
            "KCL_NO_CACHE=1",
            "OTHER=1",
        ]
        changed, found = child.json(LATE, *changes)
        assert changed == [False, True]
        words = {cache: words for cache, _variable, _value, words in found}
        assert words["loopy"].startswith(
            "LOOPY_NO_CACHE=1 was set too late for loopy's PersistentDict cache"
        )
        assert words["pocl"].startswith(
            "POCL_KERNEL_CACHE=0 was set too late for PoCL's kernel cache, read at the fir"
        )
        assert words["kcl"].startswith("KCL_NO_CACHE=1 was set too late for kcl")
        assert set(words) == {"kcl", "loopy", "pocl"}

    def test_not_known(self, child):
        """A change before kcl was used may have come in time: nothing is said."""
        code = LATE.replace('foreign.off("pocl")', "")
        assert child.json(code, f"POCL_CACHE_DIR={child.directory}")[1] == []

    def test_without_effect(self, child):
        """A change that means the same to the owner, or of a variable that nobody reads, is none."""
        changed, found = child.json(
            LATE, "POCL_KERNEL_CACHE=1", "CUDA_CACHE_DIR=/x", "LOOPY_NO_CACHE=0"
        )
        assert changed == [False, True]
        assert found == []
