"""Whether a preprocessor may read anything but the source that it is given."""

from __future__ import annotations

import re

_MAY_READ = re.compile(r"include|import|embed|incbin|__DA|__TI|__h|%:|\?\?[=/]|R\"|\\[ \t\f\v]*[\r\n]")


def may_read(source: str) -> bool:
    """Tell whether the preprocessor might read anything but `source`."""
    return _MAY_READ.search(source) is not None
