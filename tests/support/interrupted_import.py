"""A process whose signal handler launches a loopy kernel while its main thread imports loopy, for test_lead.py.

The second argument says who imports: "kcl" imports loopy for a launch, and any other module is imported by the program.
"""

import os
import signal
import sys

import crowd
import numpy as np
import pyopencl as cl


class Interrupts:
    """A finder of modules that finds none: it interrupts the process as one of loopy's is looked for."""

    def find_spec(self, name, _path=None, _target=None):
        """Interrupt the main thread in the middle of the import, once."""
        if name in ("loopy.transform", "pymbolic.primitives"):
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGALRM)


def main(platform, module):
    """Launch a kernel of loopy; print what it gave, and what the handler's kernel gave meanwhile, or its error."""
    (found,) = [one for one in cl.get_platforms() if one.name == platform]
    context = cl.Context(found.get_devices()[:1])
    queue = cl.CommandQueue(context)
    seen = []

    def launched(number):
        _event, (out,) = crowd.shifted(number)(queue, x=np.zeros(8, np.float32))
        return out.tolist()[0]

    crowd.launched(queue, 0)  # what a miss imports of kcl
    assert "loopy" not in sys.modules

    def handler(_number, _frame):
        try:
            seen.append(launched(19))
        except (AttributeError, ImportError) as error:
            seen.append(type(error).__name__)

    signal.signal(signal.SIGALRM, handler)
    sys.meta_path.insert(0, Interrupts())
    if module != "kcl":
        exec(f"import {module}", {"__name__": "a_library"})
    print(launched(39), *seen)


if __name__ == "__main__":
    main(*sys.argv[1:])
