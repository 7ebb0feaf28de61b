"""What tests and fixtures share: places, OpenCL platforms, child processes, and the directories of the session.

The root conftest.py imports this module, as tests do. Tests do not import conftest.py itself: pytest forgets it as soon
as it meets another conftest.py, and a second copy would move the session to other directories.
"""

import contextlib
import fcntl
import functools
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"
SCRUBBED = (
    *("KCL_CACHE_DIR", "KCL_MAX_SIZE", "KCL_NO_CACHE", "KCL_PROGRESS", "KCL_PROMOTE"),
    *("KCL_REMOTE", "KCL_REMOTE_NAME", "_KCL_FOLDER", "KCL_REPORT", "KCL_RUN", "KCL_STRICT"),
    "KCL_TRACE",
    *("COLUMNS", "LINES"),  # pytest-xdist sets them in its workers
    *("LOOPY_NO_CACHE", "CG_NO_CACHE", "PYOPENCL_NO_CACHE", "POCL_KERNEL_CACHE", "POCL_CACHE_DIR"),
    *("CUDA_CACHE_DISABLE", "CUDA_CACHE_PATH", "CUDA_CACHE_MAXSIZE"),
    *("PYOPENCL_BUILD_OPTIONS", "PYOPENCL_CTX", "PYOPENCL_TEST", "PYOPENCL_COMPILER_OUTPUT"),
    *("_LOOPY_SKIP_ARG_CHECKS", "POCL_EXTRA_BUILD_FLAGS", "POCL_WORK_GROUP_METHOD"),
    *("POCL_WORK_GROUP_SPECIALIZATION", "CL_CONFIG_CPU_TARGET_ARCH"),
)
PLATFORMS = {
    "pocl": "Portable Computing Language",
    "intel": "Intel(R) OpenCL",
    "nvidia": "NVIDIA CUDA",
}

# `fault`: every test sees KCL_STRICT=fault, unless it has the mark `faults` or sets the variable itself.
STRICT = os.environ.get("KCL_TEST_STRICT", "")

# PoCL and loopy take their directories once a process, at the first query and at import: one for the whole session.
SESSION = tempfile.TemporaryDirectory(prefix="kcl-tests-")
for _name in SCRUBBED:
    os.environ.pop(_name, None)
os.environ["XDG_CACHE_HOME"] = os.path.join(SESSION.name, "cache")
os.environ["HOME"] = os.path.join(SESSION.name, "home")
os.makedirs(os.environ["HOME"], mode=0o700)


@functools.cache
def platforms() -> list[str]:
    """Name the OpenCL platforms to test on: the known ones that are present, and those demanded by name."""
    import pyopencl as cl

    present = {platform.name for platform in cl.get_platforms() if platform.get_devices()}
    demanded = [name for name in os.environ.get("KCL_TEST_PLATFORMS", "pocl").split(",") if name]
    missing = [name for name in demanded if PLATFORMS[name] not in present]
    if missing:
        raise pytest.UsageError(
            f"OpenCL platforms are missing: {', '.join(missing)}; found: {sorted(present)}"
        )
    return [name for name in PLATFORMS if PLATFORMS[name] in present]


def once(
    factory: pytest.TempPathFactory, name: str, make: Callable[..., Any], *arguments: Any
) -> Any:
    """Return what `make(folder, ...)` returns; one of the workers of a session makes it for all, who only read it."""
    place = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent
    made = place / f"{name}.pickle"
    with open(place / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            folder = place / name
            folder.mkdir(mode=0o700)
            made.write_bytes(pickle.dumps(make(folder, *arguments)))
    return pickle.loads(made.read_bytes())


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a process that runs some code in this environment, with kcl on its path and pipes at both ends."""
    paths = [str(ROOT), str(SUPPORT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], env=environment, **pipes)


def run_command(command: Iterable[object], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command and return the finished process, whatever its end, with output and errors as text."""
    bounded = {"timeout": 300, **options}
    return subprocess.run([*map(str, command)], text=True, capture_output=True, **bounded)


@contextlib.contextmanager
def mounted(folder: pathlib.Path, options: str) -> Iterator[None]:
    """Mount a small file system; skip the test where that is not allowed."""
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


class Child:
    """Runs Python in child processes that share one cache directory; a signal is an outcome, not the end."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.cache = directory / "cache"
        self.home = directory / "home"
        self.home.mkdir(mode=0o700)

    def environment(self, **variables: str) -> dict[str, str]:
        """Return the environment of a child: scrubbed, with a home of its own, and `variables`.

        Where a program does not name its platform that is Intel's, where it is there: it compiles in a tenth of the time.
        """
        kept = {name: value for name, value in os.environ.items() if name not in SCRUBBED}
        paths = [*map(str, (self.directory, ROOT, SUPPORT)), kept.get("PYTHONPATH", "")]
        if STRICT and "KCL_STRICT" in os.environ:
            kept["KCL_STRICT"] = os.environ["KCL_STRICT"]
        kept |= {"HOME": str(self.home), "XDG_CACHE_HOME": str(self.cache)}
        kept["PYOPENCL_CTX"] = PLATFORMS[platforms()[-1]]
        return kept | {"PYTHONPATH": os.pathsep.join(filter(None, paths))} | variables

    def run(self, code: str, *arguments: str, options: tuple[str, ...] = (), **variables: str):
        """Run `code` and return the finished process, whatever its end."""
        return self.python(*options, "-c", textwrap.dedent(code), *arguments, **variables)

    def json(self, code: str, *arguments: str, options: tuple[str, ...] = (), **variables: str):
        """Run `code` and return the JSON that it prints in its last line; the child must end well."""
        return self.script(*options, "-c", textwrap.dedent(code), *arguments, **variables)

    def script(self, *words: object, **options: Any):
        """Run Python as `python` does and return the JSON that it prints in its last line; the child must end well."""
        return json.loads(self.finished(*words, **options).stdout.splitlines()[-1])

    def output(self, *words: object, **options: Any) -> str:
        """Run Python as `python` does and return what it prints; the child must end well."""
        return self.finished(*words, **options).stdout

    def python(
        self,
        *words: object,
        cwd: pathlib.Path | str | None = None,
        stdin: str | None = None,
        timeout: float = 300,
        **variables: str,
    ):
        """Run Python with these words on its command line and return the finished process, whatever its end."""
        command, environment = [sys.executable, *map(str, words)], self.environment(**variables)
        streams = {"text": True, "capture_output": True, "input": stdin}
        return subprocess.run(
            command, env=environment, cwd=cwd or self.directory, timeout=timeout, **streams
        )

    def finished(self, *words: object, status: int = 0, **options: Any):
        """Run Python as `python` does and return the finished process, which must end with this status."""
        done = self.python(*words, **options)
        assert done.returncode == status, (
            f"the child ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        )
        return done
