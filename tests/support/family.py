"""Cases of a family, run in processes: cold, again, and after a change beside a process without a cache.

A case is a small program whose number depends on something that cannot be seen in the code of its recipe. The number
must be that of a process without a cache whatever changes, and a process for which nothing changed must be warm.

In the texts of a case NAME stands for the case's own name, and `return KERNEL(number)` for a kernel that multiplies by
the number, written in one of three forms: OpenCL C, loopy that the recipe imports, loopy that its module imports at
its head. HEAD stands before every text with such a line. The main text may define `drive(launch)`, which returns the
numbers of some launches; else its recipe NAME is launched once.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import textwrap
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pytest
import slow
from harness import PLATFORMS, Child

from kcl.drivers.pocl import client

SUPPORT = pathlib.Path(__file__).parent
ROOT = SUPPORT.parents[1]
LONG_AGO = 10**9  # the time of every file before the change

SOURCE, LOOPY, LOOPY_AT_HEAD = "OpenCL C", "loopy", "loopy at the head"
HEAD = """\
import functools
import importlib
import os
import pathlib
import sys
import threading

import numpy as np

import kcl
"""
HEADS = {
    SOURCE: '''
SOURCE = """
kernel void NAME(global const float *x, global float *y, int n)
{
    y[get_global_id(0)] = NUMBER * x[get_global_id(0)];
}
"""
ARGUMENTS = [kcl.Array("x", np.float32, "(n,)"), kcl.Array("y", np.float32, "(n,)", "out"), kcl.Scalar("n", np.int32)]
''',
    LOOPY: "",
    LOOPY_AT_HEAD: "import loopy as lp\n",
}
_LOOPY_TAIL = """
times = EXPRESSION
knl = lp.make_kernel(
    "{[i]: 0<=i<n}",
    f"y[i] = {times}*x[i]",
    [lp.GlobalArg("x,y", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    name="NAME",
    lang_version=(2018, 2),
)
return lp.split_iname(lp.assume(knl, "n mod 4 = 0"), "i", 4, inner_tag="unr")
"""
TAILS = {
    SOURCE: """
times = EXPRESSION
text = SOURCE.replace("NUMBER", str(times))
return kcl.Source(text, entry="NAME", arguments=ARGUMENTS, global_size="(n,)")
""",
    LOOPY: "import loopy as lp\n" + _LOOPY_TAIL,
    LOOPY_AT_HEAD: _LOOPY_TAIL,
}
DRIVE = "\n\ndef drive(launch):\n    return launch(NAME())\n"

# by name; texts, bytes, or the members of an archive
Files = Mapping[str, "str | bytes | Mapping[str, str]"]


class Change:
    """What is done between two runs."""

    variables: Mapping[str, str] = {}

    def apply(self, case: Case, place: Place) -> None:
        """Change files."""


class Place(NamedTuple):
    """Where a case lies: its own folder, and the directory that packages are installed into."""

    folder: pathlib.Path
    site: pathlib.Path


class Edit(Change):
    """Replace a text that occurs once in a file; the main text where none is named."""

    def __init__(self, before: str, after: str, file: str = "NAME.py") -> None:
        self.before, self.after, self.file = before, after, file

    def apply(self, case, place):
        path = place.folder / case.named(self.file)
        text, before = path.read_text(), case.named(self.before)
        assert text.count(before) == 1, f"{before!r} occurs {text.count(before)} times in {path.name}"
        path.write_text(text.replace(before, case.named(self.after)))


class Write(Change):
    """Write files, new or not."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def apply(self, case, place):
        case.write(place.folder, self.files)


class Link(Change):
    """Let a symbolic link point elsewhere."""

    def __init__(self, file: str, target: str) -> None:
        self.file, self.target = file, target

    def apply(self, case, place):
        path = place.folder / case.named(self.file)
        path.unlink()
        path.symlink_to(case.named(self.target))


class Variables(Change):
    """Run with other environment variables."""

    def __init__(self, **variables: str) -> None:
        self.variables = variables


class Installed(NamedTuple):
    """A distribution as pip leaves it: an editable one lies in the case's own folder, in `source`."""

    files: Mapping[str, str]
    name: str = "NAME_dist"
    version: str = "1.0"
    requires: str = ""
    editable: str = ""
    entry_points: str = ""

    def install(self, case: Case, place: Place) -> None:
        """Write the files and the metadata, and take away those of another version."""
        name = case.named(self.name)
        for old in place.site.glob(f"{name}-*.dist-info"):
            shutil.rmtree(old)
        about = f"{name}-{self.version}.dist-info"
        requires = f"Requires-Dist: {case.named(self.requires)}\n" if self.requires else ""
        files = {
            f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {self.version}\n{requires}",
            f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: family\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{about}/INSTALLER": "pip\n",
            f"{about}/REQUESTED": "",
            f"{about}/entry_points.txt": self.entry_points,
        }
        if self.editable:
            source = place.folder / case.named(self.editable)
            case.write(source, self.files)
            files[f"__editable__.{name}-{self.version}.pth"] = f"{source}\n"
            direct = {"dir_info": {"editable": True}, "url": source.as_uri()}
            files[f"{about}/direct_url.json"] = json.dumps(direct)
        else:
            files |= self.files
        written = case.write(place.site, files)
        lines = [f"{path.relative_to(place.site)},sha256={_hashed(path)},{path.stat().st_size}" for path in written]
        (place.site / about / "RECORD").write_text("\n".join([*lines, f"{about}/RECORD,,", ""]))


def _hashed(path: pathlib.Path) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()


class Install(Change):
    """Install a distribution anew: another version, or the same with other files."""

    def __init__(self, *installed: Installed) -> None:
        self.installed = installed

    def apply(self, case, place):
        for one in self.installed:
            one.install(case, place)


class Patch(Change):
    """Edit an installed file by hand, as nobody should: the record of the distribution does not say so."""

    def __init__(self, file: str, before: str, after: str) -> None:
        self.edit = Edit(before, after, file)

    def apply(self, case, place):
        self.edit.apply(case, Place(place.site, place.site))


class Case(NamedTuple):
    """A program, what changes, and its numbers before and after: None stands for whatever is right.

    What `still` says is that nothing changes that counts: the run after the change is as warm as the one before it.
    """

    title: str
    text: str
    before: Any
    after: Any
    change: Change
    form: str = SOURCE
    files: Files = {}  # noqa: RUF012
    installed: tuple[Installed, ...] = ()
    links: Mapping[str, str] = {}
    variables: Mapping[str, str] = {}
    alone: bool = False  # what changes would change for other cases of the process too
    still: bool = False
    refused: str = ""  # a name by which kcl refuses a callable of loopy: loopy generates in every process

    def __str__(self) -> str:
        return f"{self.title} ({self.form})"

    @property
    def name(self) -> str:
        """The name that NAME stands for."""
        plain = re.sub(r"\W+", "_", self.title.lower()).strip("_")
        return f"{plain}_{ {SOURCE: 'c', LOOPY: 'l', LOOPY_AT_HEAD: 'h'}[self.form] }"

    def named(self, text: str) -> str:
        """Replace NAME."""
        return text.replace("NAME", self.name)

    def expanded(self, text: str) -> str:
        """Write a Python text in the form of this case."""
        lines = []
        made = False
        for line in textwrap.dedent(text).splitlines():
            found = re.fullmatch(r"( *)return KERNEL\((.*)\)", line)
            made = made or bool(found)
            tail = TAILS[self.form].replace("EXPRESSION", found[2]) if found else line
            lines.append(textwrap.indent(tail, found[1]) if found else tail)
        head = HEAD + HEADS[self.form] if made else ""
        return self.named("\n".join([head, *lines, ""]))

    def main(self) -> str:
        """Write the main text."""
        text = textwrap.dedent(self.text)
        whole = text if "def drive(" in text else text + DRIVE
        return self.expanded(whole if "return KERNEL" in whole else HEAD + whole)

    def write(self, folder: pathlib.Path, files: Files) -> list[pathlib.Path]:
        """Write files, Python in the form of this case; returns where they are."""
        written = []
        for name, content in files.items():
            path = folder / self.named(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
            elif isinstance(content, str):
                path.write_text(self.expanded(content) if name.endswith(".py") else self.named(content))
            else:
                with zipfile.ZipFile(path, "w") as stream:
                    for member, text in content.items():
                        stream.writestr(self.named(member), self.expanded(text) if member.endswith(".py") else text)
            written.append(path)
        return written

    def set_up(self, place: Place) -> None:
        """Write everything, as of long ago."""
        self.write(place.folder, self.files)
        (place.folder / f"{self.name}.py").write_text(self.main())
        for name, target in self.links.items():
            (place.folder / self.named(name)).symlink_to(self.named(target))
        for one in self.installed:
            one.install(self, place)
        for path in place.folder.rglob("*"):
            if path.is_file() and not path.is_symlink():
                os.utime(path, (LONG_AGO, LONG_AGO))


def rows(cases: Iterable[Case]) -> list[Case]:
    """Add to every second case in loopy the form whose module imports loopy at its head."""
    found = list(cases)
    loopy = [case for case in found if case.form == LOOPY]
    found += [case._replace(form=LOOPY_AT_HEAD) for case in loopy[::2]]
    names = [case.name for case in found]
    assert len(set(names)) == len(names), "two cases have one name"
    return found


class Said(NamedTuple):
    """What a process said of one case: what it computed, look-ups as [layer, kernel, outcome, reason], its error."""

    numbers: Any
    events: list[list[str]]
    error: str

    def cold(self) -> list[list[str]]:
        """List the look-ups that did not hit."""
        return [event for event in self.events if event[2] != "hit"]

    def is_warm(self) -> bool:
        """Tell whether everything was found; what a warm process must not do was forbidden, and is an error."""
        return not self.error and bool(self.events) and not self.cold()


class Told(NamedTuple):
    """What the processes of one case said, in the order in which they ran."""

    cold: Said
    second: Said
    changed: Said
    without: Said
    last: Said


def check(case: Case, told: Told) -> None:
    """Compare with the process without a cache; the case itself must be sound."""
    for said in (told.cold, told.without):
        assert not said.error, f"the case is broken: {said.error}"
    assert case.before in (None, told.cold.numbers), f"wrong numbers in the first run: {told.cold}"
    assert case.after in (None, told.without.numbers), f"the case is broken: {told.without}"
    assert (told.cold.numbers == told.without.numbers) == case.still, "the change does not do what the case says"
    assert not told.changed.error, f"an error after the change: {told.changed.error}"
    assert told.changed.numbers == told.without.numbers, f"wrong numbers after the change: {told.changed}"
    assert told.last.numbers in (told.without.numbers, None), f"wrong numbers in the last run: {told.last}"
    if case.refused:
        for said in (told.cold, told.second, told.changed):
            reasons = [event[3] for event in said.events if event[0] == "generator" and event[2] == "bypass"]
            assert any(case.named(case.refused) in reason for reason in reasons), f"not refused by name: {said.events}"
        assert [event[2] for event in told.second.events if event[0] == "binary"] == ["hit"], told.second.events
        return
    assert told.second.is_warm(), f"not warm in the second run: {told.second.error or told.second.cold()}"
    assert told.second.numbers == told.cold.numbers
    assert told.last.is_warm(), f"not warm after the change: {told.last.error or told.last.cold()}"
    if case.still:
        assert not told.changed.cold(), f"needless misses: {told.changed.cold()}"


class Group:
    """Cases that share their processes."""

    def __init__(self, cases: list[Case], child: Child, platform: str) -> None:
        self.cases, self.child, self.platform = cases, child, platform
        self.project = child.directory / "project"
        self.site = child.directory / "site-packages"
        self.site.mkdir()
        self.is_changed = False
        for case in cases:
            self.place(case).folder.mkdir(parents=True)
            case.set_up(self.place(case))

    def place(self, case: Case) -> Place:
        return Place(self.project / case.name, self.site)

    def run(self) -> dict[str, Told]:
        """Run all processes."""
        stages = [self._said(), self._said(warm=True)]
        for case in self.cases:
            case.change.apply(case, self.place(case))
        self.is_changed = True
        stages += [self._said(), self._said(cached=False), self._said(warm=True)]
        return {str(case): Told(*[stage[case.name] for stage in stages]) for case in self.cases}

    def _said(self, warm: bool = False, cached: bool = True) -> dict[str, Said]:
        forbids = []
        if warm:
            at_head = any(case.form == LOOPY_AT_HEAD for case in self.cases)
            forbids = ["compilation", "generation" if at_head else "loopy"]
            if any(case.refused for case in self.cases):
                forbids = ["compilation"]
        job = {
            "platform": self.platform,
            "site": str(self.site),
            "cases": {case.name: str(self.place(case).folder) for case in self.cases},
            "forbids": forbids,
        }
        words = SUPPORT / "family_driver.py", json.dumps(job)
        finished = self.child.python(*words, cwd=self.project, **self._variables(cached))
        assert finished.returncode == 0, f"ended with {finished.returncode}:\n{finished.stdout}\n{finished.stderr}"
        assert client.idle(str(self.child.cache / "kcl"), 120)
        return {name: Said(*said) for name, said in json.loads(finished.stdout.splitlines()[-1]).items()}

    def _variables(self, cached: bool) -> dict[str, str]:
        variables = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), str(SUPPORT)])}
        if not cached:
            variables["XDG_CACHE_HOME"] = str(self.child.directory / "cache-without")
            variables |= {"KCL_NO_CACHE": "1", "LOOPY_NO_CACHE": "1", "PYOPENCL_NO_CACHE": "1"}
        for case in self.cases:
            own = {**case.variables, **(case.change.variables if self.is_changed else {})}
            variables |= {case.named(name): case.named(value) for name, value in own.items()}
        return variables


def ran(every: list[Case]) -> Any:
    """Make the fixture of a module: what the processes of the selected cases said, those of a chunk together."""
    known: dict[str, Told] = {}

    @pytest.fixture
    def told(
        request: pytest.FixtureRequest, platform_name: str, tmp_path_factory: pytest.TempPathFactory
    ) -> dict[str, Told]:
        if str(request.node.callspec.params["case"]) in known:
            return known
        here = slow.together(request.node)
        selected = {str(item.callspec.params["case"]) for item in here if hasattr(item, "callspec")}
        cases = [case for case in every if str(case) in selected]
        groups = [
            [case for case in cases if not case.alone and case.form != LOOPY_AT_HEAD and not case.refused],
            [case for case in cases if not case.alone and case.form == LOOPY_AT_HEAD],
            [case for case in cases if not case.alone and case.refused],
            *[[case] for case in cases if case.alone],
        ]
        for number, group in enumerate(filter(None, groups)):
            child = Child(tmp_path_factory.mktemp(f"family{number}"))
            known.update(Group(group, child, PLATFORMS[platform_name]).run())
        return known

    return told
