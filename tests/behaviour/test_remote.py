"""A remote: the pack of a driver warms another machine in one get, and whatever ails the remote is a miss."""

import json
import pathlib
import shutil
import subprocess
import sys
import time

import fetching
import pytest
import remotes
from harness import PLATFORMS, Child

from kcl.remote import seal

pytestmark = [pytest.mark.one_platform, pytest.mark.faults, pytest.mark.timeout(300)]
DRIVER = pathlib.Path(fetching.__file__)
PROJECT = "app"
FULL = {"outcomes": ["hit"], "loopy": False, "clients": [], "children": 1, "connections": 0}
QUIET = {"remote": [], "clients": [], "children": 0, "connections": 0}


class Machine:
    """A machine with an empty cache, its settings and its variables."""

    def __init__(self, folder, platform_name, **variables) -> None:
        folder.mkdir(mode=0o700)
        self.child, self.platform = Child(folder), PLATFORMS[platform_name]
        self.variables, self.settings = variables, {}

    def sets(self, **settings):
        self.settings |= settings
        place = self.child.home / ".config" / "kcl"
        place.mkdir(parents=True, exist_ok=True)
        (place / "config.toml").write_text(
            "".join(f"{name} = {json.dumps(it)}\n" for name, it in self.settings.items())
        )
        return self

    def start(self, *command, **variables):
        env = self.child.environment(
            XDG_CONFIG_HOME=str(self.child.home / ".config"),
            **{"KCL_REMOTE_NAME": PROJECT, **self.variables, **variables},
        )
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(
            [sys.executable, *map(str, command)], env=env, cwd=self.child.directory, **pipes
        )

    def run(self, *command, code=0, **variables):
        return ended(self.start(*command, **variables), code)

    def drive(self, factor=1, **variables):
        output, _error = self.run(DRIVER, self.platform, factor, **variables)
        return json.loads(output.splitlines()[-1])


def ended(process, code=0):
    """Wait for the end of a process, which must be as told; return both its outputs."""
    output, error = process.communicate(timeout=250)
    assert process.returncode == code, f"{process.returncode}:\n{output}\n{error}"
    return output, error


WORKERS = """
import multiprocessing, subprocess, sys

def work(words):
    import fetching
    fetching.main(*words[1:])

if __name__ == "__main__":
    method, *words = sys.argv[1:]
    if method == "child":
        import kcl
        from kcl.cache import layers
        from kcl.cache.key import Key, Part
        layers.generator().look_up("0" * 64, Key([Part("a", "b")]))
        raise SystemExit(subprocess.run([sys.executable, *words], cwd="/").returncode)
    import kcl
    with multiprocessing.get_context(method).Pool(1) as pool:
        pool.map(work, [words])
        pool.close()
        pool.join()
"""


def among(seen, wanted):
    return {name: seen[name] for name in wanted}


@pytest.fixture
def machine(tmp_path, platform_name):
    return lambda name, **variables: Machine(tmp_path / name, platform_name, **variables)


_packs: dict[str, bytes] = {}


@pytest.fixture
def pack(machine, tmp_path, platform_name):
    """The pack of the driver, unsigned, with the first half of its name; made once for each platform."""
    name = seal.pack_name(PROJECT, seal.UNSIGNED)
    if platform_name not in _packs:
        address = remotes.directory(tmp_path / "first")
        machine("maker", KCL_REMOTE=address).sets(
            remote_unsigned=[address], remote_write="exit"
        ).drive()
        _packs[platform_name] = (tmp_path / "first" / name).read_bytes()
    return name, _packs[platform_name]


@pytest.fixture
def full(pack, machine, tmp_path, monkeypatch):
    """A server of Redis with the pack, and a fresh machine that reads it."""
    from kcl.remote.stores import store_of

    server = remotes.server("redis", tmp_path)
    for name, text in server.variables.items():
        monkeypatch.setenv(name, text)
    address = server.address()
    store_of(address, 10.0).put(*pack)
    return server, machine("reader", KCL_REMOTE=address).sets(remote_unsigned=[address])


class TestFull:
    def test_one_get(self, full):
        """An empty cache is warmed in one get: all hits, without loopy and the client; an edited kernel asks nobody."""
        server, reader = full
        before = server.asked()
        seen = reader.drive(KCL_STRICT="hit")
        assert among(seen, FULL) == FULL
        seen = reader.drive(KCL_STRICT="hit")
        assert among(seen, QUIET) == QUIET
        seen = reader.drive(factor=2)
        assert (seen["children"], seen["connections"]) == (0, 0)
        assert server.asked() == before + 1

    def test_many_processes(self, full):
        """Four processes at once ask once."""
        server, reader = full
        before = server.asked()
        started = [reader.start(DRIVER, reader.platform, 1, KCL_STRICT="hit") for _ in range(4)]
        for process in started:
            assert '"outcomes": ["hit"]' in ended(process)[0]
        assert server.asked() == before + 1


