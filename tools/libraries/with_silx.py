"""Filters and a reconstruction of silx."""

import numpy as np
from silx.opencl.backprojection import Backprojection
from silx.opencl.medfilt import MedianFilter2D
from silx.opencl.statistics import Statistics

image = np.add.outer(np.arange(64.0), np.arange(64.0)).astype(np.float32)
print(f"{MedianFilter2D(image.shape, (3, 3), devicetype='cpu').medfilt2d(image).sum():.6g}")
found = Statistics(image.size, devicetype="cpu")(image)
print(f"{found.mean:.6g}")
sinogram = np.ones((32, 64), np.float32)
print(
    f"{Backprojection(sinogram.shape, devicetype='cpu').filtered_backprojection(sinogram).sum():.4g}"
)
