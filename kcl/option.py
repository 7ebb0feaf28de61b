"""`kcl.option`: the module `kcl.base.settings.option` by its public name, for `import kcl.option`."""

import sys

from kcl.base.settings import option
from kcl.base.settings.option import *  # noqa: F403 - the public names, which type checkers read here

sys.modules[__name__] = option
