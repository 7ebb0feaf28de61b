"""The compiler's messages under the filters of a program: what is raised, recorded and shown is what pyopencl would.

Each program says in each run under `kcl run` what it says under Python alone. Beside Intel's runtime pyopencl has a
cache of its own: it warns twice about a program that it found, and takes an error of the filters for a fault of its
own, which ends in a KeyError. So programs that count or raise run on PoCL.
"""

import pytest
from beside import Program, compared

pytestmark = pytest.mark.slow_platforms

RECORDED = """
def recorded(build):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = build()
    return program, [one for one in caught if one.category is cl.CompilerWarning]
"""
TEXTS = {
    "the words of a warning": RECORDED
    + """
_program, said = recorded(lambda: cl.Program(context, LOUD).build("-DN=4"))
print([str(one.message) for one in said], [one.category.__name__ for one in said])
""",
    "shown in the program's own way": """
warnings.simplefilter("always")
warnings.showwarning = lambda message, category, *_place: print(category.__name__, message)
print(launched(queue, cl.Program(context, LOUD).build("-DN=5").tick))
warnings.showwarning = warnings._showwarning_orig
""",
    "messages are logged": """
import logging
seen = []
handler = logging.Handler()
handler.emit = lambda record: seen.append("CompilerWarning" in record.getMessage())
logging.getLogger("py.warnings").addHandler(handler)
logging.captureWarnings(True)
warnings.simplefilter("always", cl.CompilerWarning)
cl.Program(context, LOUD).build("-DN=9")
logging.captureWarnings(False)
print(seen)
""",
    "threads record": """
import threading
warnings.simplefilter("always", cl.CompilerWarning)
seen = []
warnings.showwarning = lambda message, category, *_place: seen.append(category.__name__)
threads = [threading.Thread(target=cl.Program(context, LOUD + "// threads").build, args=("-DN=1",)) for _ in range(4)]
[one.start() for one in threads]
[one.join() for one in threads]
warnings.showwarning = warnings._showwarning_orig
print(seen)
""",
}
POCLS = {
    "two builds warn twice": RECORDED
    + """
found = [recorded(lambda: cl.Program(context, LOUD).build("-DN=3")) for _ in range(2)]
print([len(said) for _program, said in found], [launched(queue, program.tick) for program, _said in found])
""",
    "the switch is set between two builds": RECORDED
    + """
import os
print(len(recorded(lambda: cl.Program(context, LOUD).build("-DN=2"))[1]))
os.environ["PYOPENCL_COMPILER_OUTPUT"] = "1"
_program, said = recorded(lambda: cl.Program(context, LOUD).build("-DN=2"))
del os.environ["PYOPENCL_COMPILER_OUTPUT"]
print(["look here" in str(one.message) for one in said])
""",
    "an error that is caught": """
warnings.simplefilter("error", cl.CompilerWarning)
program = cl.Program(context, LOUD)
try:
    program.build("-DN=3")
except cl.CompilerWarning as error:
    print(type(error).__name__, error, error.__cause__, error.__context__)
print(launched(queue, program.tick), program.num_kernels)
""",
    "an error that ends the program": """
warnings.simplefilter("error", cl.CompilerWarning)
cl.Program(context, LOUD).build("-DN=13")
print("not here")
""",
    "an error by its module": """
warnings.filterwarnings("error", module=r"pyopencl$")
try:
    cl.Program(context, LOUD).build("-DN=3")
except UserWarning as error:
    print(type(error).__name__)
""",
    "from a library of pyopencl": """
import pyopencl.array
from pyopencl.elementwise import ElementwiseKernel
warnings.simplefilter("error", cl.CompilerWarning)
x = cl.array.zeros(queue, 1, np.int32)
try:
    ElementwiseKernel(context, "int *x", "x[i] = 3", "loud", preamble="#warning look")(x)
except cl.CompilerWarning:
    print("raised")
""",
}
PROGRAMS = [
    *[Program(title, text) for title, text in TEXTS.items()],
    *[
        Program(title, text, platform="pocl", fails=title == "an error that ends the program")
        for title, text in POCLS.items()
    ],
]
test_program = compared(PROGRAMS, "run")
