"""What programs of tests begin with."""

import pyopencl as cl

_contexts: list[cl.Context] = []  # not every driver's queue keeps its context


def queue_on(platform: str) -> cl.CommandQueue:
    """Return a queue on the first device of a platform."""
    (found,) = [one for one in cl.get_platforms() if one.name == platform]
    _contexts.append(cl.Context(found.get_devices()[:1]))
    return cl.CommandQueue(_contexts[-1])
