"""kcl.generate.distributions: whose a module is, and what of a distribution counts."""

import importlib.metadata
import importlib.util
import json
import os
import pathlib
import shutil
import sys
import time
from typing import Any

import pytest
from harness import PLATFORMS, Child, run_command
from reaching import ROOT, Project, Site

from kcl.base import process
from kcl.generate import GENERATORS, distributions

RECIPE = "import thing\ndef build(n):\n    return thing.make(n)"
MODULE = "def make(n):\n    return n + 1\n"


@pytest.fixture
def project(tmp_path: pathlib.Path) -> Project:
    return Project(tmp_path / "project", {"recipes.py": RECIPE})


def part(parts: list[list[str]], name: str) -> str | None:
    return dict(map(tuple, parts)).get(name)  # type: ignore[arg-type]


class TestOwn:
    """kcl itself counts by its Python files, and equally where it is installed and where it is a checkout."""

    def own(self, root: pathlib.Path, *paths: str) -> str:
        code = "from kcl.generate import distributions; print(distributions.counted('kcl'))"
        packages = [
            path for path in sys.path if path.endswith("site-packages")
        ]  # of what kcl needs
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *paths, *packages])}
        done = run_command([sys.executable, "-S", "-c", code], env=environment, cwd=root.parent)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def test_places(self, tmp_path: pathlib.Path) -> None:
        """An installed kcl has the text of its checkout; with a file that cannot be read it has one of its own."""
        shutil.copytree(
            ROOT / "kcl", tmp_path / "kcl", ignore=shutil.ignore_patterns("__pycache__")
        )
        checkout = distributions.counted(distributions.KCL)
        assert self.own(tmp_path) == checkout
        version, digest = checkout.split()
        assert (version, len(digest)) == ("0.1.0", 64)
        unread = tmp_path / "kcl" / "cli" / "run.py"
        unread.unlink()
        unread.symlink_to("nothing")
        # Nothing hits, and nothing is raised.
        assert len({self.own(tmp_path), self.own(tmp_path), checkout}) == 3


class TestInstalled:
    """A distribution counts by version and record, not by its code."""

    def test_part(self, project: Project, tmp_path: pathlib.Path) -> None:
        """One part names the distribution, its version and the digest of its record."""
        site = Site(tmp_path)
        site.install({"thing/__init__.py": MODULE})
        parts = site.content(project)
        version, digest = (part(parts, "distribution thing") or "").split()
        assert version == "1.0"
        assert len(digest) == 64
        assert part(parts, "held by thing") is not None

    def test_what_counts(self, project: Project, tmp_path: pathlib.Path) -> None:
        """The version and the content of each file count; how it was installed does not."""
        files = {"thing/__init__.py": MODULE, "thing/deep.py": ""}

        def content(**change: Any) -> list[list[str]]:
            site = Site(tmp_path / str(len(list(tmp_path.iterdir()))))
            site.install(**{"files": files, **change})
            return site.content(project)

        plain = content()
        assert content(version="1.1") != plain
        assert content(files={**files, "thing/deep.py": "# new"}) != plain
        beside = (
            "thing/__pycache__/__init__.cpython-311.pyc,,",
            "thing-1.0.dist-info/REQUESTED,sha256=x,0",
            "thing-1.0.dist-info/direct_url.json,sha256=x,9",
            "../../../bin/thing,sha256=x,9",
        )
        assert content(extra="\n".join(beside)) == plain

    @pytest.mark.parametrize("name", ["Thing_Kit", "python.thing", "other"])
    def test_module_of_another_name(
        self, name: str, project: Project, tmp_path: pathlib.Path
    ) -> None:
        """A module is found in the record where its distribution bears another name."""
        site = Site(tmp_path)
        site.install({"thing.py": MODULE}, name=name)
        assert part(
            site.content(project),
            f"distribution {name.replace('_', '-').replace('.', '-').lower()}",
        )

    def test_namespace(self, tmp_path: pathlib.Path) -> None:
        """Two distributions may bring parts of one namespace package."""
        recipe = "import space.one, space.two"
        project = Project(tmp_path / "project", {"recipes.py": recipe})
        site = Site(tmp_path)
        site.install({"space/one.py": MODULE}, name="space_one")
        site.install({"space/two.py": MODULE}, name="space_two")
        parts = site.content(project, "recipes.space.one.make")
        assert part(parts, "distribution space-one")
        assert not part(parts, "distribution space-two")
        parts = site.content(project, "recipes.space.two.make")
        assert part(parts, "distribution space-two")

    def test_users_function_in_a_decorator(self, tmp_path: pathlib.Path) -> None:
        """A function of the user's that a library's decorator wraps counts by its code."""
        text = (
            "def kept(function):\n    def inner(n):\n        return function(n)\n    return inner\n"
        )
        site = Site(tmp_path)
        site.install({"thing/__init__.py": text})
        recipe = "import thing\n@thing.kept\ndef helper(n):\n    return n + 1\ndef build(n):\n    return helper(n)"
        project = Project(tmp_path / "project", {"recipes.py": recipe})
        before = site.parts(project)
        project.edit("recipes.py", "n + 1", "n + 2")
        assert site.parts(project) != before


