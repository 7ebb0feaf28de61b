"""A driver beside a remote: `fetching.py PLATFORM FACTOR`; prints what was looked up, imported, started and connected.

The process is watched from before kcl is imported. Each FACTOR makes other kernels. With a third word the hooks of
sites and of the remote are cut out of kcl.
"""

from __future__ import annotations

import json
import re
import sys

CLIENTS = {"redis", "obstore", "cryptography"}
TOUCHING = {"open", "os.listdir", "os.scandir", "os.mkdir", "os.rename", "os.remove"}
watched: dict[str, list[str]] = {"subprocess.Popen": [], "socket.connect": [], "os.fork": []}
paths: set[str] = set()
called: set[str] = set()


def watch(event, arguments):
    """Note the processes that are started, the connections that are made, and the paths that are touched."""
    if event in watched:
        watched[event].append(" ".join(map(str, arguments[1])) if event == "subprocess.Popen" else "")
    elif event in TOUCHING:
        paths.add(re.sub(r"[0-9a-f]{8,}|\d+", "#", str(arguments[0])))


def profile(frame, event, _argument):
    """Note the functions of kcl that are called."""
    name = frame.f_globals.get("__name__", "")
    if event == "call" and name.partition(".")[0] == "kcl":
        called.add(f"{name}:{frame.f_code.co_name}")


def cut() -> None:
    """Take the hooks of sites and of the remote out of kcl."""
    from kcl.cache import layer, layers

    layer.Layer.came = lambda _self: False
    layers.sites = lambda _name: []


def main(platform: str, factor: str, *hooks: str) -> None:
    """Launch a kernel of each front end."""
    import numpy as np
    import pyopencl as cl

    import kcl

    if hooks:
        cut()

    @kcl.kernel
    def scaled(by=1):
        import loopy as lp

        return lp.make_kernel("{[i]: 0<=i<n}", f"y[i] = x[i] * {by}", name="scaled", lang_version=(2018, 2))

    @kcl.kernel
    def shifted(by=1):
        text = f"kernel void shifted(global float *x) {{ x[get_global_id(0)] += {by}; }}"
        arguments = [kcl.Array("x", np.float32, "(16,)", "inout")]
        return kcl.Source(text, entry="shifted", arguments=arguments, global_size="(16,)")

    looks = []
    kcl.add_hook(lambda event: looks.append((event.layer, event.outcome)))
    (found,) = [one for one in cl.get_platforms() if one.name == platform]
    context = cl.Context(found.get_devices()[:1])
    queue = cl.CommandQueue(context)
    x, by = np.arange(16, dtype=np.float32), int(factor)
    _event, (y,) = scaled(by)(queue, x=x)
    assert np.array_equal(y, x * by)
    shifted(by)(queue, x=y)
    assert np.array_equal(y, x * by + by)
    said = {
        "outcomes": sorted({outcome for _layer, outcome in looks}),
        "loopy": "loopy" in sys.modules,
        "remote": sorted(name for name in sys.modules if name.startswith("kcl.remote")),
        "clients": sorted(CLIENTS & sys.modules.keys()),
        "children": sum(
            "kcl.remote" in text or "spec_from_file_location" in text for text in watched["subprocess.Popen"]
        ),
        "connections": len(watched["socket.connect"]),
        "modules": sorted(sys.modules),
        "paths": sorted(paths),
        "called": sorted(called),
    }
    print(json.dumps(said))


if __name__ == "__main__":
    sys.addaudithook(watch)
    sys.setprofile(profile)
    main(*sys.argv[1:])
