"""An azimuthal integration of pyFAI, by histograms and by a sparse matrix."""

import numpy as np
from pyFAI.integrator.azimuthal import AzimuthalIntegrator

image = np.add.outer(np.arange(128.0), np.arange(128.0)).astype(np.float32)
geometry = AzimuthalIntegrator(dist=0.1, poni1=0.01, poni2=0.01, wavelength=1e-10)
geometry.detector.shape = image.shape
geometry.detector._pixel1 = geometry.detector._pixel2 = 1e-4
for algorithm in ("csr", "histogram"):
    found = geometry.integrate1d_ng(image, 100, unit="2th_deg", method=("no", algorithm, "opencl"))
    print(f"{np.asarray(found.intensity, float).sum():.6g}")
