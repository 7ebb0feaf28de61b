"""For each target the nearest disc that holds it. numpy checks the result, where loopy's example looks at the unit."""

import numpy as np
import pyopencl as cl

import kcl.loopy as lp
from kcl.loopy import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
knl = lp.make_kernel(
    "{[c,t,d]: 0<=t<targets and 0<=c<centers and 0<=d<dimensions}",
    """
    for t
        for c
            <> distance = sum(d, (target[d,t] - center[d,c])**2)
            <> inside = distance < (1.05*radius[c])**2
            <> counted = distance if inside and (side == 0 or side*sides[c] > 0) else far
        end
        <> least, <> which = argmin(c, counted, c)
        found[t] = which if least < far else -1
    end
    """,
    name="find_centers",
)
knl = lp.fix_parameters(knl, dimensions=2)
knl = lp.add_and_infer_dtypes(knl, {"target,center,radius,far": np.float32, "sides,side": np.int32})

random = np.random.default_rng(0)
target, center = (random.random((2, count), dtype=np.float32) for count in (300, 200))
radius = random.random(200, dtype=np.float32) / 10
sides = random.choice([-1, 1], 200).astype(np.int32)
executor = knl.executor(context)
for side in (0, 1):
    event, (found,) = executor(
        queue,
        target=target,
        center=center,
        radius=radius,
        sides=sides,
        side=side,
        far=np.float32(1e20),
    )
    distance = ((target[:, :, None] - center[:, None]) ** 2).sum(axis=0)
    counted = (distance < (1.05 * radius) ** 2) & ((side == 0) | (side * sides > 0))
    nearest = np.where(counted, distance, np.float32(1e20))
    expected = np.where(nearest.min(axis=1) < 1e20, nearest.argmin(axis=1), -1)
    print((found == expected).mean(), (found >= 0).sum())
