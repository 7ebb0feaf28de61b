"""Caches of a driver that has asked for its programs, and users of the helper."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest
from ahead import DRIVER, LAUNCH, NUMBERS, ON_POCL, Ran
from harness import Child
from promote_bench import Bench, User, make_user


@pytest.fixture(scope="session")
def full(tmp_path_factory):
    """The caches of a driver that has asked for all the programs."""
    child = Child(tmp_path_factory.mktemp("ahead"))
    done = child.run(DRIVER + LAUNCH + "    assert kcl.flush()\n", json.dumps(NUMBERS), **ON_POCL)
    assert (done.returncode, done.stderr) == (0, "")
    return child


@pytest.fixture
def run(full, child):
    """Run a driver in a child with a copy of those caches, and return what it printed."""
    shutil.copytree(full.cache, child.cache, symlinks=True)

    def launch(numbers=NUMBERS, code=LAUNCH, **variables):
        return Ran(child.json(DRIVER + code, json.dumps(numbers), **{**ON_POCL, **variables}))

    return launch


@pytest.fixture(scope="session")
def user(tmp_path_factory: pytest.TempPathFactory) -> User:
    """A process that ran before."""
    return make_user(tmp_path_factory)


@pytest.fixture
def bench(user: User, tmp_path: pathlib.Path) -> Bench:
    """A fresh place to work at."""
    return Bench(user, tmp_path)
