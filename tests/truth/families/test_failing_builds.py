"""Programs that do not build, and programs that probe: the errors are pyopencl's, and the next text is built.

Each program says in each run, with `kcl.install()`, what it says under Python alone.
"""

import json
import re

import pytest
from beside import WAYS, Program, compared
from beside_driver import plain
from harness import PLATFORMS, Child

from kcl.drivers.pocl import client

GOOD, BAD = (
    f"kernel void tick(global int *out) {{ out[0] = {value}; }}" for value in ("4", "nothing")
)
HEAD = f"""
GOOD, BAD = {GOOD!r}, {BAD!r}

def tried(text, options=None):
    program = cl.Program(context, text)
    try:
        return program.build(options)
    except cl.Error as error:
        return error
"""
TEXTS = {
    "the first text that builds": """
for text in (BAD, "also no program", GOOD):
    found = tried(text)
    print(type(found).__name__)
print(launched(queue, found.tick))
""",
    "the error's own words": """
error = tried(BAD)
print(type(error).__name__, error.code, error.routine)
print([line for line in str(error).splitlines() if "source saved" not in line])
""",
    "the error stands alone": """
error = tried(BAD)
print(error.__cause__, error.__context__, error.__suppress_context__, len(error.args))
""",
    "an error that ends the program": """
cl.Program(context, BAD + "// ends").build("-DX=1")
print("not here")
""",
    "the log after a failure": """
program = cl.Program(context, BAD + "// log")
try:
    program.build()
except cl.Error:
    pass
try:
    print("nothing" in program.get_build_info(context.devices[0], cl.program_build_info.LOG))
    print(program.get_build_info(context.devices[0], cl.program_build_info.STATUS))
except Exception as error:
    print(type(error).__name__)
""",
    "the same object with a definition that it lacked": """
program = cl.Program(context, "kernel void tick(global int *out) { out[0] = N; }")
try:
    program.build()
except cl.Error as error:
    print(error.code)
print(launched(queue, program.build("-DN=6").tick))
""",
    "an option that is none": """
print(type(tried(GOOD, "-no-such-option")).__name__)
print(launched(queue, tried(GOOD).tick))
""",
    "a header that comes later": """
import pathlib
folder = pathlib.Path("later")
folder.mkdir(exist_ok=True)
(folder / "later.h").unlink(missing_ok=True)
text = '#include "later.h"\\nkernel void tick(global int *out) { out[0] = N; }'
print(type(tried(text, f"-I {folder.absolute()}")).__name__)
(folder / "later.h").write_text("#define N 8")
print(launched(queue, tried(text, f"-I {folder.absolute()}").tick))
""",
    "a function that is nowhere": """
text = "void far(global int *out); kernel void tick(global int *out) { far(out); }"
print(isinstance(tried(text), (cl.Error, cl.Program)))
print(launched(queue, tried(GOOD).tick))
""",
    "a kernel that is not there": """
try:
    tried(GOOD).tock
except AttributeError as error:
    print(error)
""",
    "failures of a library of pyopencl": """
import pyopencl.array
from pyopencl.elementwise import ElementwiseKernel
x = cl.array.zeros(queue, 1, np.int32)
for body in ("x[i] = nothing", "x[i] = 5"):
    try:
        ElementwiseKernel(context, "int *x", body, "probe")(x)
        print(x.get())
    except cl.Error as error:
        print(type(error).__name__, error.code)
""",
    "failing compile and link": """
try:
    cl.Program(context, BAD).compile()
except cl.Error as error:
    print(type(error).__name__)
""",
}
# Of a program that failed pyopencl's own cache keeps no log, and it takes an unknown option for a fault of its own.
POCLS = {"the log after a failure", "an option that is none"}
PROBE = """
import pyopencl as cl, sys, kcl
from opened import queue_on
if "install" in sys.argv:
    kcl.install()
context = queue_on(sys.argv[1]).context
for text in sys.argv[2:4]:
    try:
        program = cl.Program(context, text).build()
        break
    except cl.RuntimeError as error:
        print("failed", error.code)
print(program.kernel_names)
"""
TRACED = """
import pyopencl as cl, sys
from opened import queue_on
cl.Program(queue_on(sys.argv[1]).context, sys.argv[2]).build()
"""
LOUD = f"#warning look here\n{GOOD}"
KEPT = """
import json, sys, warnings, pyopencl as cl, kcl
from opened import queue_on
kcl.install()
looks = []
kcl.add_hook(lambda event: looks.append(event.outcome))
warnings.simplefilter("error", cl.CompilerWarning)
try:
    cl.Program(queue_on(sys.argv[1]).context, sys.argv[2]).build()
except cl.CompilerWarning:
    print(json.dumps(looks))
"""
PLACED = """
import sys, pyopencl as cl
from opened import queue_on
context = queue_on(sys.argv[1]).context
one = cl.Program(context, sys.argv[2]).build()
two = cl.Program(context, sys.argv[2]).build()
"""
PROGRAMS = [
    Program(title, HEAD + text, fails="ends" in title, platform="pocl" if title in POCLS else "")
    for title, text in TEXTS.items()
]
test_program = pytest.mark.slow_platforms(compared(PROGRAMS, "install"))


