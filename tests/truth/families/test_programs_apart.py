"""Each `cl.Program` is a program of its own: variables that outlive a launch, `==`, `hash`, information.

Each program says in each run, under `kcl run` and with `kcl.install()`, what it says under Python alone.
"""

from __future__ import annotations

import pytest
from beside import Program, check, ran

pytestmark = pytest.mark.slow_platforms

TWO = """
one, two = [cl.Program(context, COUNT).build("-cl-std=CL2.0") for _ in range(2)]
a, b = one.tick, two.tick
"""
TEXTS = {
    "two objects of one text count apart": TWO
    + """
print([launched(queue, kernel) for kernel in (a, a, b, a, b)])
""",
    "two objects are two": """
one, two = [cl.Program(context, COUNT + "// two").build("-cl-std=CL2.0") for _ in range(2)]
print(one == two, one != two, hash(one) == hash(two), len({one, two}), one == one, one.int_ptr == two.int_ptr)
""",
    "kernels of one program share": TWO
    + """
print([launched(queue, kernel) for kernel in (a, a, one.look, two.look, b, one.look, two.look)])
""",
    "the counter begins anew in each call": """
def first():
    return launched(queue, cl.Program(context, COUNT + "// anew").build("-cl-std=CL2.0").tick)

print([first() for _ in range(4)])
""",
    "options in another order": """
options = ("-cl-std=CL2.0 -DA", "-DA -cl-std=CL2.0", ["-cl-std=CL2.0", "-DA"])
made = [cl.Program(context, COUNT).build(one).tick for one in options]
print([launched(queue, made[i]) for i in (0, 1, 2, 0, 1, 2)])
""",
    "threads build one text": """
import threading
made = [cl.Program(context, COUNT + "// threads") for _ in range(6)]
threads = [threading.Thread(target=one.build, args=("-cl-std=CL2.0",)) for one in made]
[one.start() for one in threads]
[one.join() for one in threads]
print(len(set(made)), sorted(launched(queue, one.tick) for one in made), all(one == one.tick.program for one in made))
""",
    "a header holds the variable": """
import pathlib
pathlib.Path("counted.h").write_text("int counter = 5;")
text = '#include "counted.h"\\n' + COUNT.replace("int counter = 5;", "")
made = [cl.Program(context, text).build(["-I", str(pathlib.Path.cwd()), "-cl-std=CL2.0"]).tick for _ in range(2)]
print([launched(queue, made[i]) for i in (0, 0, 1, 0, 1)])
""",
    "all kernels of two programs": TWO
    + """
names = [[kernel.function_name for kernel in program.all_kernels()] for program in (one, two)]
print([sorted(some) for some in names], [program.num_kernels for program in (one, two)])
both = [{kernel.function_name: kernel for kernel in program.all_kernels()}["tick"] for program in (one, two)]
print([launched(queue, both[i]) for i in (0, 0, 1)])
""",
    "information of two programs": TWO
    + """
info = cl.program_info
for program in (one, two):
    print(program.get_info(info.NUM_DEVICES), program.context == context, sorted(program.kernel_names.split(";")))
    print(program.get_build_info(context.devices[0], cl.program_build_info.STATUS))
    print(len(program.binaries), program.binary_sizes[0] > 0, type(program).__name__)
print(one.source == two.source)
""",
    "elementwise kernels with a preamble": """
import pyopencl.array
from pyopencl.elementwise import ElementwiseKernel
beside = {"preamble": "int counter = 5;", "options": ["-cl-std=CL2.0"]}
made = [ElementwiseKernel(context, "int *x", "x[i] = ++counter", "counted", **beside) for _ in range(2)]
seen = []
for i in (0, 0, 1, 0, 1):
    x = cl.array.zeros(queue, 1, np.int32)
    made[i](x)
    seen.append(int(x.get()[0]))
print(seen)
""",
    "a program of its binaries counts apart": TWO
    + """
third = cl.Program(context, context.devices, one.binaries).build()
print(third == one, hash(third) == hash(one), sorted(third.kernel_names.split(";")))
""",
    "compiled and linked": """
part = cl.Program(context, COUNT + "// linked").compile(["-cl-std=CL2.0"])
made = [cl.link_program(context, [part]) for _ in range(2)]
print(made[0] == made[1], [sorted(one.kernel_names.split(";")) for one in made], part == made[0])
""",
    "retrieved more than once": """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    made = [cl.Program(context, "kernel void tick(global int *out) { out[0] = 2; }").build() for _ in range(2)]
    one = [program.tick for program in made] + [made[0].tick]
print(sum("retrieved more than once" in str(warning.message) for warning in caught), [launched(queue, k) for k in one])
""",
    "a copy of a context": """
other = cl.Context.from_int_ptr(context.int_ptr)
made = [cl.Program(one, COUNT + "// copies").build("-cl-std=CL2.0") for one in (context, other)]
a, b = [one.tick for one in made]
print(made[0] == made[1], [launched(queue, kernel) for kernel in (a, a, b, a, b)])
""",
}
PROGRAMS = [Program(title, text) for title, text in TEXTS.items()]
told = ran(PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_program(program, told):
    """A program says with kcl what it says without, in each run."""
    check(program, told[program.title])
