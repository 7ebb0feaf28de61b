"""A driver on PoCL that launches programs, each of which adds its number, and prints their sums."""

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
