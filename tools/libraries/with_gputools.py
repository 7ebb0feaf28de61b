"""Convolution, transform and denoising of gputools."""

import gputools
import numpy as np

image = np.add.outer(np.arange(32.0), np.arange(32.0)).astype(np.float32)
print(f"{gputools.convolve(image, np.ones((3, 3), np.float32)).sum():.6g}")
print(f"{gputools.denoise.nlm2(image, 10.0).sum():.6g}")
print(f"{gputools.scale(np.stack([image] * 4), (1, 2, 2)).sum():.6g}")