class TestNotInstalled:
    """What no record names is the user's and counts by its code."""

    def test_editable(self, project: Project, tmp_path: pathlib.Path) -> None:
        """An editable install counts by what is reached of it."""
        site = Site(tmp_path)
        site.install({"__editable__.thing-1.0.pth": str(tmp_path / "src")})
        (site.root / "thing-1.0.dist-info" / "direct_url.json").write_text(
            json.dumps({"dir_info": {"editable": True}})
        )
        source = Project(tmp_path / "src", {"thing.py": MODULE})
        before = f"sys.path[1:1] = [{str(source.root)!r}, {str(site.root)!r}]"
        parts = project.parts("n=1", before=before)
        assert part(parts, "module thing")
        assert not part(parts, "distribution thing")
        source.edit("thing.py", "n + 1", "n + 2")
        assert project.parts("n=1", before=before) != parts

    def test_copied_into_site_packages(self, project: Project, tmp_path: pathlib.Path) -> None:
        """A module that somebody copied there counts by its code."""
        site = Site(tmp_path)
        (site.root / "thing.py").write_text(MODULE)
        assert part(site.parts(project), "module thing")

    def test_shadowed_standard_library(self, tmp_path: pathlib.Path) -> None:
        """A user's module that bears the name of a standard one is the user's."""
        recipe = "import colorsys\ndef build(n):\n    return colorsys.make(n)"
        project = Project(tmp_path, {"recipes.py": recipe, "colorsys.py": MODULE})
        before = project.parts("n=1")
        project.edit("colorsys.py", "n + 1", "n + 2")
        assert project.parts("n=1") != before

    def test_extension_module(self, tmp_path: pathlib.Path) -> None:
        """A compiled module of the user's counts by its file."""
        suffix = next(iter(__import__("importlib.machinery").machinery.EXTENSION_SUFFIXES))
        recipe = "def build(n):\n    import fast\n    return fast.make(n)"
        project = Project(tmp_path, {"recipes.py": recipe, f"fast{suffix}": "one"})
        before = project.parts("n=1")
        assert project.parts("n=1") == before
        project.write(f"fast{suffix}", "two")
        assert project.parts("n=1") != before


