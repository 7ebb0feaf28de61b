"""Blur, threshold and labels of pyclesperanto."""

import numpy as np
import pyclesperanto_prototype as cle

image = np.add.outer(np.arange(32.0), np.arange(32.0) % 7).astype(np.float32)
blurred = cle.gaussian_blur(image, sigma_x=1, sigma_y=1)
binary = cle.threshold_otsu(blurred)
labels = cle.connected_components_labeling_box(binary)
print(
    f"{np.asarray(blurred).sum():.6g}", int(np.asarray(binary).sum()), int(np.asarray(labels).max())
)
