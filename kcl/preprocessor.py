"""Whether a preprocessor may read anything but the source that it is given."""

from __future__ import annotations

import functools
import re

_MAY_READ = re.compile(r"include|import|embed|incbin|__DA|__TI|__h|%:|\?\?[=/]|R\"|\\[ \t\f\v]*[\r\n]")


# Asked twice on a warm start; a millisecond for a kernel of a thousand statements.
@functools.lru_cache(maxsize=4)
def may_read(source: str) -> bool:
    """Tell whether the preprocessor might read anything but `source`."""
    return _MAY_READ.search(source) is not None
