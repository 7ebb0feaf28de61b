"""Programs beside Python alone: what each prints, its status and its last error, in each run and after a change.

A program is a text that has the names of beside_driver.py; its `main(queue)` is called if it has one. NAME stands for
its name, THIS for what a change changes, IMPORT for the import of loopy as `lp`. It runs in a process without a cache,
and in each way to use kcl: a first time, a second time, and after the change if there is one. What is bypassed may say
what it says with loopy's own disk caches.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import pathlib
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
import slow
from harness import PLATFORMS, Child

from kcl.drivers.pocl import client

SUPPORT = pathlib.Path(__file__).parent
ALONE = {"KCL_NO_CACHE": "1"}
OFF = {**ALONE, "LOOPY_NO_CACHE": "1"}  # pyopencl and PoCL find their caches empty
CACHED = (
    "alone with loopy's caches"  # which a bypass has too: they may give code of before a change
)
# What stands before the driver, and the import of loopy.
WAYS = {
    "run": (("-m", "kcl", "run"), "import loopy as lp"),
    "install": ((), "import loopy as lp"),
    "face": ((), "import kcl.loopy as lp"),
    "late": ((), "import loopy as lp\nimport kcl\nkcl.install()"),
    "plain": ((), "import loopy as lp"),
}
UNITS = """
IMPORT


def unit(times=2):
    arguments = [lp.GlobalArg("y", np.int32, shape=(8,), is_input=False)]
    return lp.make_kernel("{[i]: 0<=i<8}", f"y[i] = {times}*i", arguments, name="k", lang_version=(2018, 2))


def show(knl):
    event, (y,) = knl.executor(context)(queue)
    print(y.get().tolist())


