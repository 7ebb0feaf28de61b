"""A module that chooses the version of loopy's language."""

import loopy as lp
import numpy as np
from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401


def kernel():
    return lp.make_kernel(
        "{[i]: 0<=i<n}", "y[i] = 8*x[i]", [lp.GlobalArg("x", np.float32, "n"), ...], name="loop_language_version"
    )
