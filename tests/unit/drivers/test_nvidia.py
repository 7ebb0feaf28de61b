"""kcl.drivers.nvidia: NVIDIA's own cache is shown a changed header, and its notes are not repeated."""

import pytest
from program_texts import generated

from kcl.drivers.nvidia import Nvidia
from kcl.programs import compilation
from kcl.programs.stage import Build

NOTE = (
    "(): Warning: Function add is a kernel, so overriding noinline attribute. "
    "The function may be inlined when called.\n"
)


@pytest.mark.parametrize("source", ['#include "a.h"', "# include <a.h>\n"])
def test_mark(source):
    """A source that includes something gets a definition that differs with the headers; another has none digested."""
    marks = {Nvidia().mark(source, lambda digest=digest: digest * 64) for digest in "ab"}
    assert marks == {f"-DKCL_HEADERS_{'a' * 32}", f"-DKCL_HEADERS_{'b' * 32}"}
    assert Nvidia().mark("kernel void f() {}", lambda: pytest.fail("digested")) == ""


@pytest.mark.one_platform
@pytest.mark.parametrize(
    ("log", "kept"),
    [
        (NOTE + "\n", ""),
        (f"{NOTE}:1:2: warning: look\n{NOTE}", ":1:2: warning: look\n"),
        ("\n", "\n"),
    ],
)
def test_log(context, log, kept):
    """The log of an entry has the compiler's warnings, and no note about each kernel."""
    text, driver = generated(), Nvidia()
    (slot,) = Build(context, driver).slots(text)
    assert compilation.described(driver, text, slot, log).parts["build.log"].decode() == kept
