"""kcl.drivers.nvidia: NVIDIA's own cache is shown a changed header."""

import pytest

from kcl.drivers.nvidia import Nvidia


@pytest.mark.parametrize("source", ['#include "a.h"', "# include <a.h>\n"])
def test_mark(source):
    """A source that includes something is built with a definition that differs with the headers."""
    marks = {Nvidia().mark(source, lambda digest=digest: digest * 64) for digest in "ab"}
    assert marks == {f"-DKCL_HEADERS_{'a' * 32}", f"-DKCL_HEADERS_{'b' * 32}"}


def test_without_headers():
    """A source that includes nothing gets no definition, and its headers are not digested."""
    assert Nvidia().mark("kernel void f() {}", lambda: pytest.fail("digested")) == ""
