"""What the recipes share."""

import contextlib
import dataclasses

import numpy as np

import kcl

ARGUMENTS = [kcl.Array("x", np.float32, "(n,)"), kcl.Array("y", np.float32, "(n,)", "out"), kcl.Scalar("n", np.int32)]


@dataclasses.dataclass
class Point:
    """A point."""

    x: int
    y: int = 5

    def norm(self):
        return self.x + self.y


class Layout:
    """A layout."""

    pad = 4

    def __init__(self, n: int) -> None:
        self.n = n

    def size(self) -> int:
        """Count."""
        return self.n + self.pad

    @staticmethod
    def unreached():
        return 0


@contextlib.contextmanager
def counted():
    yield 7


def scaled(factor):
    """Return OpenCL C."""
    code = f"""
    __kernel void scaled(__global const float *x, __global float *y, int n)
    {{
        y[get_global_id(0)] = x[get_global_id(0)] * ({factor});
    }}
    """
    return kcl.Source(code, entry="scaled", arguments=ARGUMENTS, global_size="(n,)")


def unreached():
    return 41
