"""A driver whose bundle travels: `bundled.py PLATFORM save FILE`, then `bundled.py PLATFORM hit FILE` elsewhere.

With the mode `run` it loads nothing.

Variables make the process another one before kcl is imported: BUNDLED_NAME is the device's marketing name, BUNDLED_CPU
takes the place of LLVM's name of the CPU, BUNDLED_PATCH is the patch release of Python.
"""

import json
import os
import sys
from collections import namedtuple

import numpy as np
import pyopencl as cl


def become_another() -> None:
    """Change what this process sees of its machine, as the variables say."""
    if name := os.environ.get("BUNDLED_NAME"):
        cl.Device.name = property(lambda _self: name)
    if cpu := os.environ.get("BUNDLED_CPU"):
        seen = cl.Device.version
        cl.Device.version = property(lambda self: f"{seen.__get__(self).rpartition('-')[0]}-{cpu}")
    if patch := os.environ.get("BUNDLED_PATCH"):
        Version = namedtuple("Version", "major minor micro releaselevel serial")
        sys.version_info = Version(*sys.version_info[:2], int(patch), "final", 0)


def main(platform: str, mode: str, file: str) -> None:
    """Launch a kernel of each front end; print the look-ups, and how the process was."""
    become_another()
    import kcl

    @kcl.kernel
    def added(by=1):
        import loopy as lp

        knl = lp.make_kernel(
            "{[i]: 0<=i<n}", f"y[i] = x[i] + {by}", name="added", lang_version=(2018, 2)
        )
        return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")

    @kcl.kernel
    def halved():
        text = "kernel void halved(global float *x) { x[get_global_id(0)] /= 2; }"
        arguments = [kcl.Array("x", np.float32, "(16,)", "inout")]
        return kcl.Source(text, entry="halved", arguments=arguments, global_size="(16,)")

    looks = []
    kcl.add_hook(lambda event: looks.append((event.layer, event.outcome)))
    info = kcl.load_artifacts(file if mode == "hit" else b"") if mode != "save" else None
    (found,) = [one for one in cl.get_platforms() if one.name == platform]
    context = cl.Context(found.get_devices()[:1])
    queue = cl.CommandQueue(context)
    x = np.arange(16, dtype=np.float32)
    for by in (1, 2):
        _event, (y,) = added(by)(queue, x=x)
        assert np.array_equal(y, x + by)
    halved()(queue, x=x)
    assert x[2] == 1
    if info is None:
        data, info = kcl.save_artifacts()
        with open(file, "wb") as stream:
            stream.write(data)
    said = {
        "looks": looks,
        "loopy": "loopy" in sys.modules,
        "unusable": sorted({reason for _digest, reason in info.unusable}),
        "programs": len(info.binary_artifacts),
        "left out": info.left_out,
        "kcl": kcl.__file__,
    }
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
