"""What the tests of kcl.drivers.pocl share: a process that ran real programs on PoCL, and jobs made of them."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager
from typing import Any, NamedTuple

from kcl.base import settings
from kcl.cache import places
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.locks import close_lock
from kcl.cache.stores import address
from kcl.cache.stores.directory import Directory
from kcl.drivers.pocl import client
from kcl.drivers.pocl.jobs import JobQueue

ROOT = pathlib.Path(__file__).parents[2]
HEADER = b"#define PART 5\n"
SOURCES = (
    """
    __kernel void f(__global float *a, int n) { int i = get_global_id(0); if (i < n) a[i] = 2*a[i] + 1; }
    __kernel void g(__global float *a, int n) {
        __local float s[64]; int l = get_local_id(0), i = get_global_id(0);
        s[l] = a[i]; barrier(CLK_LOCAL_MEM_FENCE); if (i < n) a[i] += s[0]; }
    __kernel void __attribute__((reqd_work_group_size(32, 1, 1))) h(__global float *a, int n) {
        int i = get_global_id(0); if (i < n) a[i] += 7; }
    """,
    "__kernel void only(__global float *a, int n) { int i = get_global_id(0); if (i < n) a[i] -= n; }",
    '#include "part.h"\n__kernel void inc(__global float *a, int n) { a[get_global_id(0)] += PART; }',
)
LAUNCHES = ([("f", 64), ("f", 32), ("g", 64), ("h", 32)], [("only", 16)], [("inc", 8)])
LIMIT_SECONDS = 60.0

RUN = """
    import json, os, sys
    import numpy as np
    import pyopencl as cl

    programs, options = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    (platform,) = [p for p in cl.get_platforms() if p.name == "Portable Computing Language"]
    context = cl.Context(platform.get_devices()[:1])
    device, queue = context.devices[0], cl.CommandQueue(context)
    cache = os.environ["POCL_CACHE_DIR"]

    def code():
        paths = [os.path.join(d, f) for d, _, names in os.walk(cache) for f in names if f.endswith((".so", ".bc"))]
        return {os.path.relpath(p, cache): [os.stat(p).st_ino, os.stat(p).st_mtime_ns] for p in paths}

    def build(text):
        if not text.startswith("binary:"):
            return cl.Program(cl._cl._Program(context, text)).build(options=options)
        with open(text[7:], "rb") as stream:
            return cl.Program(context, [device], [stream.read()]).build(options=options)

    def launch(program, launches):
        a = np.arange(128, dtype=np.float32)
        buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=a)
        for name, size in launches:
            kernel = cl.Kernel(program, name)
            kernel.set_args(buffer, np.int32(100))
            cl.enqueue_nd_range_kernel(queue, kernel, (128,), (size,))
        cl.enqueue_copy(queue, a, buffer)
        return a.tolist()

    built = [build(text) for text, _ in programs]
    before = code()
    results = [launch(program, launches) for program, (_, launches) in zip(built, programs)]
    after = code()
    print(json.dumps({
        "results": results,
        "generated": sorted(path for path in after if after[path] != before.get(path)),
        "files": sorted(after),
        "facts": {
            "platform": {"name": platform.name, "version": platform.version},
            "device": {"name": device.name, "driver": device.driver_version},
            "build_options": cl.Program._process_build_options(context, options)[0].decode(),
        },
    }))
