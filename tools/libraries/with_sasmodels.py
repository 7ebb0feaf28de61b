"""Scattering curves of models of sasmodels, on an OpenCL device."""

import numpy as np
from sasmodels import core
from sasmodels.direct_model import call_kernel

q = np.logspace(-3, 0, 64)
for name in ("sphere", "cylinder", "ellipsoid", "core_shell_sphere", "power_law"):
    model = core.build_model(core.load_model_info(name), dtype="double", platform="ocl")
    kernel = model.make_kernel([q])
    print(name, f"{call_kernel(kernel, {}).sum():.8g}")
