"""kcl.drivers.pocl.complete: what is in the entries that a helper publishes, proven on real PoCL."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest
from promote_bench import HEADER, LIMIT_SECONDS, SOURCES, run, snapshot

from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.drivers.pocl import client, poclbin, traces
from kcl.drivers.pocl.complete import is_ready
from kcl.drivers.pocl.jobs import host

# Before a helper: it fails where it searches bitcode among all of the user's.
NO_SEARCH = """
    from kcl.drivers.pocl.files import WorkCache

    def seed(self, user, since):
        raise AssertionError("searched")

    WorkCache.seed = seed
"""


class TestCompleteEntry:
    def test_nothing_is_generated(self, bench):
        """A new process with an empty PoCL cache computes the same, and PoCL makes no new library or bitcode.

        The user's PoCL directory is only read: nothing in it is new, changed or touched.
        """
        before = snapshot(bench.user.pocl)
        bench.completed(0, 1, 2)
        assert snapshot(bench.user.pocl) == before
        said = bench.load(0, 1, 2)
        assert said["results"] == bench.user.results
        assert said["generated"] == []
        published = set()
        for number in range(3):
            container = poclbin.read(bench.entry(number).parts["binary"])
            published |= {container.program + path for path in container.files()}
        assert set(said["files"]) == published

    def test_entry(self, bench):
        """The entry has the job's key, parts and facts, says what is in it, and holds no path and no stub."""
        bench.request(0)
        client.wait(bench.folder, bench.key(0).digest, client.Stall(), 60)
        entry = bench.entry(0)
        assert entry.metadata["complete"] is True
        sizes = {
            name: [size.split("-goffs0")[0] for size in each]
            for name, each in entry.metadata["specialisations"].items()
        }
        assert sizes == {"f": ["32-1-1", "64-1-1"], "g": ["64-1-1"], "h": ["32-1-1"]}
        assert entry.metadata["bytes"] == len(entry.parts["binary"])
        assert entry.parts["source.cl"].decode() == SOURCES[0]
        assert entry.parts["build.log"] == b"said"
        places = {"binaries", "pocl_cache", "address", "environment", "directory", "process"}
        assert not places & entry.metadata.keys()
        assert b"0-0-0" not in entry.parts["binary"]

    def test_unknown_directory(self, bench):
        """Where the user's bitcode names a directory that the job does not, the helper builds it itself."""
        link = bench.root / "link"
        link.symlink_to(bench.user.pocl)
        entry = bench.completed(1, pocl_cache=str(link))
        assert entry.metadata["complete"] is True
        assert not traces.are_left(entry.parts["binary"])
        assert bench.load(1)["results"] == bench.user.results[1:2]

    def test_debug_information(self, bench):
        """What is built with debug information names directories, and is published all the same."""
        options = [*bench.user.options, "-g"]
        said = run(bench.root / "pocl", [(SOURCES[1], [("only", 16)])], options)
        bench.completed(1, pocl_cache=str(bench.root / "pocl"), options=options, **said["facts"])
        assert bench.are_complete(1)
        assert b"0-0-0" not in bench.entry(1).parts["binary"]


