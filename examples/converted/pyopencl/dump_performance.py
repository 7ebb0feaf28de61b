"""What a launch costs, measured by pyopencl's kernels. Only the line with `kcl.install()` is new."""

import pyopencl as cl
import pyopencl.characterize.performance as performance

import kcl

kcl.install()

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
overhead, latency = performance.get_profiling_overhead(context)
print("latency", latency > 0)
print("empty kernel", performance.get_empty_kernel_time(queue) > 0)
print("additions", performance.get_add_rate(queue) > 0)
