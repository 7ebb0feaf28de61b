"""`kcl.option`: the module `kcl.base.settings.option` by its public name, for `import kcl.option`."""

import sys

from kcl.base.settings import option
from kcl.base.settings.option import cache_dir, get_cache_dir

__all__ = ["cache_dir", "get_cache_dir"]

sys.modules[__name__] = option
