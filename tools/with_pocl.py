"""Run a command with a PoCL that can build programs on this CPU.

    python tools/with_pocl.py COMMAND [ARGUMENT ...]

To PoCL a CPU that is newer than its LLVM is "generic", a name that clang does not take on x86, and no program builds:
https://github.com/pocl/pocl/issues/1049. The PoCL of the wheel cannot be told another one. So tools/pocl_cpu.c is
compiled into the environment of this Python, and named by LD_PRELOAD. Anywhere else the command runs as it would.
"""

from __future__ import annotations

import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).with_name("pocl_cpu.c")
WHY = "with_pocl: this CPU is newer than PoCL's LLVM, which builds nothing on it"
CURES = (
    "Install a C compiler (apt-get install gcc) and run this in a virtual environment of yours, or take a PoCL with a "
    "newer LLVM (conda install -c conda-forge pocl)."
)


def main() -> None:
    command = sys.argv[1:]
    if not command:
        sys.exit(__doc__)
    surroundings = dict(os.environ)
    if is_unknown():
        libraries = [str(compiled()), surroundings.get("LD_PRELOAD", "")]
        surroundings["LD_PRELOAD"] = ":".join(filter(None, libraries))
    for name in ("SIGPIPE", "SIGXFSZ"):  # ignored by Python, and by what it becomes
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    os.execvpe(command[0], command, surroundings)


def is_unknown() -> bool:
    """Tell whether PoCL has no name for this CPU."""
    if sys.platform != "linux":
        return False
    sys.path.insert(0, str(SOURCE.parent.parent))
    with tempfile.TemporaryDirectory() as directory:  # PoCL makes it, whatever it is asked for
        os.environ["POCL_CACHE_DIR"] = directory
        found = versions()
    if not found:
        return False
    from kcl.inspect.doctor import has_no_cpu_name  # as `kcl doctor` tells

    return any(has_no_cpu_name(version) for version in found)


def versions() -> list[str]:
    """Return the version of each OpenCL device, of those platforms that work."""
    found: list[str] = []
    try:
        import pyopencl

        platforms = pyopencl.get_platforms()
    except Exception:  # whatever is wrong there, the command may not need it
        return found
    for one in platforms:
        try:
            found += [device.version for device in one.get_devices()]
        except pyopencl.Error:
            continue
    return found


def compiled() -> pathlib.Path:
    """Return the library, which is made again where its source is newer."""
    library = pathlib.Path(sys.prefix, "lib", "libkcl-pocl-cpu.so")
    if {" ", ":"} & set(str(library)):
        sys.exit(
            f"{WHY}, and LD_PRELOAD takes no {library}: it has a blank or a colon in it.\n{CURES}"
        )
    try:
        if not library.exists() or library.stat().st_mtime < SOURCE.stat().st_mtime:
            made = library.with_suffix(f".{os.getpid()}")
            compiler = shlex.split(os.environ.get("CC", "cc"))
            options = [
                "-shared",
                "-fPIC",
                "-O2",
                "-fno-builtin",
                "-o",
                str(made),
                str(SOURCE),
                "-ldl",
            ]
            subprocess.run([*compiler, *options], check=True)
            made.replace(library)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{WHY}, and {library} cannot be made: {error}\n{CURES}")
    return library


if __name__ == "__main__":
    main()