"""


class User(NamedTuple):
    """What a process did that built SOURCES and launched LAUNCHES: its results, facts, options and PoCL cache."""

    results: list[list[float]]
    facts: dict[str, Any]
    options: list[str]
    pocl: pathlib.Path


class Bench:
    """A fresh kcl folder and binary store, and jobs of the user's programs for them."""

    def __init__(self, user, root):
        self.user = user
        self.root = root
        self.folder = str(root / "kcl")
        self.queue = JobQueue(self.folder)
        self.store = Directory(str(root / "binaries"))

    def key(self, number):
        headers = [Part("header part.h", hashlib.sha256(HEADER).hexdigest())] if number == 2 else []
        return Key([Part("program", str(number)), *headers])

    def address(self, number):
        return address(self.key(number).digest, "device", "label")

    def job(self, number, **metadata):
        kernels = list(dict.fromkeys(name for name, _ in LAUNCHES[number]))
        facts = {
            "kernel": kernels[0],
            "kernels": kernels,
            "options": self.user.options,
            "seconds": 0.5,
            "environment": client.driver_variables(settings.environment()),
        }
        places = {"binaries": self.store.location, "pocl_cache": str(self.user.pocl)}
        parts = {"source.cl": SOURCES[number].encode(), "build.log": b"said"}
        return Entry(self.key(number), {**facts, **places, **self.user.facts, **metadata}, parts)

    def request(self, *numbers, **metadata):
        """Ask as a process would, and start a helper."""
        for number in numbers:
            self.queued(number, **metadata)
            client.start(self.folder)

    def completed(self, *numbers, **metadata):
        """Have a helper complete entries; return the last of them."""
        self.request(*numbers, **metadata)
        assert client.idle(self.folder, LIMIT_SECONDS)
        return self.entry(numbers[-1])

    def queued(self, *numbers, **metadata):
        """Write jobs."""
        for number in numbers:
            client.request(self.folder, self.address(number), self.job(number, **metadata))

    def are_complete(self, *numbers):
        """Return True if these entries are there, and complete."""
        return all(self.entry(number).metadata["complete"] for number in numbers)

    @contextmanager
    def locked(self):
        """Be the helper that is alive."""
        os.makedirs(self.queue.folder, 0o700, exist_ok=True)
        held = self.queue.lock()
        assert held is not None
        try:
            yield
        finally:
            close_lock(held)

    def helper(self, **options):
        """Start a helper as a child of this process, after some `code`; it is less patient than others."""
        before = textwrap.dedent(options.pop("code", ""))
        environment = {
            **settings.environment(),
            "PYTHONPATH": str(ROOT),
            **options.pop("variables", {}),
        }
        code = "import sys, kcl.drivers.pocl.helper as helper\nhelper.IDLE_SECONDS = 0.1\n"
        command = [
            sys.executable,
            "-c",
            f"{code}{before}\nhelper.main(sys.argv[1:])",
            self.folder,
            *options.pop("arguments", ()),
        ]
        return subprocess.Popen(command, env=environment, cwd=self.root, **options)

    def work(self, **options):
        """Let a helper live from beginning to end."""
        assert self.helper(**options).wait(LIMIT_SECONDS) == 0

    def entry(self, number):
        blob = self.store.get(self.address(number))
        return None if blob is None else Entry.unpack(blob, self.key(number))

    def load(self, *numbers, launches=None):
        """Run published binaries in a new process with an empty PoCL cache."""
        path = self.root / f"load{len(os.listdir(self.root))}"
        path.mkdir(mode=0o700)
        programs = []
        for number in numbers:
            entry = self.entry(number)
            assert entry is not None
            (path / f"{number}.bin").write_bytes(entry.parts["binary"])
            programs.append((f"binary:{path / str(number)}.bin", launches or LAUNCHES[number]))
        return run(path / "pocl", programs, self.user.options)

    def left(self):
        """Name what is in the pending folder beside the lock."""
        found = pathlib.Path(self.queue.folder).rglob("*")
        return [str(path) for path in found if path.suffix != ".lock"]


def run(pocl, programs, options):
    """Build, launch and report in a new process with the PoCL cache `pocl`."""
    said = python(RUN, json.dumps(programs), json.dumps(options), POCL_CACHE_DIR=str(pocl))
    assert isinstance(said, dict)
    return said


def python(code, *arguments, **variables):
    """Run code in a new process; return what its last line says in JSON."""
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    environment = {**settings.environment(), "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(
        command, env=environment, text=True, capture_output=True, timeout=5 * LIMIT_SECONDS
    )
    assert done.returncode == 0, (
        f"the process ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    )
    return json.loads(done.stdout.splitlines()[-1])


def until(condition, what):
    """Wait for a condition, within bounds."""
    end = time.monotonic() + LIMIT_SECONDS
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.002)


def snapshot(root):
    """Return inode and modification time of everything in a directory."""
    return {
        str(path): (path.lstat().st_ino, path.lstat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
    }


def make_user(root):
    """Let a process build and launch every program, in a PoCL cache of its own below a folder."""
    (root / "part.h").write_bytes(HEADER)
    options = ["-cl-std=CL1.2", "-I", str(root)]
    said = run(root / "pocl", list(zip(SOURCES, LAUNCHES, strict=True)), options)
    return User(said["results"], said["facts"], options, root / "pocl")


def works(bench):
    """Name the private directories of helpers."""
    names = os.listdir(bench.queue.folder) if os.path.isdir(bench.queue.folder) else []
    return [name for name in names if name.startswith(places.HELPER_WORK)]


def begun(bench):
    """Return True if the worker of a helper has built something in its private directory."""
    return any(
        item.is_dir()
        for name in works(bench)
        for item in (pathlib.Path(bench.queue.folder) / name).iterdir()
    )
