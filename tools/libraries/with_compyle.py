"""An elementwise kernel and a reduction of compyle."""

import numpy as np
from compyle.api import Elementwise, Reduction, annotate, get_config, wrap


@annotate(i="int", doublep="x, y", a="double")
def axpb(i, x, y, a):
    y[i] = a * sin(x[i]) + 1.0  # noqa: F821


@annotate(i="int", x="doublep", return_="double")
def squared(i, x):
    return x[i] * x[i]


get_config().use_double = True
x = wrap(np.linspace(0, 1, 1000), backend="opencl")
y = wrap(np.zeros(1000), backend="opencl")
Elementwise(axpb, backend="opencl")(x, y, 2.0)
y.pull()
print(f"{y.data.sum():.10g}")
print(f"{Reduction('a+b', map_func=squared, backend='opencl')(y):.10g}")
