"""What the tests of hot calls share: test_launch.py and test_replay.py."""

import numpy as np
import pyopencl.array as cl_array

from kcl.line import bindings_of


def on(queue, values, dtype=np.float32):
    """Return a device array without events."""
    array = cl_array.to_device(queue, np.asarray(values, dtype))
    array.finish()
    return array


def launcher_on(queue):
    """Return the one launcher of a queue."""
    (launcher,) = bindings_of(queue).launchers.values()
    return launcher
