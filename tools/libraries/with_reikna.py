"""A transform, a product of matrices and a reduction of reikna."""

import numpy as np
from reikna import cluda
from reikna.algorithms import Reduce, predicate_sum
from reikna.fft import FFT
from reikna.linalg import MatrixMul

thread = cluda.ocl_api().Thread.create()
x = np.arange(256, dtype=np.complex64).reshape(16, 16)
device = thread.to_device(x)
result = thread.array(x.shape, x.dtype)
FFT(x).compile(thread)(result, device)
print(f"{abs(result.get()).sum():.6g}")
product = thread.array((16, 16), x.dtype)
MatrixMul(x, x).compile(thread)(product, device, device)
print(f"{abs(product.get()).sum():.6g}")
total = thread.array((), np.int64)
numbers = thread.to_device(np.arange(1000, dtype=np.int64))
Reduce(numbers, predicate_sum(np.int64)).compile(thread)(total, numbers)
print(total.get())
