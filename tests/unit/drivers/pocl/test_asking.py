"""kcl.drivers.pocl.asking: jobs for PoCL's helper, the wait for an entry, and code that entries lack."""

import os
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from kcl import foreign
from kcl.cache import layers, places
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.drivers.pocl import Pocl, _state, poclbin
from kcl.drivers.pocl.jobs import JobQueue

SLOT = SimpleNamespace(options=SimpleNamespace(text="-DA=1"), key=Key([("a", "1")]))
SIZES = """
    import json, sys
    import numpy as np
    import pyopencl as cl
    import kcl

    @kcl.kernel
    def twice():
        text = "__kernel void twice(__global float *x, int n, int w) { x[get_global_id(0)] *= 2; }"
        arguments = [kcl.Array("x", np.float32, "n", "inout"), *(kcl.Scalar(name, np.int32) for name in "nw")]
        return kcl.Source(text, entry="twice", arguments=arguments, global_size="n", local_size="w")

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    for size in map(int, sys.argv[1].split(",")):
        event, (x,) = twice()(queue, x=np.ones(64, np.float32), w=np.int32(size))
        assert (x == 2).all()
"""
KILL = """
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
"""
FLUSH = """
    shown = []
    done = kcl.flush(progress=lambda done, total: shown.append([done, total]))
    print(json.dumps([done, shown[-1], kcl.flush()]))
"""
UNCHANGED = """
    import sys
    import pyopencl as cl

    context = cl.create_some_context(interactive=False)
    cl.Program(context, f"kernel void filled(global int *x) {{ x[0] = {sys.argv[1]}; }}").build()
"""
ON_POCL = {"PYOPENCL_CTX": "portable"}


def helper_use():
    """Return the use of a helper of this process."""
    return _state().helper


def test_described(monkeypatch):
    """The helper is told the store, the options and the folder of PoCL's own cache, or that this is off."""
    described = Pocl().described(SLOT)
    assert described["binaries"] == layers.binary().place
    assert described["build_options"] == "-DA=1"
    assert described["pocl_cache"] == os.path.abspath(foreign.directory_in_use("pocl"))
    monkeypatch.setenv("POCL_KERNEL_CACHE", "0")
    assert Pocl().described(SLOT)["pocl_cache"] is None


class TestAwaited:
    """The helper that is alive in these tests is this process: it never does its work."""

    @pytest.fixture
    def awaited(self, bench, monkeypatch):
        """Write the job of a program, and return whether a process waited until its entry came."""
        monkeypatch.setattr("kcl.base.settings.folder", lambda _name: bench.folder)
        helper_use().__init__()

        def awaited(number, writer=None, **metadata):
            with monkeypatch.context() as patch:
                if writer:
                    patch.setattr(os, "getpid", lambda: writer)
                bench.queued(number, **metadata)
            slot = SimpleNamespace(key=bench.key(number), address=bench.address(number))
            return Pocl().awaited(slot)

        with bench.locked():
            yield awaited
        helper_use().__init__()

    def test_no_progress(self, awaited, bench):
        """A run waits for two seconds for a helper that shows no progress, and again only after it shows some."""
        assert awaited(0, seconds=60) is False
        assert helper_use().stall.seconds >= 2
        worth = helper_use().worth
        assert awaited(1, seconds=60) is False
        assert helper_use().worth == worth + 120
        bench.queue.note_progress()
        assert awaited(2, seconds=60) is False
        assert helper_use().worth < worth + 240

    def test_as_long_as_the_builds(self, awaited):
        """A run waits no longer than the builds of what is missing take, with their first launches."""
        for number in (0, 1):
            assert awaited(number, seconds=0.2) is False
            assert helper_use().worth <= 0
        assert helper_use().stall.seconds < 2

    def test_in_pocls_cache(self, awaited, bench, monkeypatch):
        """A program that PoCL's own cache here has is built at once: nothing is waited for."""
        monkeypatch.setenv("POCL_CACHE_DIR", str(bench.user.pocl))
        assert awaited(0, seconds=60) is False
        assert helper_use().stall.seconds == helper_use().worth == 0
        monkeypatch.setenv("POCL_KERNEL_CACHE", "0")
        assert awaited(0, seconds=0.2) is False
        assert helper_use().stall.seconds > 0

    def test_writer_runs(self, awaited, bench, monkeypatch):
        """PoCL may compile the code of a launch as long as the process runs that built the program: others wait."""
        monkeypatch.setenv("POCL_CACHE_DIR", str(bench.user.pocl))
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as writer:
            assert awaited(0, writer.pid, seconds=0.1) is False
            assert helper_use().stall.seconds > 0
            # Each wait would be in vain where the helper is slow.
            helper_use().stall.seconds = 0.0
            assert awaited(1, writer.pid, seconds=60) is False
            assert helper_use().stall.seconds == 0
            helper_use().__init__()
            writer.communicate(b"\n")
        assert awaited(0, writer.pid, seconds=0.1) is False
        assert helper_use().stall.seconds == 0


