"""Programs of pyopencl, and that each `cl.Program` is one of its own: variables that outlive a launch, `==`, `hash`.

Each program says in each run under `kcl run` what it says under Python alone.
"""

import pytest
from beside import Program, compared

pytestmark = pytest.mark.slow_platforms

TWO = """
one, two = [cl.Program(context, COUNT).build("-cl-std=CL2.0") for _ in range(2)]
a, b = one.tick, two.tick
"""
TEXTS = {
    "two objects are two": """
one, two = [cl.Program(context, COUNT + "// two").build("-cl-std=CL2.0") for _ in range(2)]
print(one == two, one != two, hash(one) == hash(two), len({one, two}), one == one, one.int_ptr == two.int_ptr)
""",
    "kernels of one program share": TWO
    + """
print([launched(queue, kernel) for kernel in (a, a, one.look, two.look, b, one.look, two.look)])
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
ADD = """
ADD = """ + repr(
    "kernel void add(global int *out) { out[get_global_id(0)] += N; }\n"
    "kernel void twice(global int *out) { out[get_global_id(0)] *= 2; }\n"
)
# What pyopencl builds for itself and for others: the second run finds all of it.
BUILT = {
    "an elementwise kernel": """
import pyopencl.array as cla
from pyopencl.elementwise import ElementwiseKernel
x = cla.to_device(queue, np.arange(7, dtype=np.float32))
y = cla.empty_like(x)
ElementwiseKernel(context, "float a, float *x, float *y", "y[i] = a * x[i] + 1", "axpy")(2, x, y)
print(y.get().tolist())
""",
    "random numbers": """
from pyopencl.clrandom import PhiloxGenerator
print([round(float(one), 5) for one in PhiloxGenerator(context, seed=3).uniform(queue, 5, np.float32).get()])
""",
    "what is told of a program": ADD
    + """
program = cl.Program(context, ADD).build(["-DN=4"])
info, build, device = cl.program_info, cl.program_build_info, context.devices[0]
print(launched(queue, program.add), launched(queue, cl.Kernel(program, "twice")), type(program).__name__)
for source in (program.source, program.get_info(info.SOURCE)):
    print(source.partition("\\n\\n__constant int pyopencl_defeat_cache_")[0])
print(sorted(program.kernel_names.split(";")), sorted(kernel.function_name for kernel in program.all_kernels()))
print(program.num_kernels, program.get_info(info.DEVICES)[0].name, [len(one) > 0 for one in program.binaries])
print([program.get_build_info(device, one) for one in (build.STATUS, build.OPTIONS)])
log = program.get_build_info(device, build.LOG).strip()
is_ptx = "NVIDIA" in device.platform.name  # whose log is another one for such a program
print("" if is_ptx else log, program.add.get_info(cl.kernel_info.NUM_ARGS))
try:
    program.there_is_no_such_kernel
except AttributeError as error:
    print(error)
""",
    "kinds of options": ADD
    + """
for options in ("-DN=1", "-DN=2 -cl-mad-enable", ["-D", "N=3"], [b"-DN=4"], ("-DN=5",), "-D'N=6'"):
    program = cl.Program(context, ADD.encode() if options == "-DN=1" else ADD)
    try:
        print(launched(queue, program.build(options).add))
    except Exception as error:
        print(type(error).__name__)
for options in (None, "", []):
    print(launched(queue, cl.Program(context, f"#define N {7 + len(str(options))}\\n{ADD}").build(options).add))
""",
    "a header that another one includes": ADD
    + """
import os
print(launched(queue, cl.Program(context, '#include "outer.h"\\n' + ADD).build(["-I", os.path.abspath("NAME")]).add))
""",
    "letters beyond ASCII": ADD
    + """
print(launched(queue, cl.Program(context, "/* Größe */" + ADD).build("-DN=9").add))
""",
}
HEADERS = {"NAME/outer.h": '#include "inner.h"\n', "NAME/inner.h": "#define N THIS\n"}
FILES = {"a header that another one includes": HEADERS}
PROGRAMS = [
    *[Program(title, text) for title, text in TEXTS.items()],
    *[Program(title, text, files=FILES.get(title, {}), warm=True) for title, text in BUILT.items()],
]
test_program = compared(PROGRAMS, "run")