class TestGenerators:
    """The distributions that turn a recipe into OpenCL C."""

    @pytest.mark.parametrize("name", GENERATORS)
    def test_version(self, name: str) -> None:
        """The version is the one that importlib.metadata tells; of loopy's next release one more is needed."""
        if name == "namedisl" and importlib.util.find_spec(name) is None:
            assert distributions.counted(name) == "absent"
            return
        assert distributions.counted(name).split()[0] in (
            importlib.metadata.version(name),
            "editable",
        )

    def test_absent(self) -> None:
        """One that is not installed is absent."""
        assert distributions.counted("a_module_that_nobody_has") == "absent"

    @pytest.mark.one_platform
    def test_complete(self, child: Child, platform_name: str) -> None:
        """Each distribution of which loopy imports a module until a kernel runs is on one of both lists."""
        program = f"""
            import json, sys
            import numpy as np
            import pyopencl as cl
            import loopy
            from kcl.generate import distributions
            (platform,) = [one for one in cl.get_platforms() if one.name == {PLATFORMS[platform_name]!r}]
            context = cl.Context(platform.get_devices()[:1])
            unit = loopy.make_kernel("{{[i]: 0<=i<n}}", "y[i] = 2*x[i]", lang_version=(2018, 2))
            unit.executor(context)(cl.CommandQueue(context), x=np.ones(8))
            owners = map(distributions.owner, list(sys.modules))
            print(json.dumps(sorted({{one.name for one in owners if one.kind == distributions.DISTRIBUTION}})))
            """
        assert {*child.json(program)} <= {*GENERATORS, *distributions.HARMLESS}

    def test_light(self, child: Child) -> None:
        """Neither importlib.metadata nor a generator is imported."""
        program = (
            "import sys; from kcl.generate import distributions as d\n"
            "[d.counted(name) for name in d.GENERATORS]; print(*sys.modules)"
        )
        modules = child.run(program).stdout.split()
        assert "kcl.generate.distributions" in modules
        assert not {"importlib.metadata", *GENERATORS} & {*modules}

    def test_content_of_an_editable_one(self, child: Child) -> None:
        """An editable generator counts by the content of all its files."""
        package = child.directory / "loopy"
        package.mkdir()
        seen = []
        for text in "A = 1", "A = 2", "A = 2":
            (package / "__init__.py").write_text(text)
            program = "from kcl.generate.distributions import counted; print(counted('loopy'))"
            seen.append(child.run(program).stdout)
        assert seen[0] != seen[1] == seen[2] != ""


class TestChanged:
    """What was loaded may be other code than the counted text says."""

    @pytest.fixture
    def place(self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
        """Return a link to the first of two folders with a package of one name, which is counted; kcl comes later."""
        for number in "12":
            (tmp_path / number / "thing").mkdir(parents=True)
            (tmp_path / number / "thing" / "__init__.py").write_text(f"A = {number}\n")
        (tmp_path / "place").symlink_to("1")
        monkeypatch.syspath_prepend(str(tmp_path / "place"))
        state = distributions.InstallationMemos()
        monkeypatch.setattr(distributions, "_state", lambda: state)
        monkeypatch.setattr(process, "STARTED", time.time_ns() + 10**9)
        distributions.count(["thing"])
        assert distributions.changed() == ""
        return tmp_path / "place"

    def test_other_folder(self, place: pathlib.Path) -> None:
        """A package whose files another folder replaces has changed, whatever their times are."""
        place.unlink()
        place.symlink_to("2")
        assert distributions.changed() == "thing"

    @pytest.mark.usefixtures("place")
    def test_imported_before_kcl(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A package that was there before kcl has changed if a file did since the process was started."""
        monkeypatch.setattr(process, "BEFORE", frozenset({"thing"}))
        assert distributions.changed() == "thing"
        monkeypatch.setattr(process, "began", lambda: process.STARTED)
        assert distributions.changed() == ""


class TestOwner:
    """Whose a module is."""

    @pytest.mark.parametrize(
        "name", ["os", "os.path", "json", "sys", "_io", "email.message", "math", "__future__"]
    )
    def test_standard_library(self, name: str) -> None:
        """Modules of the standard library, loaded or not."""
        assert distributions.owner(name).kind == distributions.PYTHON

    @pytest.mark.parametrize(
        "name", ["numpy", "numpy.random", "pytest", "_pytest.python", "pyopencl", "loopy.target"]
    )
    def test_distributions(self, name: str) -> None:
        """Modules of installed distributions, loaded or not."""
        assert distributions.owner(name).kind == distributions.DISTRIBUTION

    def test_ours(self) -> None:
        """kcl's own modules, and this one, which is a user's."""
        assert (
            distributions.owner("kcl.frontends.loopy.callables.content").kind == distributions.KCL
        )
        assert distributions.owner(__name__).kind == distributions.USER
        assert distributions.owner("__main__").kind == distributions.USER
        assert distributions.owner("a_module_that_nobody_has").kind == distributions.ABSENT
        assert os.path.isdir(ROOT)
