"""No wrong hit and no needless miss in programs that are made up at random: `make truth` tries 2,000 of them.

Each program is looked up in a process of its own with an empty cache; then one thing of it is changed, reached or
not, and it is looked up from a copy elsewhere in a process that finds that cache. What the recipe returns when it
just runs says what is right. A sample is launched on PoCL.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truth_programs import CONSTANTS, THINGS, Program, Thing, compose, mutate
from truth_tree import Server

from conftest import Child

TESTS = pathlib.Path(__file__).parent
PROGRAMS = int(os.environ.get("KCL_TRUTH_PROGRAMS", "50"))
LAUNCHED = max(2, PROGRAMS // 100)
# imported once, before the processes are forked
MODULES = (
    *("kcl.handle", "kcl.running", "kcl.frontends.opencl", "kcl.stores.persistentdict", "pytools.persistent_dict"),
    *("sqlite3", "collections", "contextlib", "dataclasses", "enum", "fractions", "functools", "re", "typing", "zlib"),
)


class Bench:
    """Where programs are written and looked up."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.folder = child.directory / "programs"
        environment = child.environment(PYTHONPATH=os.pathsep.join([str(TESTS.parent), str(TESTS)]))
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        self.environment = environment
        self.server = Server(environment, child.directory / "server", MODULES)
        self.counts: collections.Counter[str] = collections.Counter()

    def look(self, program: Program, name: str, launch: bool) -> dict:
        """Write a program into a folder and look its recipe up."""
        folder = self.folder / name
        for file, text in program.files().items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        cache = {"XDG_CACHE_HOME": str(self.folder / "cache"), "KCL_PROMOTE": "off"}
        argument = "1" if launch else "0"
        self.server.start(argument, self.environment | cache, folder, "truth_worker")
        code, out, err = self.server.end()
        assert code == 0, f"{err}\n{_listing(program)}"
        return json.loads(out.splitlines()[-1])

    def check(self, program: Program, changed: Program, what: str, matters: bool, launch: bool = False) -> None:
        """Look a program up, then a changed one, and compare with what is right."""
        shutil.rmtree(self.folder, ignore_errors=True)
        before = self.look(program, "before", launch)
        after = self.look(changed, "after", launch)
        said = f"{what}: {after['outcomes']}\n{_listing(program)}\n--- changed\n{_listing(changed)}"
        assert before["text"] == before["right"]
        unknowable = program.unknowable()
        assert before["outcomes"][0][:2] == ["generator", "bypass" if unknowable else "miss"], before["outcomes"]
        assert (after["right"] != before["right"]) == matters, f"the generator is mistaken: {said}"
        outcome = after["outcomes"][0][1]
        self.counts["programs"] += 1
        self.counts["changes that matter" if matters else "changes that do not"] += 1
        self.counts["wrong"] += after["text"] != after["right"]
        self.counts["bypassed"] += unknowable
        self.counts["needless"] += not matters and outcome != "hit" and not unknowable
        assert after["text"] == after["right"], f"a wrong hit: {said}"
        expected = "bypass" if unknowable else "miss" if matters else "hit"
        assert outcome == expected, f"a needless miss: {said}"
        if launch:
            self.counts["launched"] += 1
            factor = re.search(r"\* (\d+);", after["right"])
            assert factor is not None
            assert after["number"] == float(factor[1])


def _listing(program: Program) -> str:
    return "\n".join(f"### {name}\n{text.partition('import numpy as np')[2]}" for name, text in program.files().items())


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(Child(tmp_path_factory.mktemp("programs")))
    yield bench
    bench.server.close()


class TestPrograms:
    @pytest.mark.parametrize("kind", [*CONSTANTS, *THINGS])
    def test_kind(self, kind: str, bench: Bench) -> None:
        """A change of each kind of thing is seen, one module away."""
        versions = []
        for number in (11, 12):
            thing, recipe = Thing(0, kind, 1, number), Thing(1, "recipe", 3, 5)
            recipe.references.append((thing, "from"))
            program = Program()
            program.things += [thing, recipe]
            versions.append(program)
        bench.check(*versions, f"number of {kind}", True)

    def test_programs(self, bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
        """A changed program hits where its recipe returns the same, and only there."""
        bench.counts.clear()

        @settings(
            max_examples=PROGRAMS,
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
        assert bench.counts["programs"] >= PROGRAMS * 0.9

    def test_launched(self, bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
        """The same on PoCL: the number computed is that of the text."""
        import random

        bench.counts.clear()
        for seed in range(LAUNCHED):
            dice = random.Random(seed)
            program = compose(dice)
            changed = mutate(dice, program)
            bench.check(program, changed.program, changed.what, changed.matters, launch=True)
        with capsys.disabled():
            print(f"\nlaunched programs: {_in_words(bench)}")


def _in_words(bench: Bench) -> str:
    names = ("programs", "changes that matter", "changes that do not", "bypassed", "wrong", "needless")
    return ", ".join(f"{bench.counts[name]} {name}" for name in names)
