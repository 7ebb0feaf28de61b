"""tools/with_pocl.py: a command runs as it would, and on a CPU that PoCL does not know its programs build."""

import json
import os
import platform
import shutil
import subprocess
import sys

import pytest
from harness import ROOT

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


def with_pocl(*command, **variables):
    """Run a command below the tool and return what it prints."""
    done = subprocess.run(
        [sys.executable, TOOL, *command],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def library():
    """Compile what stands before the C library, as the tool does."""
    if platform.machine() != "x86_64" or shutil.which("cc") is None:
        pytest.skip("needs a C compiler on x86-64")
    code = f"import sys; sys.path.insert(0, {str(TOOL.parent)!r}); import with_pocl; print(with_pocl.compiled())"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


def test_command_runs_as_it_would():
    """Arguments, variables and the exit status are passed on."""
    code = "import os, sys; print(sys.argv[1:], os.environ['POCL_CACHE_DIR']); sys.exit(3)"
    done = with_pocl(sys.executable, "-c", code, "one", "two words", POCL_CACHE_DIR="/mine")
    assert done == (3, "['one', 'two words'] /mine\n")


def test_a_program_builds():
    """On the CPU that this runs on."""
    code = (
        "import pyopencl as cl\n"
        "pocl = [one for one in cl.get_platforms() if one.name == 'Portable Computing Language']\n"
        "context = cl.Context(pocl[0].get_devices())\n"
        "cl.Program(context, 'kernel void f(global int *a) { a[0] = 1; }').build()\n"
        "print('built')"
    )
    assert with_pocl(sys.executable, "-c", code, LD_PRELOAD="", PYOPENCL_NO_CACHE="1") == (
        0,
        "built\n",
    )


def test_only_pocl_gets_another_name(library, tmp_path):
    """Everybody else gets a plain strncpy, and PoCL too for any other text."""
    source, pocl = tmp_path / "pocl.c", tmp_path / "libpocl-1.so"
    source.write_text(POCL)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-fno-builtin", "-o", pocl, source], check=True, timeout=120
    )
    done = subprocess.run(
        [sys.executable, "-c", CALLS, pocl],
        env=os.environ | {"LD_PRELOAD": library},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
    )
    plain, named = json.loads(done.stdout)
    expected = [
        "generic#####",
        "generic\0####",
        "generi\0#####",
        "znver3\0#####",
        "\0" * 7 + "#####",
        "a na########",
    ]
    assert plain == expected
    assert named[1:] == expected[1:]
    assert named[0].rstrip("#").rstrip("\0") in NAMED
    assert len(named[0].rstrip("#")) == 7
