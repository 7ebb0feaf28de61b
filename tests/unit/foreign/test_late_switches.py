"""kcl.foreign.late_switches: variables that change after their owner has read them."""

LATE = """
import json, os, sys
from kcl import foreign
from kcl.foreign import late_switches
import loopy, pyopencl as cl, pyopencl.invoker
cl.get_platforms()
USED
changed, found = [foreign.has_changed()], []
for pairs in sys.argv[1:]:
    os.environ.update(pair.split("=") for pair in pairs.split())
    changed.append(foreign.has_changed())
    found.append(late_switches.find())
print(json.dumps([changed, found]))
"""


def test_late(child):
    """A variable that changes after its owner read it is found; a change that means the same to the owner is none."""
    same = "POCL_KERNEL_CACHE=1 CUDA_CACHE_DIR=/x LOOPY_NO_CACHE=0"
    late = "LOOPY_NO_CACHE=1 POCL_KERNEL_CACHE=0 XDG_CACHE_HOME=/elsewhere KCL_NO_CACHE=1 OTHER=1"
    code = LATE.replace("USED", 'foreign.off("pocl")  # as when a layer is first used')
    changed, (unchanged, found) = child.json(code, same, late)
    assert (changed, unchanged) == ([False, True, True], [])
    assert found == [
        "KCL_NO_CACHE=1 was set too late for kcl, read when a layer is first used",
        "LOOPY_NO_CACHE=1 was set too late for loopy's PersistentDict cache, read at `import loopy`",
        "POCL_KERNEL_CACHE=0 was set too late for PoCL's kernel cache, read at the first platform query",
    ]


def test_not_known(child):
    """A change before kcl was used may have come in time: nothing is said."""
    assert child.json(LATE.replace("USED", ""), f"POCL_CACHE_DIR={child.directory}")[1] == [[]]
