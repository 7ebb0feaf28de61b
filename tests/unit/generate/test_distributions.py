"""kcl.generate.distributions: whose a module is, and what of a distribution counts."""

import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys
import time

import pytest
from harness import PLATFORMS, run_command
from reaching import ROOT, Project, Site

from kcl.base import process
from kcl.generate import GENERATORS, distributions

RECIPE = "import thing\ndef build(n):\n    return thing.make(n)"
MODULE = "def make(n):\n    return n + 1\n"


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path / "project", {"recipes.py": RECIPE})


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def test_kcl_itself(tmp_path):
    """An installed kcl has the text of its checkout; with a file that cannot be read it has one of its own."""

    def own():
        code = "from kcl.generate import distributions; print(distributions.counted('kcl'))"
        # of what kcl needs
        packages = [path for path in sys.path if path.endswith("site-packages")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *packages])}
        done = run_command([sys.executable, "-S", "-c", code], env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "kcl", tmp_path / "kcl", ignore=ignore)
    checkout = distributions.counted(distributions.KCL)
    assert own() == checkout
    version, digest = checkout.split()
    assert (version, len(digest)) == ("0.1.0", 64)
    unread = tmp_path / "kcl" / "cli" / "run.py"
    unread.unlink()
    unread.symlink_to("nothing")
    # Nothing hits, and nothing is raised.
    assert len({own(), own(), checkout}) == 3


class TestInstalled:
    """A distribution counts by version and record, not by its code."""

    def test_what_counts(self, project, tmp_path):
        """The version and the content of each file count; how it was installed does not."""
        files = {"thing/__init__.py": MODULE, "thing/deep.py": ""}

        def content(**change):
            site = Site(tmp_path / str(len(list(tmp_path.iterdir()))))
            site.install(**{"files": files, **change})
            return site.content(project)

        plain = content()
        version, digest = plain["distribution thing"].split()
        assert (version, len(digest)) == ("1.0", 64)
        assert "held by thing" in plain
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
    def test_module_of_another_name(self, name, project, site):
        site.install({"thing.py": MODULE}, name=name)
        normalised = name.replace("_", "-").replace(".", "-").lower()
        assert f"distribution {normalised}" in site.content(project)

    def test_namespace(self, tmp_path, site):
        """Two distributions may bring parts of one namespace package."""
        project = Project(tmp_path / "project", {"recipes.py": "import space.one, space.two"})
        names = "one", "two"
        for name in names:
            site.install({f"space/{name}.py": MODULE}, name=f"space_{name}")
        for name in names:
            parts = site.content(project, f"recipes.space.{name}.make")
            found = [other for other in names if f"distribution space-{other}" in parts]
            assert found == [name]


class TestNotInstalled:
    """What no record names is the user's and counts by its code."""

    def test_editable(self, project, site, tmp_path):
        """An editable install counts by what is reached of it."""
        site.install({"__editable__.thing-1.0.pth": str(tmp_path / "src")})
        (site.root / "thing-1.0.dist-info" / "direct_url.json").write_text(
            json.dumps({"dir_info": {"editable": True}})
        )
        source = Project(tmp_path / "src", {"thing.py": MODULE})
        before = f"sys.path[1:1] = [{str(source.root)!r}, {str(site.root)!r}]"
        parts = project.parts("n=1", before=before)
        assert "module thing" in parts
        assert "distribution thing" not in parts
        source.edit("thing.py", "n + 1", "n + 2")
        assert project.parts("n=1", before=before) != parts

    def test_copied_into_site_packages(self, project, site):
        (site.root / "thing.py").write_text(MODULE)
        assert "module thing" in project.parts("n=1", before=site.before)

    @pytest.mark.parametrize(
        ("recipe", "name"),
        [
            ("import thing\n@thing.kept\ndef helper(n):\n    return n + 1", "recipes.py"),
            ("import colorsys\ndef helper(n):\n    return colorsys.make(n)", "colorsys.py"),
            ("def helper(n):\n    import fast\n    return fast.make(n)", "fast.py"),
        ],
        ids=["function in a decorator", "name of a standard module", "extension module"],
    )
    def test_code_of_the_user(self, recipe, name, site, tmp_path):
        """A function in a library's decorator, a module with a standard name, and a compiled one are the user's."""
        site.install(
            {"thing/__init__.py": "def kept(function):\n    return lambda n: function(n)\n"}
        )
        suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
        name = name.replace("fast.py", f"fast{suffix}")
        build = f"{recipe}\ndef build(n):\n    return helper(n)\n"
        project = Project(tmp_path / "project", {name: MODULE, "recipes.py": build})
        before = project.parts("n=1", before=site.before)
        assert project.parts("n=1", before=site.before) == before
        project.edit(name, "n + 1", "n + 2")
        assert project.parts("n=1", before=site.before) != before


class TestGenerators:
    """The distributions that turn a recipe into OpenCL C."""

    @pytest.mark.parametrize("name", GENERATORS)
    def test_version(self, name):
        """The version is the one that importlib.metadata tells; of loopy's next release one more is needed."""
        if name == "namedisl" and importlib.util.find_spec(name) is None:
            assert distributions.counted(name) == "absent"
            return
        version = distributions.counted(name).split()[0]
        assert version in (importlib.metadata.version(name), "editable")

    @pytest.mark.one_platform
    def test_complete(self, child, platform_name):
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

    def test_light(self, child):
        """Neither importlib.metadata nor a generator is imported."""
        program = (
            "import sys; from kcl.generate import distributions as d\n"
            "[d.counted(name) for name in d.GENERATORS]; print(*sys.modules)"
        )
        modules = child.run(program).stdout.split()
        assert "kcl.generate.distributions" in modules
        assert not {"importlib.metadata", *GENERATORS} & {*modules}

    def test_content_of_an_editable_one(self, child):
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
    def place(self, tmp_path, monkeypatch):
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

    def test_other_folder(self, place):
        """A package whose files another folder replaces has changed, whatever their times are."""
        place.unlink()
        place.symlink_to("2")
        assert distributions.changed() == "thing"

    @pytest.mark.usefixtures("place")
    def test_imported_before_kcl(self, monkeypatch):
        """A package that was there before kcl has changed if a file did since the process was started."""
        monkeypatch.setattr(process, "BEFORE", frozenset({"thing"}))
        assert distributions.changed() == "thing"
        monkeypatch.setattr(process, "began", lambda: process.STARTED)
        assert distributions.changed() == ""


OWNERS = {
    distributions.PYTHON: "os os.path json sys _io email.message math __future__",
    distributions.DISTRIBUTION: "numpy numpy.random pytest _pytest.python pyopencl loopy.target",
    distributions.KCL: "kcl.frontends.loopy.callables.content",
    distributions.USER: f"__main__ {__name__}",
    distributions.ABSENT: "a_module_that_nobody_has",
}


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for kind, names in OWNERS.items() for name in names.split()]
)
def test_owner(name, kind):
    """Modules belong to somebody, loaded or not; what is not installed counts as absent."""
    assert distributions.owner(name).kind == kind
    if kind == distributions.ABSENT:
        assert distributions.counted(name) == "absent"
