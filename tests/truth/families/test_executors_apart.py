"""Each executor of a loopy unit is a program of its own: variables that outlive a launch count apart.

Each program says in each run, with `kcl.install()`, what it says under Python alone.
"""

import pytest
from beside import Program, compared

pytestmark = pytest.mark.slow_platforms

HEAD = """
import loopy as lp
warnings.simplefilter("ignore")

def unit(name, begin=5):
    return lp.make_kernel(
        "{[i]: 0<=i<1}",
        [lp.CInstruction("i", "out[i] = ++counter;", assignees="out[i]")],
        [lp.GlobalArg("out", np.int32, shape=(1,))],
        preambles=[("10_counter", f"int counter = {begin};")],
        options=lp.Options(build_options=["-cl-std=CL2.0"]),
        name=name,
        lang_version=(2018, 2),
    )

def counted(run, queue=queue):
    return int(run(queue, out_host=True)[1][0][0])
"""
TEXTS = {
    "two executors": """
knl = unit("two")
a, b = knl.executor(context), knl.executor(context)
print([counted(one) for one in (a, a, b, a, b)])
""",
    "of a queue and of a context": """
knl = unit("holders")
made = [knl.executor(queue), knl.executor(context), knl.executor(cl.CommandQueue(context))]
print([counted(made[i]) for i in (0, 1, 2, 0, 1, 2, 0)])
""",
    "direct calls": """
knl = unit("direct")
print([counted(knl), counted(knl), counted(knl.executor(context)), counted(knl)])
""",
    "a unit that is loopy's own": """
knl = unit("own")
_ = knl.entrypoints
a, b = knl.executor(context), knl.executor(context)
print([counted(one) for one in (a, a, b, a, b)], counted(knl), counted(knl))
""",
    "made by loopy between two launches": """
knl = unit("between")
a = knl.executor(context)
seen = [counted(a)]
_ = knl.entrypoints
b = knl.executor(context)
print(seen + [counted(one) for one in (a, b, a, b)])
""",
    "units of one content": """
made = [unit("alike").executor(context) for _ in range(3)]
print([counted(made[i]) for i in (0, 1, 1, 2, 0)])
""",
    "an executor is dropped": """
import gc
knl, seen = unit("dropped"), []
for _ in range(3):
    run = knl.executor(context)
    seen += [counted(run), counted(run)]
    del run
    gc.collect()
print(seen)
""",
    "threads": """
import threading
knl, seen = unit("threads"), []
made = [knl.executor(context) for _ in range(4)]
threads = [threading.Thread(target=lambda run=run: seen.append(counted(run))) for run in made]
[one.start() for one in threads]
[one.join() for one in threads]
print(sorted(seen), sorted(counted(run) for run in made))
""",
}
PROGRAMS = [Program(title, HEAD + text) for title, text in TEXTS.items()]
test_program = compared(PROGRAMS, "install")
