"""Whether a preprocessor may read anything but the source that it is given."""

from __future__ import annotations

import functools
import re

_WORDS = ("include", "import", "embed", "incbin", "__DA", "__TI", "__h", "%:", "??=", "??/", 'R"')
_CONTINUED = r"\\[ \t\f\v]*[\r\n]"


# Asked twice on a warm start. To compile one pattern of all words takes a millisecond, and to search for it as long.
@functools.lru_cache(maxsize=4)
def may_read(source: str) -> bool:
    """Tell whether the preprocessor might read anything but `source`: a word of it may be cut by a continued line."""
    if any(word in source for word in _WORDS):
        return True
    return "\\" in source and re.search(_CONTINUED, source) is not None
