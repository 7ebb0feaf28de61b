"""Print the device that the benchmarks run on and the versions of what they use."""

from __future__ import annotations

from importlib.metadata import version

import pyopencl as cl

(device,) = cl.create_some_context(interactive=False).devices
versions = ", ".join(
    f"{name} {version(name)}" for name in ("pyopencl", "loopy", "pytools", "numpy")
)
print(f"{device.name.strip()}, {device.platform.name.strip()} {device.driver_version}; {versions}")
