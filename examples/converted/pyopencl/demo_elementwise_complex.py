"""Complex numbers in ElementwiseKernel, with pyopencl's header. Only the line with `kcl.install()` is new."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from pyopencl.elementwise import ElementwiseKernel

import kcl

kcl.install()

HEADER = "#include <pyopencl-complex.h>"

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
product = ElementwiseKernel(
    context,
    "float s, cfloat_t *x, cfloat_t *y, cfloat_t *z",
    "z[i] = cfloat_rmul(s, cfloat_mul(x[i], y[i]))",
    "product",
    preamble=HEADER,
)
total = ElementwiseKernel(
    context,
    "cfloat_t *x, cfloat_t *y, cfloat_t *z",
    "z[i] = cfloat_add(x[i], y[i])",
    "total",
    preamble=HEADER,
)
real = ElementwiseKernel(
    context, "cfloat_t *x, float *z", "z[i] = cfloat_real(x[i])", "real", preamble=HEADER
)

parts = np.random.default_rng(0).standard_normal((4, 10), dtype=np.float32)
a, b = parts[:2] + np.complex64(1j) * parts[2:]
x, y = cl_array.to_device(queue, a), cl_array.to_device(queue, b)
z, r = cl_array.empty_like(x), cl_array.empty(queue, 10, np.float32)
product(5, x, y, z)
assert np.allclose(z.get(), 5 * a * b)
total(z, x, z)
real(z, r)
print(np.allclose(r.get(), (5 * a * b + a).real, atol=1e-5), r.get())
