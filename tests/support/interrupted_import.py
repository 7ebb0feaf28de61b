"""A process whose signal handler launches a loopy kernel while its main thread imports loopy. Run by test_makers.py."""

from __future__ import annotations

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
        if name == "loopy.transform":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGALRM)


def main(platform):
    """Launch a kernel of loopy; print what it gave, and what the handler's kernel gave meanwhile."""
    (found,) = [one for one in cl.get_platforms() if one.name == platform]
    context = cl.Context(found.get_devices()[:1])
    queue = cl.CommandQueue(context)
    seen = []

    def launched(number):
        _event, (out,) = crowd.shifted(number)(queue, x=np.zeros(8, np.float32))
        return out.tolist()[0]

    crowd.launched(queue, 0)  # what a miss imports of kcl
    assert "loopy" not in sys.modules
    signal.signal(signal.SIGALRM, lambda _number, _frame: seen.append(launched(19)))
    sys.meta_path.insert(0, Interrupts())
    print(launched(39), *seen)


if __name__ == "__main__":
    main(sys.argv[1])