class TestOff:
    def test_neither_set(self, machine):
        """Without a remote there is no file of it, no import, no child and no connection, cold or warm."""
        one = machine("one")
        for _ in range(2):
            assert among(one.drive(), QUIET) == QUIET
        assert not (one.child.cache / "kcl" / "packs").exists()

    @pytest.mark.slow_cases(2)
    @pytest.mark.parametrize("address", ["redis://127.0.0.1:{}/0", "off"])
    def test_warm(self, machine, address):
        """A warm cache asks nobody, whether the remote lives or not."""
        one = machine("one", KCL_REMOTE=address.format(remotes.free_port()))
        one.drive()
        assert among(one.drive(KCL_STRICT="hit"), QUIET) == QUIET


TESTS = """
import numpy as np
import pyopencl as cl
import kcl
from opened import over_x


@kcl.kernel
def doubled():
    return over_x("doubled", "*= 2")


def test_doubled():
    context = cl.create_some_context(interactive=False)
    x = np.ones(4, np.float32)
    doubled()(cl.CommandQueue(context), x=x)


if __name__ == "__main__":
    test_doubled()
"""


def test_ways_to_start(machine, tmp_path, platform_name):
    """The tests of a project are warm at the first run, however they are started and wherever the clone lies."""
    address = remotes.directory(tmp_path / "remote")
    variables = {"KCL_REMOTE": address, "KCL_REMOTE_NAME": ""}
    variables["PYOPENCL_CTX"] = PLATFORMS[platform_name]

    def clone(number, project="app"):
        one = machine(f"{project}-{number}", **variables).sets(remote_unsigned=[address])
        (one.child.directory / "test_a.py").write_text(TESTS)
        (one.child.directory / "pyproject.toml").write_text(f"[project]\nname = '{project}'\n")
        return one

    first = clone(0)
    first.run("test_a.py")
    assert "app: pushed: " in first.run("-m", "kcl", "push")[0]
    ways = [
        ("-m", "pytest", "-q"),
        ("-m", "pytest", "-q", "-n", "1"),
        ("-c", "import pytest; raise SystemExit(pytest.main(['-q']))"),
    ]
    for number, way in enumerate(ways, 1):
        clone(number).run(*way, KCL_STRICT="hit")
    error = clone(0, "other").run("test_a.py", code=1, KCL_STRICT="hit")[1]
    assert "CacheMiss" in error


class TestPush:
    def test_at_exit(self, machine, tmp_path):
        """A process that made something pushes it as it ends, signed; another machine that trusts the key is warm."""
        remotes.demand("cryptography")
        address = remotes.directory(tmp_path / "remote")
        writer = machine("writer", KCL_REMOTE=address).sets(remote_write=True)
        line, _said = writer.run("-m", "kcl", "key", "new", "team")
        writer.drive()
        name = seal.pack_name(PROJECT, seal.key_of(line))
        end = time.monotonic() + 60
        while not (tmp_path / "remote" / name).exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        reader = machine("reader", KCL_REMOTE=address)
        reader.run("-m", "kcl", "key", "trust", line.strip())
        assert among(reader.drive(KCL_STRICT="hit"), FULL) == FULL

    def test_by_hand(self, machine, tmp_path):
        """A batch job pushes nothing by itself; `kcl push` does it at the end of the job."""
        address = remotes.directory(tmp_path / "remote")
        writer = machine("writer", KCL_REMOTE=address, SLURM_JOB_ID="1")
        writer.sets(remote_unsigned=[address], remote_write=True)
        writer.drive()
        assert not any((tmp_path / "remote").iterdir())
        assert f"{PROJECT}: pushed: " in writer.run("-m", "kcl", "push")[0]
        assert "all of " in self.pushed_warm(writer)
        shutil.rmtree(writer.child.cache)
        assert "pulled: " in writer.run("-m", "kcl", "pull", "--name", PROJECT)[0]
        assert among(writer.drive(KCL_STRICT="hit"), QUIET) == QUIET
        shutil.rmtree(tmp_path / "remote")
        (tmp_path / "remote").mkdir()
        # A server that has lost all is filled by a hit.
        assert "pushed: " in self.pushed_warm(writer)
        shutil.rmtree(writer.child.cache)
        assert among(writer.drive(KCL_STRICT="hit"), FULL) == FULL

    @staticmethod
    def pushed_warm(writer):
        """Return what a push says after a run that only hit."""
        assert among(writer.drive(KCL_STRICT="hit"), QUIET) == QUIET
        return writer.run("-m", "kcl", "push")[0]

    @pytest.mark.parametrize("method", ["fork", "spawn", "child"])
    def test_workers(self, machine, tmp_path, method):
        """What workers of a program used is pushed with it, and a child elsewhere shares its project."""
        address = remotes.directory(tmp_path / "remote")
        writer = machine("writer", KCL_REMOTE=address, KCL_REMOTE_NAME="")
        writer.sets(remote_unsigned=[address])
        (writer.child.directory / "pyproject.toml").write_text("[project]\nname = 'app'\n")
        (writer.child.directory / "workers.py").write_text(WORKERS)
        writer.run("workers.py", method, DRIVER, writer.platform, 1)
        assert "app: pushed: " in writer.run("-m", "kcl", "push")[0]
