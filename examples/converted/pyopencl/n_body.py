"""Bodies that attract each other: two kernels of one text, whose method and precision are build options."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array

import kcl

TEXT = """
REAL4 pull(__global const REAL4 *x, const int n, const REAL4 here)
{
    REAL4 sum = 0;
    for (int i = 0; i < n; i++)
    {
        const REAL4 way = x[i] - here;
        sum += way*rsqrt(pown(dot(way, way) + SOFT, 3));
    }
    return sum;
}

__kernel void advance(
    __global const REAL4 *x, __global const REAL4 *v, __global REAL4 *new_x, __global REAL4 *new_v, const REAL h,
    const int n)
{
    const int i = get_global_id(0);
#ifdef HEUN
    const REAL4 first = pull(x, n, x[i]), second = pull(x, n, x[i] + h*v[i]);
    new_x[i] = x[i] + h*(v[i] + h/2*first);
    new_v[i] = v[i] + h/2*(first + second);
#else
    new_v[i] = v[i] + h*pull(x, n, x[i]);
    new_x[i] = x[i] + h*new_v[i];
#endif
}

__kernel void energy(__global const REAL4 *x, __global const REAL4 *v, __global REAL *e, const int n)
{
    const int i = get_global_id(0);
    REAL sum = dot(v[i], v[i]);
    for (int k = 0; k < n; k++)
        sum -= k == i ? 0 : rsqrt(dot(x[k] - x[i], x[k] - x[i]) + SOFT);
    e[i] = sum/2;
}
"""


def source(real, method):
    """Return the kernel `advance`; a vector of four numbers is a row of an array."""
    dtype = {"float": np.float32, "double": np.float64}[real]
    return kcl.Source(
        TEXT,
        entry="advance",
        arguments=[
            kcl.Array("x", dtype, shape="(n, 4)"),
            kcl.Array("v", dtype, shape="(n, 4)"),
            kcl.Array("new_x", dtype, shape="(n, 4)", direction="out"),
            kcl.Array("new_v", dtype, shape="(n, 4)", direction="out"),
            kcl.Scalar("h", dtype),
            kcl.Scalar("n", np.int32),
        ],
        global_size="(n,)",
        build_options=[f"-DREAL={real}", f"-DREAL4={real}4", "-DSOFT=(REAL)0.01", f"-D{method}"],
    )


@kcl.kernel
def advance(real, method):
    return source(real, method)


@kcl.kernel
def energy(real, method):
    dtype = {"float": np.float32, "double": np.float64}[real]
    arguments = [
        kcl.Array("x", dtype, shape="(n, 4)"),
        kcl.Array("v", dtype, shape="(n, 4)"),
        kcl.Array("e", dtype, shape="(n,)", direction="out"),
        kcl.Scalar("n", np.int32),
    ]
    return source(real, method).kernel("energy", arguments=arguments, global_size="(n,)")


context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
random = np.random.default_rng(0)
start = random.standard_normal((2, 64, 4)) * [[[1, 1, 1, 0]], [[0.1, 0.1, 0.1, 0]]]
for real, method in (("float", "EULER"), ("double", "EULER"), ("double", "HEUN")):
    advanced, measured = advance(real, method), energy(real, method)
    dtype = {"float": np.float32, "double": np.float64}[real]
    x, v = (cl_array.to_device(queue, part) for part in start.astype(dtype))
    for _ in range(10):
        event, (x, v) = advanced(queue, x=x, v=v, h=1 / 256)
    event, (e,) = measured(queue, x=x, v=v)
    print(real, method, e.get().sum(), x.get()[0, :3])
