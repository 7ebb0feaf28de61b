"""Launch COUNT kernels from saved binaries, by hand: no key, no look-up, no check, nothing but pyopencl.

python drive_floor.py COUNT DIRECTORY

DIRECTORY holds a binary per program, and `plan.py` with what a person would have typed into the driver (entry points,
launch sizes, order of arguments).
"""

from __future__ import annotations

import sys

import kernels
import numpy as np
import pyopencl as cl


def main() -> None:
    count, directory = int(sys.argv[1]), sys.argv[2]
    sys.path.append(directory)
    from plan import LAUNCHES

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    arguments = kernels.Arguments(queue)
    for number, (entry, global_size, local_size, names) in enumerate(LAUNCHES[:count]):
        arrays = arguments.of(number)
        with open(f"{directory}/{number}.bin", "rb") as stream:
            binary = stream.read()
        program = cl.Program(context, context.devices, [binary]).build()
        kernel = cl.Kernel(program, entry)
        for index, name in enumerate(names):
            kernel.set_arg(
                index, arrays[name].data if name in arrays else np.int32(kernels.SIZES[name])
            )
        cl.enqueue_nd_range_kernel(queue, kernel, global_size, local_size)
    print(arguments.checksum())


if __name__ == "__main__":
    main()
