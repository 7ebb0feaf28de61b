"""What Python imports as it starts in a child of `kcl run`; the one that this hides runs afterwards.

It may be read by any interpreter: it is plain, and says nothing where it cannot do anything.
"""

import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if path != _here]
if os.environ.get("KCL_RUN") == sys.implementation.cache_tag + " " + sys.prefix:
    try:
        import kcl

        kcl.install()
    except Exception:
        pass  # this child runs as it would have
# Where there is none Python goes on as without; what is wrong with it Python says.
del sys.modules["sitecustomize"]
__import__("sitecustomize")
