"""A front end in one file: recipes that return `Polynomial`, whose OpenCL C it writes."""

import hashlib

from kcl.code import Argument, Code, Invoker, ProgramText
from kcl.frontends import FrontEndRow
from kcl.generate.protocol import FixedResult, FrontEnd, OpenArguments, Unit

INVOKER = """
def invoke(kernels, queue, allocator=None, wait_for=None, out_host=None, *, x, y):
    import pyopencl as cl
    knl = kernels.polynomial
    knl.set_args(x.base_data, y.base_data)
    return cl.enqueue_nd_range_kernel(queue, knl, x.shape, None, wait_for=wait_for), (y,)
"""


class Polynomial:
    """What a recipe returns: coefficients, the constant first."""

    def __init__(self, *coefficients: int) -> None:
        self.coefficients = coefficients


class PolynomialUnit(Unit):
    """A polynomial in the hands of its front end: nothing is open."""

    front_end = "polynomial"

    def __init__(self, polynomial: Polynomial) -> None:
        self.coefficients = polynomial.coefficients

    def identity(self) -> str:
        return hashlib.sha256(repr(self.coefficients).encode()).hexdigest()

    def open(self, _dtypes):
        return OpenArguments((), (), ("x", "y"), {})

    def generate(self, kernel, _dtypes):
        term = "0"
        for coefficient in reversed(self.coefficients):
            term = f"({term}) * v + {coefficient}"
        body = f"size_t i = get_global_id(0); float v = x[i]; y[i] = {term};"
        source = (
            f"__kernel void polynomial(__global const float *x, __global float *y) {{ {body} }}"
        )
        arguments = tuple(Argument(name, "Array", "<f4", True) for name in ("x", "y"))
        invoker = Invoker("polynomial", INVOKER, "invoke", arguments, {}, {}, [])
        return Code(ProgramText(kernel, source, (), ("polynomial",)), invoker)


class PolynomialFrontEnd(FrontEnd):
    """Polynomials, whose coefficients decide the code."""

    def accept(self, value, call):
        is_mine = isinstance(value, Polynomial)
        return FixedResult(PolynomialUnit(value), call, ()) if is_mine else None


FRONT_END = PolynomialFrontEnd()
ROW = FrontEndRow("polynomial", __name__, (__name__,))
