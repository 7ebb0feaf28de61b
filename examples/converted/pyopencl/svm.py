"""Shared virtual memory, coarse and fine, as arguments of a program. Only the line with `kcl.install()` is new."""

import numpy as np
import pyopencl as cl
from pyopencl.characterize import has_coarse_grain_buffer_svm, has_fine_grain_buffer_svm

import kcl

kcl.install()

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
text = "__kernel void twice(__global float *x) { x[get_global_id(0)] *= 2; }"
twice = cl.Program(context, text).build().twice

if has_coarse_grain_buffer_svm(queue.device):
    coarse = cl.SVM(cl.csvm_empty(context, 10, np.float32))
    with coarse.map_rw(queue) as host:
        host[:] = np.arange(10)
    twice(queue, (10,), None, coarse)
    queue.finish()
    with coarse.map_ro(queue) as host:
        print("coarse", host)

if has_fine_grain_buffer_svm(queue.device):
    fine = cl.fsvm_empty(context, 10, np.float32)
    fine[:] = np.arange(10)
    twice(queue, (10,), None, cl.SVM(fine))
    queue.finish()
    print("fine", fine)