"""


class Program(NamedTuple):
    """A program, its library in site-packages, and the two texts that THIS stands for, before and after the change.

    `files` are texts by name, below `site/` those of installed packages. Of a `bypass` the event of each run says so,
    with words that are a part of its reason, and the second run finds each program of it in the binary layer; a `warm`
    program finds everything in its second run.
    """

    title: str
    text: str
    library: str = ""
    this: tuple[str, str] = ("3", "5")
    bypass: str = ""
    files: Mapping[str, str] = {}
    early: tuple[str, ...] = ()  # what is imported before kcl
    alone: bool = False  # in processes of its own
    warm: bool = False
    asks_nothing: bool = False  # the second run imports no loopy
    fails: bool = False  # it ends with an error
    platform: str = ""  # the only one that it is for

    def __str__(self) -> str:
        return self.title

    @property
    def name(self) -> str:
        """The name that NAME stands for; no builtin has it, as the program may call that."""
        found = re.sub(r"\W+", "_", self.title.lower()).strip("_")
        return f"own_{found}" if hasattr(builtins, found) else found

    @property
    def is_changed(self) -> bool:
        """True if a change is a part of the program."""
        return any("THIS" in text for text in (self.text, self.library, *self.files.values()))

    def texts(self, edited: bool, importing: str) -> dict[str, str]:
        """Return the texts of all files."""
        call = "\nmain(queue)\n" if re.search(r"def main\(|import main\b", self.text) else ""
        found = {f"{self.name}.py": textwrap.dedent(self.text) + call}
        words = {"NAME": self.name, "THIS": self.this[edited], "IMPORT": importing}
        files = {**found, f"site/{self.name}_lib.py": self.library, **self.files}.items()
        return {self._filled(name, words): self._filled(text, words) for name, text in files}

    @staticmethod
    def _filled(text: str, words: Mapping[str, str]) -> str:
        return re.sub("|".join(words), lambda found: words[found[0]], textwrap.dedent(text))


def programs(name: str, **more: Any) -> list[Program]:
    """Make a program of each function `(run)` of a file, which prints its result; those marked `quiet` come first."""
    text = (SUPPORT / name).read_text()
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and [one.arg for one in node.args.args] == ["run"]:
            quiet = "quiet" in map(ast.unparse, node.decorator_list)
            title, call = node.name.replace("_", " "), f"\n\nprint({node.name}(Run(queue, X)))\n"
            found.append(Program(title, text + call, asks_nothing=quiet, **more))
    return sorted(found, key=lambda one: not one.asks_nothing)


class Said(NamedTuple):
    """What a process said of one program: its output, status, last error, look-ups, and whether loopy was loaded."""

    printed: str
    status: int
    last: str
    looks: list[list[str]]
    loaded: bool

    def is_of(self, *others: Said) -> bool:
        """Return True if each word is that of one of the others: of several launches some may be bypassed."""
        words = [one.printed.split() for one in (self, *others)]
        places = zip(*words, strict=True) if len({*map(len, words)}) == 1 else [("", None)]
        return self.answer() in [one.answer() for one in others] or (
            all(mine in rest for mine, *rest in places)
            and self.answer()[1:] == others[0].answer()[1:]
        )

    def answer(self) -> tuple[str, int, str]:
        """Return what is compared."""
        return self.printed, self.status, self.last

    def missed(self) -> list[list[str]]:
        """List the look-ups that did not hit."""
        return [look for look in self.looks if look[1] != "hit"]


class Group:
    """Programs that share their processes."""

    def __init__(
        self, programs: Sequence[Program], child: Child, platform: str, ways: Sequence[str]
    ) -> None:
        self.programs, self.child, self.platform, self.ways = programs, child, platform, ways
        self.folder = child.directory / "project"
        self.site = child.directory / "site-packages"

    def run(self) -> dict[str, dict[str, Said]]:
        """Run all processes; returns what was said by program and run."""
        is_changed = any(program.is_changed for program in self.programs)
        stages = {"alone first": self._said("")}
        if is_changed:
            stages["alone changed"] = self._said("", True)
        if is_changed and any(program.bypass for program in self.programs):
            self._said(CACHED)
            stages[f"{CACHED} changed"] = self._said(CACHED, True)
        for way in self.ways:
            stages |= {f"{way} {word}": self._said(way) for word in ("first", "second")}
            if is_changed:
                stages[f"{way} changed"] = self._said(way, True)
        return {
            one.title: {stage: said[one.name] for stage, said in stages.items()}
            for one in self.programs
        }

    def _said(self, way: str, edited: bool = False) -> dict[str, Said]:
        by, importing = WAYS.get(way, WAYS["plain"])
        self._write(edited, importing)
        early = [name.replace("NAME", one.name) for one in self.programs for name in one.early]
        job = {"platform": PLATFORMS[self.platform], "site": str(self.site), "early": early}
        job |= {"programs": [one.name for one in self.programs], "installed": way == "install"}
        cache = self.child.directory / f"cache-{way or ('alone changed' if edited else 'alone')}"
        variables = {"XDG_CACHE_HOME": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
        # With code from its cache NVIDIA's driver has no messages.
        variables |= {"CUDA_CACHE_DISABLE": "1", **{CACHED: ALONE, "": OFF}.get(way, {})}
        words = (*by, "driver.py", json.dumps(job))
        finished = self.child.finished(*words, cwd=self.folder, **variables)
        if os.environ.get("KCL_TEST_SHOW"):
            print(way, finished.stderr)
        assert client.idle(str(cache / "kcl"), 120)
        printed = json.loads(finished.stdout.splitlines()[-1])
        return {name: Said(*said) for name, said in printed.items()}

    def _write(self, edited: bool, importing: str) -> None:
        texts: dict[str, str] = {}
        for program in self.programs:
            texts |= program.texts(edited, importing)
        packages = {name.split("/")[1] for name in texts if name.count("/") > 1}
        for package in packages:
            about = f"site/{package}-1.0.dist-info"
            texts[f"{about}/METADATA"] = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
            texts[f"{about}/RECORD"] = "".join(
                f"{name[5:]},,\n" for name in texts if name.startswith(f"site/{package}")
            )
        for name, text in texts.items():
            path = self.site / name[5:] if name.startswith("site/") else self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        shutil.copy(SUPPORT / "beside_driver.py", self.folder / "driver.py")


def differences(program: Program, told: Mapping[str, Said]) -> list[str]:
    """List where a run differs from Python alone, or from what the program says of it."""
    found = []
    bypass = program.bypass.replace("NAME", program.name)
    for stage, said in told.items():
        if stage.startswith(CACHED):  # of the group's bypassed programs
            continue
        first = told["alone first"]
        right = told.get("alone changed", first) if stage.endswith("changed") else first
        old = told.get(f"{CACHED} changed", right) if bypass else right
        if not said.is_of(right, old):
            found.append(f"{stage}: {said.answer()}, Python alone {right.answer()}")
        reasons = [reason for *look, reason in said.looks if look == ["generator", "bypass"]]
        if bypass and not stage.startswith("alone") and not any(bypass in one for one in reasons):
            found.append(f"{stage}: no bypass for {bypass!r}: {said.looks}")
        is_second, missed = stage.endswith("second"), said.missed()
        if bypass and is_second and any(layer == "binary" for layer, *_more in missed):
            found.append(f"{stage}: the program is not found: {said.looks}")
        if program.warm and is_second and (missed or not said.looks):
            found.append(f"{stage}: not warm: {said.looks}")
        is_later = stage.startswith(("run", "install", "face")) and not stage.endswith("first")
        if program.asks_nothing and is_later and said.loaded:
            found.append(f"{stage}: loopy was imported")
    return found


def check(program: Program, told: Mapping[str, Said]) -> None:
    """Compare each run with Python alone; the program itself must be sound."""
    before, after = told["alone first"], told.get("alone changed", told["alone first"])
    assert bool(before.status) == program.fails, f"the program is broken: {before}"
    assert (before.answer() != after.answer()) == program.is_changed, (
        f"the change does not do what it says: {before}, {after}"
    )
    found = differences(program, told)
    assert not found, "\n".join(found)


def compared(every: Sequence[Program], *ways: str) -> Any:
    """Make the test of a module: each program says in each run, by each way to use kcl, what it says without kcl.

    The selected programs share their processes, unless they run alone.
    """
    known: dict[tuple[str, str], dict[str, Said]] = {}

    @pytest.mark.parametrize("program", every, ids=str)
    def test(
        program: Program,
        platform_name: str,
        request: pytest.FixtureRequest,
        tmp_path_factory: pytest.TempPathFactory,
    ) -> None:
        if program.platform not in ("", platform_name):
            pytest.skip(f"for {program.platform} alone")
        if (platform_name, program.title) not in known:
            items = [item for item in slow.together(request.node) if hasattr(item, "callspec")]
            selected = [item.callspec.params.get("program") for item in items]
            shared = [
                one
                for one in every
                if one in selected and not one.alone and one.platform in ("", platform_name)
            ]
            group = [program] if program.alone else shared
            child = Child(tmp_path_factory.mktemp("beside"))
            said = Group(group, child, platform_name, ways).run()
            known.update({(platform_name, title): runs for title, runs in said.items()})
        check(program, known[platform_name, program.title])

    return test