class TestIncompleteEntry:
    def test_launched_kernels_count(self, bench):
        """Where a job says which kernels were launched, the others are not waited for."""
        run(bench.root / "pocl", [(SOURCES[0], [("f", 64)])], bench.user.options)
        bench.completed(0, pocl_cache=str(bench.root / "pocl"), launched=["f"])
        assert bench.are_complete(0)

    def test_nothing_launched(self):
        """No code of other kernels is awaited if a job says that nothing was launched, or once its process has ended."""
        job = Entry(Key([("source", "1")]), {"kernels": ["f"], "pocl_cache": "/nowhere"}, {})
        assert not is_ready(job, time.time(), "place")
        assert is_ready(job.with_metadata(launched=[]), time.time(), "place")
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
            job = job.with_metadata(process=process.pid, host=host())
            assert not is_ready(job, time.time(), "place")
            process.communicate(b"\n")
        assert is_ready(job, time.time(), "place")

    def test_pocl_cache_off(self, bench):
        """Without the user's PoCL cache the entry holds bitcode only, and runs."""
        bench.completed(1, pocl_cache=None)
        assert bench.entry(1).metadata["complete"] is False
        assert bench.load(1)["results"] == bench.user.results[1:2]

    def test_completed_later(self, bench):
        """A later job adds the code of another local size, from another PoCL cache, to what is there.

        It searches no bitcode: the entry says where it lies. It still says that a part of it came from a remote.
        """
        entry = bench.completed(1)
        client.dismiss(bench.folder)
        bench.store.put(bench.address(1), entry.with_metadata(signers=["0123"]).pack())
        run(bench.root / "pocl", [(SOURCES[1], [("only", 4)])], bench.user.options)
        bench.queued(1, pocl_cache=str(bench.root / "pocl"))
        bench.work(code=NO_SEARCH)
        assert len(bench.entry(1).metadata["specialisations"]["only"]) == 2
        assert bench.entry(1).metadata["signers"] == ["0123"]
        said = bench.load(1, launches=[("only", 16), ("only", 4)])
        assert said["generated"] == []

    def test_a_complete_entry_is_not_replaced_by_one_that_holds_less(self, bench):
        bench.completed(1)
        before = bench.store.get(bench.address(1))
        bench.completed(1, pocl_cache=None)
        assert bench.store.get(bench.address(1)) == before

    def test_other_directory(self, bench):
        """Where a living process's PoCL has another directory than the job says, its code is not waited for long."""
        (bitcode,) = (path.parent for path in bench.user.pocl.glob("*/*/only"))
        place = bitcode.relative_to(bench.user.pocl).as_posix()
        (bench.root / "there" / place).mkdir(parents=True)
        (bench.root / "there" / place / "program.bc").touch()
        for folder, ready in (("elsewhere", True), ("there", False)):
            job = bench.job(
                1, pocl_cache=str(bench.root / folder), process=os.getpid(), host=host()
            )
            assert is_ready(job, time.time() - 3, place) is ready

    def test_late_code(self, bench):
        """Code that PoCL is still making when the job is written is waited for."""
        pocl = bench.root / "pocl"
        shutil.copytree(bench.user.pocl, pocl)
        (late,) = pocl.glob("*/*/only")
        late.rename(bench.root / "only")
        bench.request(1, pocl_cache=str(pocl))
        client.wait(bench.folder, bench.key(1).digest, client.Stall(), 0.4)
        assert bench.queue.find(bench.key(1).digest) is not None
        (bench.root / "only").rename(late)
        assert client.idle(bench.folder, 60)
        assert bench.are_complete(1)


@pytest.mark.parametrize("size", [0, 7, 700, 4000])
@pytest.mark.slow_cases(4)
def test_damaged_bitcode(bench, size):
    """Damaged bitcode in the user's PoCL cache, refused by PoCL or fatal to a helper, is compiled anew."""
    pocl = bench.root / "pocl"
    shutil.copytree(bench.user.pocl, pocl)
    for bitcode in pocl.glob("*/*/program.bc"):
        bitcode.write_bytes(bitcode.read_bytes()[:size])
    for number in (1, 2):
        bench.queued(number, pocl_cache=str(pocl))
    for _ in range(3):
        bench.helper(stderr=subprocess.DEVNULL).wait(LIMIT_SECONDS)
    assert bench.left() == []
    said = bench.load(1, 2)
    assert said["results"] == bench.user.results[1:]
    assert said["generated"] == []


class TestRefusal:
    def test_changed_header(self, bench):
        """A header that changed since the build would give code that is not its key's: nothing is published or said."""
        header = pathlib.Path(bench.user.options[-1], "part.h")
        header.write_bytes(b"#define PART 6\n")
        try:
            bench.completed(2)
        finally:
            header.write_bytes(HEADER)
        assert bench.entry(2) is None
        assert bench.queue.failures() == []

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda code, away: (code.rename(away), code.symlink_to(away)),
            lambda code, away: (code.rename(away), os.mkfifo(code)),
            lambda code, _away: code.write_bytes(code.read_bytes()[:-100]),
            lambda code, _away: code.chmod(0o666),
        ],
        ids=["link", "fifo", "truncated", "loose"],
    )
    def test_code_of_others(self, bench, spoil):
        """No regular file, a library without its end, and one that others could have written is not taken for code."""
        pocl = bench.root / "pocl"
        shutil.copytree(bench.user.pocl, pocl)
        (code,) = pocl.glob("*/*/only/*/only.so")
        spoil(code, bench.root / "only.so")
        bench.completed(1, pocl_cache=str(pocl))
        assert bench.entry(1).metadata["complete"] is False