def run(child: Child, way: str, text: str, *arguments: str, **variables: str):
    """Run a program as Python alone, or in one of the ways with kcl."""
    (child.directory / "program.py").write_text(text)
    done = child.python(*WAYS[way][0], "program.py", *arguments, way, **variables)
    assert client.idle(str(child.cache / "kcl"), 120)
    return done


@pytest.mark.slow_platforms
@pytest.mark.slow_cases(2)
@pytest.mark.parametrize("way", ["run", "install"])
class TestStrict:
    def test_probe(self, child, platform_name, way):
        """A program that tries a text which does not build passes `KCL_STRICT=hit` in its second run."""
        arguments = [PLATFORMS[platform_name], BAD, GOOD]
        first = run(child, way, PROBE, *arguments)
        strict = run(child, way, PROBE, *arguments, KCL_STRICT="hit")
        assert (strict.returncode, strict.stdout) == (0, first.stdout), strict.stderr
        assert first.stdout.split()[-1] == "tick"

    def test_miss(self, child, platform_name, way):
        """A text that builds and has no entry raises CacheMiss, and nothing is stored."""
        for _ in range(2):
            missed = run(child, way, PROBE, PLATFORMS[platform_name], GOOD, BAD, KCL_STRICT="hit")
            assert missed.returncode == 1
            assert "CacheMiss: binary layer, kernel 'tick': miss" in missed.stderr.splitlines()[-1]
        assert not list(child.cache.glob("pyopencl/kcl-binary-*/*/*"))


@pytest.mark.one_platform
@pytest.mark.slow_cases(2)
@pytest.mark.parametrize("way", ["run", "install"])
def test_traceback(child, platform_name, way):
    """A failing build prints at most four lines more than without kcl: no step of the look-up is shown."""
    arguments = [PLATFORMS[platform_name], BAD]
    before = run(child, "plain", TRACED, *arguments).stderr.splitlines()
    text = f"import kcl; kcl.install()\n{TRACED}" if way == "install" else TRACED
    after = run(child, way, text, *arguments).stderr.splitlines()
    assert len(after) <= len(before) + 4, "\n".join(after)
    assert plain(after[-1]) == plain(before[-1])


@pytest.mark.one_platform
def test_kept(child, platform_name):
    """A program whose warning is an error is kept: once compiled, and a hit in the next run."""
    arguments = [PLATFORMS[platform_name], LOUD]
    first, second = (run(child, "plain", KEPT, *arguments) for _ in range(2))
    assert [json.loads(one.stdout) for one in (first, second)] == [["miss"], ["hit"]], first.stderr


@pytest.mark.one_platform
@pytest.mark.slow_cases(2)
@pytest.mark.parametrize("way", ["run", "install"])
def test_place_of_a_warning(child, platform_name, way):
    """The warning is shown at the user's line, and again for a build at another line, cold and warm."""
    text = f"import kcl; kcl.install(){PLACED}" if way == "install" else PLACED
    for _ in range(2):
        done = run(child, way, text, PLATFORMS[platform_name], LOUD)
        places = re.findall(r"(\w+\.py:\d+): CompilerWarning: ", done.stderr)
        assert places == ["program.py:5", "program.py:6"], done.stderr