def test_a_helper_was_faster(bench, monkeypatch):
    """While a helper lives, an entry without a job is looked for again: it may have come since the first look."""
    monkeypatch.setattr("kcl.base.settings.folder", lambda _name: bench.folder)
    slot = SimpleNamespace(key=bench.key(0), address=bench.address(0))
    assert Pocl().awaited(slot) is False
    with bench.locked():
        assert Pocl().awaited(slot) is True


def entries(project):
    """Return the addresses of the binary entries."""
    return sorted(project.binaries.scan())


RUN = ("-m", "kcl", "run")


class TestWhen:
    def test_exit(self, pocl):
        """Under `KCL_PROMOTE=exit` all entries are completed after the process."""
        pocl.run("pair", KCL_PROMOTE="exit")
        pocl.finish()
        assert len(entries(pocl)) == 2

    def test_launcher(self, pocl):
        """Under an MPI launcher entries are completed too: the second run hits in every layer."""
        for warm in (False, True):
            pocl.run("pair", warm=warm, PMI_SIZE="1")

    def test_off(self, pocl):
        """Under `KCL_PROMOTE=off` jobs are written, and no helper is started; a later run has them done."""
        pocl.run("pair", KCL_PROMOTE="off")
        queue = JobQueue(str(pocl.child.cache / "kcl"))
        assert (len(queue.jobs()), queue.has_helper(), entries(pocl)) == (2, False, [])
        pocl.run("pair", warm=True, KCL_STRICT="hit")

    @pytest.mark.parametrize(
        ("code", "options"), [(SIZES, ()), (UNCHANGED, RUN)], ids=["seen", "unseen"]
    )
    def test_killed(self, pocl, code, options):
        """A killed process leaves its jobs, also of launches that kcl does not see; the next run has them done and hits."""
        killed = pocl.child.run(code + KILL, "16", options=options, KCL_PROMOTE="exit", **ON_POCL)
        assert killed.returncode == -signal.SIGKILL
        assert entries(pocl) == []
        again = pocl.child.run(code, "16", options=options, KCL_STRICT="hit", **ON_POCL)
        assert again.returncode == 0, again.stderr

    def test_flush(self, pocl):
        """`kcl.flush` completes what was launched though nothing is completed by itself, and says how far it is."""
        code = SIZES + FLUSH
        assert pocl.child.json(code, "16", KCL_PROMOTE="off", **ON_POCL) == [True, [1, 1], True]
        assert len(entries(pocl)) == 1

    def test_flush_on_a_terminal(self, pocl):
        """Where progress is shown and nobody takes it, a line says how far it is."""
        head = "    from kcl.cache import progress\n    progress.AFTER = 0\n"
        code = f"{head}{SIZES}    assert kcl.flush()\n"
        done = pocl.child.run(code, "16", KCL_PROMOTE="off", KCL_PROGRESS="1", **ON_POCL)
        assert "kcl: completing entries: 1 of 1" in done.stderr.splitlines()

    def test_failure_is_said(self, pocl):
        """Where the helper cannot complete an entry, `kcl flush` and `kcl status` say why, until it can."""
        child = pocl.child
        assert child.run(SIZES, "16", KCL_PROMOTE="off", **ON_POCL).returncode == 0
        queue = JobQueue(str(child.cache / "kcl"))
        (job,) = queue.jobs()
        device = queue.read(job).metadata["address"].partition("/")[0]
        folder = child.cache / "pyopencl" / places.BINARIES / device
        folder.parent.mkdir(0o700, parents=True, exist_ok=True)
        folder.write_text("a file in the place of the device's folder")
        for command in ("flush", "status"):
            said = " ".join(child.python("-m", "kcl", command).stdout.split())
            assert "1 program could not be completed: twice: UnusableDirectory: " in said
            assert "is not a directory; remove it" in said
        folder.unlink()
        assert child.run(SIZES, "16", KCL_PROMOTE="background", **ON_POCL).returncode == 0
        assert child.python("-m", "kcl", "flush").stdout == "every entry is complete\n"


# A program that writes its header anew, of one size and with one time, before each build.
REWRITTEN = """
    import os, sys
    import numpy as np
    import pyopencl as cl

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    for value in "123":
        with open("v.h", "w") as stream:
            stream.write(f"#define V {value}\\n")
        os.utime("v.h", (1, 1))
        source = '#include "v.h"\\nkernel void f(global int *x) { x[get_global_id(0)] = V; }'
        program = cl.Program(context, source).build(["-I", os.getcwd()])
        x = np.zeros(8, np.int32)
        buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, x.nbytes)
        program.f(queue, x.shape, (4,), buffer)
        cl.enqueue_copy(queue, x, buffer)
        assert (x == int(value)).all()
"""


