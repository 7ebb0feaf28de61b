"""Imported by Python at the start of each child of `kcl run`: installs kcl there, then runs the user's `sitecustomize`.

Any version of Python may run this module, so its code is simple, and it fails silently.
"""

import os
import sys

# Without this folder Python finds the `sitecustomize` that this module hides.
_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if path != _here]
if os.environ.get("KCL_RUN") == sys.implementation.cache_tag + " " + sys.prefix:
    try:
        import kcl

        kcl.install()
    except Exception:
        # The child runs without kcl.
        pass
# If there is no other module, Python ignores the ImportError; it reports an error inside that module.
del sys.modules["sitecustomize"]
__import__("sitecustomize")
