"""A driver on PoCL that launches programs, each of which adds its number, and prints their sums."""

import os

DRIVER = """
    import json, sys
    import numpy as np
    import pyopencl as cl
    import kcl

    @kcl.kernel
    def added(number):
        return kcl.Source(
            f"__kernel void added{number}(__global float *x) {{ x[get_global_id(0)] += {number}; }}",
            entry=f"added{number}",
            arguments=[kcl.Array("x", np.float32, "(16,)", "inout")],
            global_size="(16,)",
            local_size="(16,)",
        )

    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    numbers = json.loads(sys.argv[1])
    print(json.dumps([float(added(number)(queue, x=np.zeros(16, np.float32))[1][0].sum()) for number in numbers]))
"""
ON_POCL = {"PYOPENCL_CTX": "portable", "KCL_PROMOTE": "off"}
NUMBERS = list(range(12))
SUMS = [16.0 * number for number in NUMBERS]
# What damages a file of PoCL's cache: each takes dice, the path and the content.
SPOILS = [
    lambda _dice, path, _content: path.write_bytes(b""),
    lambda dice, path, content: path.write_bytes(dice.randbytes(len(content))),
    lambda _dice, path, content: path.write_bytes(bytes(len(content))),
    lambda dice, path, content: path.write_bytes(content[: dice.randrange(len(content))]),
    lambda _dice, path, content: path.write_bytes(content[:-4]),
    lambda _dice, path, _content: (path.unlink(), path.mkdir()),
    lambda _dice, path, _content: (path.unlink(), os.mkfifo(path)),
    lambda _dice, path, _content: (path.unlink(), path.symlink_to("/dev/zero")),
]
