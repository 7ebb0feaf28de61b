"""kcl.build.preprocessor: whether a source may read anything but itself."""

from __future__ import annotations

import pytest

from kcl.build.preprocessor import may_read


@pytest.mark.parametrize(
    "source",
    [
        '#include "a.h"',
        "#inc\\\nlude <a.h>",
        "#inc\\ \t\r\nlude <a.h>",
        "%:include X",
        "??=include X",
        "#if __has_include(<a.h>)",
        "constant char now[] = __TIME__;",
        "/* include */",
    ],
)
def test_may_read(source):
    """A word that reads something, a line that is continued, or a digraph says that the source may read."""
    assert may_read(source)


@pytest.mark.parametrize("source", ["", "kernel void f(global int *a) { a[0] = 1; }", "char c = '\\n'; // \"\\t\""])
def test_reads_nothing(source):
    """A source without any of them reads nothing, whatever escapes its texts have."""
    assert not may_read(source)
