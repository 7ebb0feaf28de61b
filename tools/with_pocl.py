"""Run a command with a PoCL that can build programs on this CPU.

    python tools/with_pocl.py COMMAND [ARGUMENT ...]

To PoCL a CPU that is newer than its LLVM is "generic", a name that clang does not take on x86, and no program builds:
https://github.com/pocl/pocl/issues/1049. PoCL 3.1 and later read POCL_LLVM_CPU_NAME; the release of the wheel does not.
For that one tools/pocl_cpu.c is compiled into the environment of this Python and named by LD_PRELOAD.
"""

from __future__ import annotations

import os
import pathlib
import platform
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).with_name("pocl_cpu.c")
HELP = (
    "this CPU is newer than PoCL's LLVM, which builds nothing on it. Install a C compiler (apt-get install gcc), so "
    "that tools/with_pocl.py can tell PoCL of a CPU that it knows, or take a PoCL with a newer LLVM (conda install -c "
    "conda-forge pocl)."
)


def main() -> None:
    command = sys.argv[1:]
    surroundings = dict(os.environ)
    if is_unknown():
        libraries = [str(compiled()), surroundings.get("LD_PRELOAD", "")]
        surroundings["LD_PRELOAD"] = ":".join(filter(None, libraries))
    os.execvpe(command[0], command, surroundings)


def is_unknown() -> bool:
    """Tell whether PoCL does not know the name of this CPU."""
    if platform.machine() != "x86_64":
        return False
    with tempfile.TemporaryDirectory() as directory:  # PoCL makes it, whatever it is asked for
        os.environ["POCL_CACHE_DIR"] = directory
        import pyopencl

        try:
            versions = [device.version for one in pyopencl.get_platforms() for device in one.get_devices()]
        except pyopencl.Error:
            return False
    return any("PoCL" in version and version.endswith("-generic") for version in versions)


def compiled() -> pathlib.Path:
    """Return the library, which is made again where its source is newer."""
    library = pathlib.Path(sys.prefix, "lib", "libkcl-pocl-cpu.so")
    if not library.exists() or library.stat().st_mtime < SOURCE.stat().st_mtime:
        made = library.with_suffix(f".{os.getpid()}")
        try:
            subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-fno-builtin", "-o", made, SOURCE, "-ldl"], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"{error}\n{HELP}")
        made.replace(library)
    return library


if __name__ == "__main__":
    main()
