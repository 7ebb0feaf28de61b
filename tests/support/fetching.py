"""A driver beside a remote: `fetching.py PLATFORM FACTOR`; prints what was looked up, imported, started and connected.

The process is watched from before kcl is imported. Each FACTOR makes other kernels.
"""

import json
import sys

CLIENTS = {"redis", "obstore", "cryptography"}
watched: dict[str, list[str]] = {"subprocess.Popen": [], "socket.connect": [], "os.fork": []}


def watch(event, arguments):
    if event in watched:
        is_process = event == "subprocess.Popen"
        watched[event].append(" ".join(map(str, arguments[1])) if is_process else "")


def main(platform: str, factor: str) -> None:
    """Launch a kernel of each front end."""
    import numpy as np
    from opened import over_x, queue_on

    import kcl

    @kcl.kernel
    def scaled(by=1):
        import loopy as lp

        return lp.make_kernel(
            "{[i]: 0<=i<n}", f"y[i] = x[i] * {by}", name="scaled", lang_version=(2018, 2)
        )

    @kcl.kernel
    def shifted(by=1):
        return over_x("shifted", f"+= {by}", size=16)

    looks = []
    kcl.add_hook(lambda event: looks.append((event.layer, event.outcome)))
    queue = queue_on(platform)
    x, by = np.arange(16, dtype=np.float32), int(factor)
    _event, (y,) = scaled(by)(queue, x=x)
    assert np.array_equal(y, x * by)
    shifted(by)(queue, x=y)
    assert np.array_equal(y, x * by + by)
    marks = ("kcl.remote", "spec_from_file_location")
    started = watched["subprocess.Popen"]
    said = {
        "outcomes": sorted({outcome for _layer, outcome in looks}),
        "loopy": "loopy" in sys.modules,
        "remote": sorted(name for name in sys.modules if name.startswith("kcl.remote")),
        "clients": sorted(CLIENTS & sys.modules.keys()),
        "children": sum(any(mark in text for mark in marks) for text in started),
        "connections": len(watched["socket.connect"]),
    }
    print(json.dumps(said))


if __name__ == "__main__":
    sys.addaudithook(watch)
    main(*sys.argv[1:])
