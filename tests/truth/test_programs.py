"""No wrong hit and no needless miss in programs that are made up at random: `make truth` tries 2,000 of them.

Each program is looked up in a process of its own with an empty cache, and in a second one, which must be warm: its
recipe runs, and everything is found. Then one thing of it is changed, reached or not, and it is looked up from a copy
elsewhere in a process that finds that cache. What the recipe returns when it just runs says what is right. A sample is
launched on PoCL, half of it in loopy, where a process without a cache says what is right.
"""

from __future__ import annotations

import collections
import json
import os
import random
import shutil
from collections.abc import Iterator

import pytest
from harness import ROOT, SUPPORT, Child
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truth_programs import CONSTANTS, EVERY, Program, Thing, compose, mutate
from truth_tree import Server

from kcl.drivers.pocl import client

PROGRAMS = int(os.environ.get("KCL_TRUTH_PROGRAMS", "50"))
# A few run in `make test`; the whole number, runs in `make test-slow` and `make truth`.
NUMBERS = [6, pytest.param(PROGRAMS, marks=pytest.mark.slow)]
LAUNCHED = max(2, PROGRAMS // 100)
# imported once, before the processes are forked
MODULES = (
    *(
        "kcl.handle",
        "kcl.generate.run",
        "kcl.generate.frontends.opencl",
        "kcl.cache.stores.sqlite",
    ),
    *("codecs", "concurrent.futures", "configparser", "contextvars", "decimal", "importlib.util", "linecache"),
    *("pathlib", "threading"),
    *("sqlite3", "collections", "contextlib", "dataclasses", "enum", "fractions", "functools", "re", "typing", "zlib"),
)


class Bench:
    """Where programs are written and looked up."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.folder = child.directory / "programs"
        environment = child.environment(PYTHONPATH=os.pathsep.join([str(ROOT), str(SUPPORT)]))
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        self.environment = environment
        self.server = Server(environment, child.directory / "server", MODULES)
        self.counts: collections.Counter[str] = collections.Counter()

    def look(self, program: Program, name: str, how: str = "", cached: bool = True) -> dict:
        """Write a program into a folder and look its recipe up."""
        folder = self.folder / name
        for file, text in program.files().items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        variables = {"XDG_CACHE_HOME": str(self.folder / "cache")} | program.variables()
        if "launch" not in how:
            variables["KCL_PROMOTE"] = "off"
        if not cached:
            variables |= {"KCL_NO_CACHE": "1", "LOOPY_NO_CACHE": "1", "PYOPENCL_NO_CACHE": "1"}
        if program.recipe.front_end == "loopy":
            how += " loopy"
        self.server.start(how, self.environment | variables, folder, "truth_worker")
        code, out, err = self.server.end()
        assert code == 0, f"{err}\n{_listing(program)}"
        assert "launch" not in how or client.idle(str(self.folder / "cache" / "kcl"), 120)
        return json.loads(out.splitlines()[-1])

    def check(self, program: Program, changed: Program, what: str, matters: bool) -> None:
        """Look a program up, then once more, then a changed one, and compare with what is right."""
        shutil.rmtree(self.folder, ignore_errors=True)
        before, again, after = (
            self.look(program, "before"),
            self.look(program, "before", "warm"),
            self.look(changed, "after"),
        )
        said = f"{what}: {after['outcomes']}\n{_listing(program)}\n--- changed\n{_listing(changed)}"
        assert before["text"] == before["right"]
        assert again["right"] == before["right"], f"the program computes something else each time: {said}"
        first, second, outcome = [told["outcomes"][0][1] for told in (before, again, after)]
        assert (after["right"] != before["right"]) == matters, f"the generator is mistaken: {said}"
        self.counts["programs"] += 1
        self.counts["changes that matter" if matters else "changes that do not"] += 1
        self.counts["wrong"] += (after["text"] != after["right"]) + (again["text"] != again["right"])
        self.counts["bypassed"] += "bypass" in (first, second, outcome)
        self.counts["needless"] += not matters and outcome != "hit"
        self.counts["cold at the second run"] += second != "hit"
        assert again["text"] == again["right"], f"a wrong hit in the second run: {said}"
        assert after["text"] == after["right"], f"a wrong hit: {said}"
        assert first == "miss", f"in the first run: {before['outcomes']}\n{said}"
        assert second == "hit", f"in the second run: {again['outcomes']}\n{said}"
        expected = "miss" if matters else "hit"
        assert outcome == expected, f"a needless miss: {said}"
        assert again["ran"] == 1, "how often the recipe ran on a hit"

    def launch(self, program: Program, changed: Program, what: str, matters: bool) -> None:
        """Do that with launches on PoCL; what is right is what a process without a cache computes."""
        shutil.rmtree(self.folder, ignore_errors=True)
        before, again = self.look(program, "before", "launch"), self.look(program, "before", "launch warm")
        after, right = self.look(changed, "after", "launch"), self.look(changed, "right", "launch", cached=False)
        said = f"{what}: {after['outcomes']}\n{_listing(program)}\n--- changed\n{_listing(changed)}"
        self.counts["programs"] += 1
        self.counts["changes that matter" if matters else "changes that do not"] += 1
        self.counts["wrong"] += after["number"] != right["number"]
        assert (before["number"] != right["number"]) == matters, f"the generator is mistaken: {said}"
        assert after["number"] == right["number"], f"a wrong hit: {said}"
        assert again["number"] == before["number"]
        assert not again["loopy"]
        assert {event[1] for event in again["outcomes"]} == {"hit"}, f"not warm: {again['outcomes']}\n{said}"
        expected = "miss" if matters else "hit"
        assert after["outcomes"][0][1] == expected, f"a needless miss: {said}"
        assert again["ran"] == 1


def _listing(program: Program) -> str:
    return "\n".join(f"### {name}\n{text.partition('import numpy as np')[2]}" for name, text in program.files().items())


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(Child(tmp_path_factory.mktemp("programs")))
    yield bench
    bench.server.close()


class TestPrograms:
    @pytest.mark.parametrize("kind", [*CONSTANTS, *EVERY])
    @pytest.mark.slow_cases(16)
    def test_kind(self, kind: str, bench: Bench) -> None:
        """A change of each kind of thing is seen, one module away."""
        bench.check(*_versions(kind), f"number of {kind}", True)

    @pytest.mark.parametrize("most", NUMBERS, ids=["few", "many"])
    def test_programs(self, most: int, bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
        """A changed program hits where its recipe returns the same, and only there."""
        _try(bench, capsys, most)
        assert not bench.counts["bypassed"]

    @pytest.mark.parametrize("front_end", ["opencl", "loopy"])
    def test_launched(self, front_end: str, bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
        """The same on PoCL: the number computed is the right one, and a warm process neither builds nor has loopy."""
        bench.counts.clear()
        for seed in range(LAUNCHED // 2):
            dice = random.Random(seed)
            program = compose(dice, front_end=front_end)
            changed = mutate(dice, program)
            bench.launch(program, changed.program, changed.what, changed.matters)
        with capsys.disabled():
            print(f"\nlaunched programs, {front_end}: {_in_words(bench)}")


def _versions(kind: str) -> list[Program]:
    versions = []
    for number in (11, 12):
        thing, recipe = Thing(0, kind, 1, number), Thing(1, "recipe", 3, 5)
        recipe.references.append((thing, "from"))
        program = Program()
        program.things += [thing, recipe]
        versions.append(program)
    return versions


def _try(bench: Bench, capsys: pytest.CaptureFixture[str], most: int) -> None:
    bench.counts.clear()

    @settings(
        max_examples=most,
        deadline=None,
        database=None,
        derandomize="KCL_TRUTH_PROGRAMS" not in os.environ,
        suppress_health_check=[*HealthCheck],
    )
    @given(st.randoms(use_true_random=False))
    def tried(dice):
        program = compose(dice)
        changed = mutate(dice, program)
        bench.check(program, changed.program, changed.what, changed.matters)

    try:
        tried()
    finally:
        with capsys.disabled():
            print(f"\nmade-up programs: {_in_words(bench)}")
    assert bench.counts["programs"] >= most * 0.9


def _in_words(bench: Bench) -> str:
    names = ("programs", "changes that matter", "changes that do not", "bypassed", "wrong", "needless")
    return ", ".join(f"{bench.counts[name]} {name}" for name in (*names, "cold at the second run"))