def test_header_rewritten(pocl):
    """A program that writes a header before each build hits from its second run on; its jobs need no helper."""
    for options in (RUN, (*RUN, "--strict", "hit")):
        done = pocl.child.run(REWRITTEN, options=options, **ON_POCL, KCL_PROMOTE="off")
        assert done.returncode == 0, done.stderr
    assert JobQueue(str(pocl.child.cache / "kcl")).jobs() == []
    found = [Entry.unpack(pocl.binaries.get(address)) for address in entries(pocl)]
    assert len(found) == 3
    assert not any(str(pocl.child.cache) in repr(one.metadata) for one in found)


# Two programs in each of three contexts.
CONTEXTS = """
    import json
    import pyopencl as cl
    import kcl

    kcl.install()
    reasons, (device,) = [], cl.create_some_context(interactive=False).devices
    kcl.add_hook(lambda event: reasons.append((event.kernel, event.reason)))
    for _ in range(3):
        context = cl.Context([device])
        for name in "fg":
            cl.Program(context, f"kernel void {name}(global int *x) {{ x[0] = 1; }}").build()
    print(json.dumps([reasons, [str(miss) for miss in kcl.explain()]]))
"""


def test_contexts(pocl):
    """A program that a process builds for each of its contexts is new once, and then being completed."""
    reasons, said = pocl.child.json(CONTEXTS, **ON_POCL, KCL_PROMOTE="off")
    words = "being completed: this process has built it before"
    assert reasons == [
        [name, "not in the cache" if number == 0 else words] for number in range(3) for name in "fg"
    ]
    assert [one.partition("\n")[2].strip() for one in said] == ["first time seen"] * 2 + [words] * 2


def libraries(folder):
    """Return the code that lies in a PoCL cache, by its path below the program's folder."""
    return {
        "/" + str(path.relative_to(folder).as_posix()).split("/", 2)[2]: path.read_bytes()
        for path in folder.rglob("*.so")
    }


THRICE = """
    @kcl.kernel
    def thrice():
        arguments = [kcl.Array("x", np.float32, "(64,)", "inout")]
        return twice.__wrapped__().kernel("thrice", arguments=arguments, global_size=(8, 8), local_size=(4, 2))

    if size == 32:
        thrice()(queue, x=x)
"""


class TestPartialHits:
    def test_new_size(self, pocl):
        """Code of a local size that the entry lacks is reported and added; then PoCL generates no code for either."""
        child = pocl.child
        child.json(SIZES + "\n    print(1)", "16", **ON_POCL)
        pocl.finish()
        partial = child.run(SIZES, "32", KCL_REPORT="1", **ON_POCL)
        said = "partial hit: PoCL compiled code of twice that the entries lack; a helper adds it: "
        assert f"{said}`python -m kcl wait` waits for that" in " ".join(partial.stderr.split())
        pocl.finish()
        _address, entry = pocl.binary_of("twice")
        held = poclbin.read(entry.parts["binary"]).code()
        assert len(held) == 2
        shutil.rmtree(child.cache / "pocl")
        both = child.run(SIZES, "16,32", KCL_REPORT="1", KCL_STRICT="hit", **ON_POCL)
        assert both.returncode == 0, both.stderr
        assert "partial" not in both.stderr
        assert libraries(child.cache / "pocl" / "kcache") == held

    def test_other_kernel(self, pocl):
        """The kernel that was launched is named, not the one that the text was first built for."""
        thrice = "; } __kernel void thrice(__global float *x) { x[get_global_id(0)] *= 3; }"
        code = SIZES.replace("; }", thrice) + THRICE
        assert pocl.child.run(code, "16", **ON_POCL).returncode == 0
        pocl.finish()
        partial = pocl.child.run(code, "16,32", KCL_REPORT="1", **ON_POCL)
        assert partial.returncode == 0, partial.stderr
        said = "PoCL compiled code of thrice, twice that the entries lack"
        assert said in " ".join(partial.stderr.split())


def test_explained(pocl):
    """A miss is explained at exit with the text of a program that is handed to a helper then."""
    for number in "12":
        run = pocl.child.run(UNCHANGED, number, options=(*RUN, "--explain"), **ON_POCL)
        assert run.returncode == 0, run.stderr
    assert run.stderr.splitlines()[1:] == [
        "  OpenCL C changed",
        "    -kernel void filled(global int *x) { x[0] = 1; }",
        "    +kernel void filled(global int *x) { x[0] = 2; }",
    ]
