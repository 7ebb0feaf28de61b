"""The module that Python imports as it starts in a child of `kcl run`; the hidden `sitecustomize` runs afterwards.

Any interpreter may read this module: it is plain, and reports nothing if it cannot work.
"""

import os
import sys

# Without this folder the hidden `sitecustomize` is the one that Python finds.
_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if path != _here]
if os.environ.get("KCL_RUN") == sys.implementation.cache_tag + " " + sys.prefix:
    try:
        import kcl

        kcl.install()
    except Exception:
        # This child runs without kcl.
        pass
# Python goes on where no other module exists, and reports a fault of that module.
del sys.modules["sitecustomize"]
__import__("sitecustomize")
