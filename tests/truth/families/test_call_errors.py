"""Wrong calls: whatever a program does wrong, the class of the error is that of loopy's executor."""

import pytest
from beside import Program, compared

pytestmark = [pytest.mark.one_platform, pytest.mark.slow]

TEXT = """
import numpy as np
import loopy as lp
import pyopencl as cl
import pyopencl.array as cla

X = np.arange(8, dtype=np.float32)


def unit(dtype, name):
    return lp.make_kernel(
        "{[i]: 0<=i<n}",
        "y[i] = a*x[i]",
        [lp.GlobalArg("x,y", dtype, shape="n"), lp.ValueArg("a", dtype), lp.ValueArg("n", np.int32)],
        name=name,
        lang_version=(2018, 2),
    )


def says(call):
    try:
        event, (y,) = call()
    except Exception as error:
        return type(error).__name__, getattr(error, "code", None)
    return (y if isinstance(y, np.ndarray) else y.get()).tolist()


def main(queue):
    apart = cl.Context(queue.context.devices)
    other = cl.CommandQueue(apart)
    x, far = cla.to_device(queue, X), cla.to_device(other, X)
    y = cla.empty_like(x)
    for dtype in (np.float32, None):
        for right in (0, 1, 50):  # calls before: none, some, and so many that their steps are known
            made = unit(dtype, "NAME" + ("_open" if dtype is None else ""))
            run, beside = made.executor(queue.context), made.executor(other.context)
            for _ in range(right):
                run(queue, x=x, y=y, a=np.float32(2))
                beside(other, x=far, a=np.float32(2))
            for _ in range(2):
                print(says(lambda: CALL))
            print(says(lambda: run(queue, x=x, y=y, a=np.float32(2))))
            print(says(lambda: CALL))
"""
CALLS = {
    "an unknown argument": 'run(queue, x=X, a=np.float32(2), b=3)',
    "an unknown argument in the place of a number": 'run(queue, x=X, b=np.float32(2))',
    "an unknown argument in the place of an array": 'run(queue, xs=X, a=np.float32(2))',
    "a context in the place of a queue": 'run(queue.context, x=X, a=np.float32(2))',
    "nothing in the place of a queue": 'run(None, x=X, a=np.float32(2))',
    "a text in the place of a queue": 'run("queue", x=X, a=np.float32(2))',
    "no queue": 'run(x=X, a=np.float32(2))',
    "a queue by name": 'run(queue=queue, x=X, a=np.float32(2))',
    "arguments by place": 'run(queue, X, np.float32(2))',
    "a queue of another context": 'run(other, x=X, a=np.float32(2))',
    "a queue of another context with device arrays": 'run(other, x=x, y=y, a=np.float32(2))',
    "an array of another context": 'run(queue, x=far, y=y, a=np.float32(2))',
    "a missing array": 'run(queue, a=np.float32(2))',
    "a missing number": 'run(queue, x=X)',
    "an array of another dtype": 'run(queue, x=X.astype(np.int64), y=X.copy(), a=np.float32(2))',
    "an array of another shape": 'run(queue, x=X, y=X[:3].copy(), a=np.float32(2))',
    "an array with gaps": 'run(queue, x=X[::2], a=np.float32(2))',
    "an array that begins later": 'run(queue, x=x[4:], y=y[4:], a=np.float32(2))',
    "nothing in the place of an array": 'run(queue, x=None, a=np.float32(2))',
    "nothing in the place of a number": 'run(queue, x=X, a=None)',
    "another size": 'run(queue, x=X, a=np.float32(2), n=4)',
    "a text in the place of a size": 'run(queue, x=X, a=np.float32(2), n="eight")',
    "a list in the place of an array": 'run(queue, x=[1.0, 2.0], a=np.float32(2))',
    "a text in the place of a number": 'run(queue, x=X, a="2")',
    "a number in the place of an array": 'run(queue, x=3, a=np.float32(2))',
    "a buffer in the place of an array": 'run(queue, x=x.base_data, a=np.float32(2))',
    "an allocator that is none": 'run(queue, x=x, a=np.float32(2), allocator=3)',
    "events that are none": 'run(queue, x=x, a=np.float32(2), wait_for=3)',
    "a unit called with a context": 'made(queue.context, x=X, a=np.float32(2))',
    "a unit called with an unknown argument": 'made(queue, x=X, a=np.float32(2), b=3)',
    "a unit called with arguments by place": 'made(queue, X)',
    "an unknown entry point": 'made(queue, x=X, a=np.float32(2), entrypoint="nobody")',
    "an executor of an unknown entry point": 'made.executor(queue.context, entrypoint="nobody")(queue, x=X)',
    "an executor called with an entry point": 'run(queue, x=X, a=np.float32(2), entrypoint="NAME")',
}  # fmt: skip


def program(title: str, call: str) -> Program:
    """Make a program of the user that recovers from an error, and goes on."""
    return Program(title, TEXT.replace("CALL", call))


PROGRAMS = [program(title, call) for title, call in CALLS.items()]
PROGRAMS += [
    Program(f"{one.title} of a library", "from NAME_lib import main", one.text)
    for one in PROGRAMS[::9]
]
test_call_errors = compared(PROGRAMS, "run")
