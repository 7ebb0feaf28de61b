"""tools/with_pocl.py: a command runs as it would, and on a CPU that PoCL does not know its programs build."""

import platform
import shutil
import sys

import pytest
from harness import ROOT, run_command

TOOL = ROOT / "tools" / "with_pocl.py"
NAMED = {"skx", "haswell", "x86-64"}

# What PoCL does with the name that its LLVM gives: seven letters into eight bytes.
POCL = """
#include <string.h>
void pocl_name(char *to, const char *from, size_t count) { strncpy(to, from, count); }
"""
CALLS = """
import ctypes, json, sys
def copied(call, text, count):
    place = ctypes.create_string_buffer(b"#" * 12, 12)
    call(place, text, ctypes.c_size_t(count))
    return place.raw.decode("latin-1")
libc = ctypes.CDLL(None).strncpy
pocl = ctypes.CDLL(sys.argv[1]).pocl_name
texts = [(b"generic", 7), (b"generic", 8), (b"generi", 7), (b"znver3", 7), (b"", 7), (b"a name too long", 4)]
print(json.dumps([[copied(call, *text) for text in texts] for call in (libc, pocl)]))
"""


@pytest.fixture(scope="module")
def library():
    """Compile what stands before the C library, as the tool does."""
    if platform.machine() != "x86_64" or shutil.which("cc") is None:
        pytest.skip("needs a C compiler on x86-64")
    code = f"import sys; sys.path.insert(0, {str(TOOL.parent)!r}); import with_pocl; print(with_pocl.compiled())"
    return run_command([sys.executable, "-c", code], check=True).stdout.strip()


def test_command_runs_as_it_would(child):
    """Arguments, variables and the exit status are passed on."""
    code = "import os, sys; print(sys.argv[1:], os.environ['POCL_CACHE_DIR']); sys.exit(3)"
    words = (TOOL, sys.executable, "-c", code, "one", "two words")
    done = child.finished(*words, status=3, POCL_CACHE_DIR="/mine")
    assert done.stdout == "['one', 'two words'] /mine\n"


def test_a_program_builds(child):
    """On the CPU that this runs on."""
    code = (
        "import opened, pyopencl as cl\n"
        "context = opened.queue_on('Portable Computing Language').context\n"
        "cl.Program(context, 'kernel void f(global int *a) { a[0] = 1; }').build()"
    )
    child.finished(TOOL, sys.executable, "-c", code, LD_PRELOAD="", PYOPENCL_NO_CACHE="1")


def test_only_pocl_gets_another_name(child, library, tmp_path):
    """Everybody else gets a plain strncpy, and PoCL too for any other text."""
    source, pocl = tmp_path / "pocl.c", tmp_path / "libpocl-1.so"
    source.write_text(POCL)
    run_command(["cc", "-shared", "-fPIC", "-fno-builtin", "-o", pocl, source], check=True)
    plain, named = child.json(CALLS, str(pocl), LD_PRELOAD=library)
    expected = ["generic#####", "generic\0####", "generi\0#####", "znver3\0#####"]
    expected += ["\0" * 7 + "#####", "a na########"]
    assert plain == expected
    assert named[1:] == expected[1:]
    assert named[0].rstrip("#").rstrip("\0") in NAMED
    assert len(named[0].rstrip("#")) == 7
