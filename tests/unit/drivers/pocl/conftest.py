"""Caches of a driver that has asked for its programs, and users of the helper."""

import json
import shutil

import pytest
from harness import Child, once
from many_programs import DRIVER, NUMBERS, ON_POCL
from promote_bench import Bench, make_user


@pytest.fixture(scope="session")
def full(tmp_path_factory):
    """The caches of a driver that has asked for all the programs."""
    return once(tmp_path_factory, "full", _full)


def _full(folder):
    child = Child(folder)
    done = child.run(DRIVER + "    assert kcl.flush()\n", json.dumps(NUMBERS), **ON_POCL)
    assert (done.returncode, done.stderr) == (0, "")
    return child


@pytest.fixture
def run(full, child):
    """Run the driver in a child with a copy of those caches, and return the process."""
    shutil.copytree(full.cache, child.cache, symlinks=True)
    return lambda: child.run(DRIVER, json.dumps(NUMBERS), **ON_POCL)


@pytest.fixture(scope="session")
def user(tmp_path_factory):
    """A process that ran before."""
    return make_user(tmp_path_factory.mktemp("user"))


@pytest.fixture
def bench(user, tmp_path):
    """A fresh place to work at."""
    return Bench(user, tmp_path)


@pytest.fixture
def pocl(project, platform_name):
    """A project on PoCL; other drivers give out their binaries at once."""
    if platform_name != "pocl":
        pytest.skip("only PoCL's entries are completed by a helper")
    return project
