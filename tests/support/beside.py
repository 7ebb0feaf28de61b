"""Programs beside Python alone: what each prints, its status and the last line of its error, before and after a change.

A program is a text with `main(queue)`, and may have a library, which lies in site-packages as an installed one does. It
runs in processes without a cache, under `kcl run` and after `kcl.install()`: twice, and after the change. NAME stands
for its name. Each run must say what Python alone says.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import slow
from harness import PLATFORMS, Child

SUPPORT = pathlib.Path(__file__).parent
OFF = {"KCL_NO_CACHE": "1", "LOOPY_NO_CACHE": "1", "PYOPENCL_NO_CACHE": "1"}
WAYS = ("run", "install")


class Program(NamedTuple):
    """A program, its library, and the two texts that THIS stands for, before and after the change.

    Of a `bypass` the event of each run says so, with words that are a part of its reason.
    """

    title: str
    text: str
    library: str = ""
    this: tuple[str, str] = ("3", "5")
    bypass: str = ""

    def __str__(self) -> str:
        return self.title

    @property
    def name(self) -> str:
        """The name that NAME stands for."""
        return re.sub(r"\W+", "_", self.title.lower()).strip("_")

    def files(self, edited: bool) -> dict[str, str]:
        """Return the texts of the program and of its library, edited or not."""
        texts = {f"{self.name}.py": self.text, f"{self.name}_lib.py": self.library}
        found = {name: textwrap.dedent(text).replace("NAME", self.name) for name, text in texts.items()}
        return {name: text.replace("THIS", self.this[edited]) for name, text in found.items()}


class Said(NamedTuple):
    """What a process said of one program: what it printed, its status, the last line of its error, its look-ups."""

    printed: str
    status: int
    last: str
    looks: list[list[str]]

    def answer(self) -> tuple[str, int, str]:
        """Return what is compared: of an error its class, since kcl words the errors of calls."""
        return self.printed, self.status, self.last.partition(":")[0]


class Group:
    """Programs that share their processes."""

    def __init__(self, programs: Sequence[Program], child: Child, platform: str) -> None:
        self.programs, self.child, self.platform = programs, child, platform
        self.folder, self.site = child.directory / "project", child.directory / "site-packages"
        self.folder.mkdir()
        self.site.mkdir()
        shutil.copy(SUPPORT / "beside_driver.py", self.folder / "driver.py")

    def run(self) -> dict[str, dict[str, Said]]:
        """Run all processes; returns what was said by program and run."""
        stages = {}
        for edited in (False, True):
            self._write(edited)
            word = "changed" if edited else "first"
            stages[f"plain {word}"] = self._said("plain")
            for way in WAYS:
                stages[f"{way} {word}"] = self._said(way)
                if not edited:
                    stages[f"{way} second"] = self._said(way)
        return {one.title: {stage: said[one.name] for stage, said in stages.items()} for one in self.programs}

    def _write(self, edited: bool) -> None:
        for program in self.programs:
            for name, text in program.files(edited).items():
                ((self.site if name.endswith("_lib.py") else self.folder) / name).write_text(text)

    def _said(self, way: str) -> dict[str, Said]:
        job: dict[str, Any] = {"platform": self.platform, "site": str(self.site), "installed": way == "install"}
        job["programs"] = [program.name for program in self.programs]
        by = ["-m", "kcl", "run"] if way == "run" else []
        variables = {"XDG_CACHE_HOME": str(self.child.directory / f"cache-{way}"), "PYTHONDONTWRITEBYTECODE": "1"}
        variables |= OFF if way == "plain" else {}
        finished = self.child.python(*by, "driver.py", json.dumps(job), cwd=self.folder, **variables)
        assert finished.returncode == 0, f"{way}: {finished.returncode}:\n{finished.stdout}\n{finished.stderr}"
        if os.environ.get("KCL_TEST_SHOW"):
            print(way, finished.stderr)
        return {name: Said(*said) for name, said in json.loads(finished.stdout.splitlines()[-1]).items()}


def differences(program: Program, told: dict[str, Said]) -> list[str]:
    """List where a run differs from Python alone."""
    found = []
    for stage, said in told.items():
        plain = told["plain changed" if stage.endswith("changed") else "plain first"]
        if said.answer() != plain.answer():
            found.append(f"{stage}: {said[:3]}, Python alone {plain[:3]}")
        reasons = [reason for layer, outcome, reason in said.looks if (layer, outcome) == ("generator", "bypass")]
        if program.bypass and not stage.startswith("plain") and not any(program.bypass in one for one in reasons):
            found.append(f"{stage}: no bypass for {program.bypass!r}: {said.looks}")
    return found


def check(program: Program, told: dict[str, Said]) -> None:
    """Compare each run with Python alone; the program itself must be sound."""
    before, after = told["plain first"], told["plain changed"]
    is_changed = any("THIS" in text for text in (program.text, program.library))
    assert (before.answer() != after.answer()) == is_changed, "the change does not do what it says"
    assert not differences(program, told)


def ran(every: Sequence[Program]) -> Any:
    """Make the fixture of a module: what the processes of the selected programs said."""
    known: dict[str, dict[str, Said]] = {}

    @pytest.fixture
    def told(
        request: pytest.FixtureRequest, platform_name: str, tmp_path_factory: pytest.TempPathFactory
    ) -> dict[str, dict[str, Said]]:
        if request.node.callspec.params["program"].title not in known:
            here = [item for item in slow.together(request.node) if hasattr(item, "callspec")]
            selected = {item.callspec.params["program"].title for item in here}
            child = Child(tmp_path_factory.mktemp("beside"))
            programs = [program for program in every if program.title in selected]
            known.update(Group(programs, child, PLATFORMS[platform_name]).run())
        return known

    return told
