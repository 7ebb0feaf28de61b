"""No needless miss: what cannot change a recipe's outcome is changed, and every layer hits in a whole process on PoCL.

The caches are filled once. Each noise then runs in a process of its own in which compilation and loopy are forbidden
and anything but a hit raises; the numbers must be those of the first run.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from harness import ROOT, SUPPORT, Child

from kcl.drivers.pocl import client

PROJECTS = SUPPORT / "projects"
STRICT = {"NOISE_FORBIDS": "1", "KCL_STRICT": "hit"}
SOURCES = ("coded", "filed", "included")


class Site:
    """The folder `noise` copied, with one cache for every copy."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.pristine = self.copy("project")
        self.project = self.pristine

    def copy(self, name: str) -> pathlib.Path:
        """Copy the project as it stands in the repository."""
        folder = self.child.directory / name
        shutil.copytree(PROJECTS / "noise", folder, ignore=shutil.ignore_patterns("__pycache__"))
        return folder

    def run(
        self,
        *command: str,
        options: tuple[str, ...] = (),
        cwd: pathlib.Path | None = None,
        shell: str = "",
        umask: int = -1,
        **variables: str | None,
    ) -> dict[str, float]:
        """Run Python with `command`, in which OUT stands for the file that is written; return the numbers."""
        out = self.child.directory / "out.json"
        out.unlink(missing_ok=True)
        environment = self.child.environment(PYTHONPATH=os.pathsep.join([str(ROOT), str(SUPPORT)]))
        for name, value in {**STRICT, **variables}.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        words = [sys.executable, *options, *[str(out) if word == "OUT" else word for word in command]]
        if shell:
            words = ["sh", "-c", f'exec "$@" {shell}', "sh", *words]
        done = subprocess.run(
            words, env=environment, cwd=cwd or self.project, text=True, capture_output=True, umask=umask, timeout=300
        )
        assert done.returncode == 0, f"the child ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return json.loads(out.read_text())["numbers"]

    def drive(self, group: str = "all", **keywords) -> dict[str, float]:
        """Run the driver as a script."""
        return self.run(str(self.project / "driver.py"), "OUT", group, **keywords)

    def fill(self, *commands: tuple[str, ...]) -> dict[str, float]:
        """Fill the caches."""
        numbers: dict[str, float] = {}
        for command in commands:
            numbers |= self.run(*command, NOISE_FORBIDS=None, KCL_STRICT=None)
        assert client.idle(str(self.child.cache / "kcl"), 180)
        return numbers

    def edit(self, file: str, before: str, after: str) -> None:
        """Replace a text that occurs once."""
        path = self.project / file
        text = path.read_text()
        assert text.count(before) == 1, f"{before!r} occurs {text.count(before)} times in {file}"
        path.write_text(text.replace(before, after))


class Filled(NamedTuple):
    """A site with full caches, and the numbers that were computed."""

    site: Site
    numbers: dict[str, float]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    site = Site(Child(tmp_path_factory.mktemp("noise")))
    return Filled(site, site.fill((str(site.project / "driver.py"), "OUT"), (str(site.project / "cell.py"), "OUT")))


@pytest.fixture
def site(filled: Filled) -> Iterator[Site]:
    """The site with a copy of the project that the test may change: being a copy is a noise in itself."""
    filled.site.project = filled.site.copy("copy")
    yield filled.site
    shutil.rmtree(filled.site.project, ignore_errors=True)
    filled.site.project = filled.site.pristine


EDITS: dict[str, list[tuple[str, str, str]]] = {
    "comments": [
        ("driver.py", "    for name in sorted(NAMES):", "    # every name\n    for name in sorted(NAMES):  # sorted"),
        ("helpers.py", "    pad = 4", "    pad = 4  # columns"),
        ("shapes/plane.py", "    # the corner counts once\n", ""),
    ],
    "white space": [
        ("driver.py", "return n * 2", "return  n*2"),
        ("driver.py", 'lp.ValueArg("n", np.int32),', 'lp.ValueArg(\n                "n",\n                np.int32 ),'),
        ("helpers.py", "return self.n + self.pad", "return ( self.n\n                 + self.pad )"),
    ],
    "annotations": [
        ("driver.py", "def twice(n: int) -> int:", "def twice(n):"),
        ("driver.py", 'def coded(block: int = 4, *, order="C"):', 'def coded(block=4, *, order: str = "C") -> object:'),
        ("helpers.py", "    y: int = 5", "    y: float = 5"),
    ],
    "docstrings": [
        ("driver.py", '    """Double."""\n', ""),
        ("driver.py", '"""Depend on code of every kind."""', '"""Depend on code."""'),
        ("helpers.py", '"""A layout."""', '"""Another layout."""'),
        ("shapes/corner.py", "def count(n):", 'def count(n):\n    """Count."""'),
    ],
    "positions": [
        ("driver.py", "TILE = 16\n", "\n\n\nTILE = 16\n\n\n"),
        ("helpers.py", "class Layout:", "\n\n\n\nclass Layout:"),
        ("shapes/plane.py", "def area(n):", "\n\n\ndef area(n):\n"),
    ],
    "unreached code": [
        ("driver.py", "return n - 1", "return n - 2"),
        ("driver.py", "value = 31", "value = 32"),
        ("helpers.py", "return 41", "return 42"),
        ("shapes/plane.py", "return WIDTH\n", "return -WIDTH\n"),
    ],
    "unreached constants": [
        ("driver.py", "UNREACHED = 5", "UNREACHED = 6\nANOTHER = 7"),
        ("shapes/plane.py", "WIDTH = 3", "WIDTH = 3\nHEIGHT = 4"),
    ],
    "unreached functions added and moved": [
        ("driver.py", "def unreached(n):\n    return n - 1\n", ""),
        ("driver.py", "TILE = 16\n", "TILE = 16\n\n\ndef unreached(n):\n    return n - 1\n\n\n"),
        ("helpers.py", "def scaled(factor):", "def early():\n    return scaled\n\n\ndef scaled(factor):"),
    ],
    "imports": [
        ("driver.py", "import json\nimport os\n", "import os\nimport json\nimport decimal\n"),
        ("helpers.py", "import contextlib\nimport dataclasses\n", "import dataclasses, contextlib, re\n"),
        ("shapes/plane.py", "from shapes import corner", "from . import corner"),
    ],
    "quotes and numbers": [
        ("driver.py", '"alpha", "beta", "gamma", "delta"', "'alpha', 'beta', 'gamma', 'delta'"),
        ("driver.py", "TILE = 16", "TILE = 0x10"),
        ("driver.py", '"{[i]: 0<=i<n}",\n        "y[i] = 5*x[i]"', "'{[i]: 0<=i<n}',\n        'y[i] = ' '5*x[i]'"),
    ],
    "order of a set": [("driver.py", '"alpha", "beta", "gamma", "delta"', '"delta", "beta", "gamma", "alpha"')],
}

VARIABLES: dict[str, dict[str, str]] = {
    "locale": {"LC_ALL": "C", "LANG": "de_DE.UTF-8"},
    "user": {"USER": "somebody", "LOGNAME": "somebody", "USERNAME": "somebody"},
    "hash seed 1": {"PYTHONHASHSEED": "1"},
    "hash seed 2": {"PYTHONHASHSEED": "12345"},
    "import order": {"NOISE_IMPORTS": "helpers shapes.corner decimal numpy json"},
    "no bytecode": {"PYTHONDONTWRITEBYTECODE": "1"},
    "threads": {"POCL_MAX_PTHREAD_COUNT": "1", "OMP_NUM_THREADS": "1"},
    "memory limit": {"POCL_MEMORY_LIMIT": "2"},
    "report": {"KCL_REPORT": "1"},
    "unrelated": {"UNRELATED": "1", "EDITOR": "ed", "TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "60"},
    "temporary directory": {"TMPDIR": "/var/tmp"},
    "n as int": {"NOISE_N": "int"},
    "n as np.int32": {"NOISE_N": "int32"},
    "outputs given": {"NOISE_OUT": "1"},
    "another context": {"NOISE_CONTEXTS": "1"},
    "index of the device": {"POCL_DEVICES": "basic pthread", "NOISE_DEVICE": "pthread"},
    "queue with profiling": {"NOISE_QUEUE": "2"},
    "out-of-order queue": {"NOISE_QUEUE": "1"},
    "time zone": {"TZ": "Asia/Tokyo"},
    "promotion off": {"KCL_PROMOTE": "off"},
}


class TestText:
    @pytest.mark.parametrize("name", EDITS)
    @pytest.mark.slow_cases(8)
    def test_edit(self, name: str, filled: Filled, site: Site) -> None:
        """How the text is written does not count, nor what is not reached."""
        for file, before, after in EDITS[name]:
            site.edit(file, before, after)
        assert site.drive().items() <= filled.numbers.items()


class TestSurroundings:
    @pytest.mark.parametrize("name", VARIABLES)
    @pytest.mark.slow_cases(8)
    def test_variables(self, name: str, filled: Filled, site: Site) -> None:
        """What the environment says of other things does not count."""
        assert site.drive(**VARIABLES[name]).items() <= filled.numbers.items()

    def test_home(self, filled: Filled, site: Site) -> None:
        """Another home, with the cache directory kept."""
        home = site.child.directory / "another"
        home.mkdir(exist_ok=True)
        assert site.drive(HOME=str(home), XDG_CONFIG_HOME=str(home / "config")).items() <= filled.numbers.items()

    @pytest.mark.parametrize("umask", [0o002, 0o077])
    @pytest.mark.slow_cases(2)
    def test_umask(self, umask: int, filled: Filled, site: Site) -> None:
        """Another umask."""
        assert site.drive(umask=umask).items() <= filled.numbers.items()

    @pytest.mark.slow
    def test_working_directory(self, filled: Filled, site: Site) -> None:
        """Another working directory."""
        assert site.drive(cwd=pathlib.Path("/")).items() <= filled.numbers.items()

    def test_closed_streams(self, filled: Filled, site: Site) -> None:
        """Standard streams closed or led elsewhere."""
        assert site.drive(shell="<&- >&- 2>&-").items() <= filled.numbers.items()
        assert site.drive(shell="</dev/null >/dev/null 2>&1").items() <= filled.numbers.items()

    def test_more_packages(self, filled: Filled, site: Site, tmp_path: pathlib.Path) -> None:
        """Another directory of packages on the path, with a distribution that nobody reaches."""
        folder = tmp_path / "site-packages"
        (folder / "thing-1.0.dist-info").mkdir(parents=True)
        (folder / "thing.py").write_text("X = 1\n")
        (folder / "thing-1.0.dist-info" / "RECORD").write_text("thing.py,sha256=x,6\n")
        path = os.pathsep.join([str(ROOT), str(SUPPORT), str(folder)])
        assert site.drive(PYTHONPATH=path).items() <= filled.numbers.items()


class TestInterpreter:
    @pytest.mark.parametrize("options", [("-O",), ("-OO",)])
    @pytest.mark.slow_cases(2)
    def test_optimised(self, options: tuple[str, ...], filled: Filled, site: Site) -> None:
        """`python -O` is no noise: it may miss, once, and the numbers are the same."""
        first = site.drive("sources", options=options, NOISE_FORBIDS=None, KCL_STRICT=None)
        assert client.idle(str(site.child.cache / "kcl"), 180)
        assert first.items() <= filled.numbers.items()
        assert site.drive("sources", options=options).items() <= filled.numbers.items()

    @pytest.mark.parametrize("options", [("-B",), ("-X", "utf8"), ("-s",), ("-W", "ignore"), ("-u",)])
    @pytest.mark.slow_cases(5)
    def test_options(self, options: tuple[str, ...], filled: Filled, site: Site) -> None:
        """Other options of the interpreter."""
        assert site.drive(options=options).items() <= filled.numbers.items()

    def test_bytecode_gone(self, filled: Filled, site: Site) -> None:
        """Compiled files removed, and files that are stale."""
        assert site.drive().items() <= filled.numbers.items()
        for folder in [*site.project.rglob("__pycache__")]:
            for file in folder.iterdir():
                file.write_bytes(file.read_bytes()[:12] + bytes(4))
        assert site.drive().items() <= filled.numbers.items()
        for folder in [*site.project.rglob("__pycache__")]:
            shutil.rmtree(folder)
        assert site.drive().items() <= filled.numbers.items()

    @pytest.mark.slow
    def test_touched(self, filled: Filled, site: Site) -> None:
        """Files of code, headers and data with another time, the same content."""
        for path in site.project.rglob("*"):
            os.utime(path, (10**9, 10**9))
        assert site.drive().items() <= filled.numbers.items()


class TestPlace:
    def test_copy(self, filled: Filled) -> None:
        """A copy elsewhere, with the original gone."""
        site = filled.site
        folder = site.child.directory / "deep" / "in" / "a-folder"
        folder.parent.mkdir(parents=True)
        site.pristine.rename(folder)
        site.project = folder
        try:
            assert site.drive().items() <= filled.numbers.items()
        finally:
            folder.rename(site.pristine)
            site.project = site.pristine

    @pytest.mark.slow
    def test_symbolic_link(self, filled: Filled, site: Site) -> None:
        """The project behind a symbolic link."""
        link = site.child.directory / "link"
        link.symlink_to(site.project)
        try:
            numbers = site.run(str(link / "driver.py"), "OUT", cwd=link)
        finally:
            link.unlink()
        assert numbers.items() <= filled.numbers.items()

    @pytest.mark.slow
    def test_relative(self, filled: Filled, site: Site) -> None:
        """Named from its own folder and from the one above."""
        assert site.run("driver.py", "OUT").items() <= filled.numbers.items()
        assert site.run("./driver.py", "OUT").items() <= filled.numbers.items()
        assert site.run("copy/driver.py", "OUT", cwd=site.project.parent).items() <= filled.numbers.items()

    def test_as_a_module(self, filled: Filled, site: Site) -> None:
        """Run with -m."""
        assert site.run("-m", "driver", "OUT").items() <= filled.numbers.items()

    def test_imported(self, filled: Filled, site: Site) -> None:
        """Imported by another program, from its path and from another."""
        program = "import sys; sys.path.insert(0, sys.argv[2]); import driver; driver.main(sys.argv[1])"
        assert site.run("-c", program, "OUT", str(site.project)).items() <= filled.numbers.items()
        assert site.run("-c", program, "OUT", ".").items() <= filled.numbers.items()

    def test_archive(self, filled: Filled, site: Site) -> None:
        """Imported out of a zip file, where nothing can be read beside the code."""
        archive = site.child.directory / "project.zip"
        with zipfile.ZipFile(archive, "w") as stream:
            for path in site.project.rglob("*.py"):
                stream.write(path, path.relative_to(site.project))
        shutil.rmtree(site.project)
        program = "import sys; sys.path.insert(0, sys.argv[2]); import driver; driver.main(sys.argv[1], 'code')"
        numbers = site.run("-c", program, "OUT", str(archive), cwd=site.child.directory)
        assert numbers.items() <= filled.numbers.items()
        assert numbers.keys() == {"coded", "tiled"}

    @pytest.mark.slow
    def test_cell(self, filled: Filled, site: Site) -> None:
        """A notebook's cell that is run again unchanged, under another file name, twice in each process."""
        for _ in range(2):
            assert site.run(str(site.project / "cell.py"), "OUT").items() <= filled.numbers.items()
        site.edit("cell.py", "    return n + SHIFT", "    # more\n    return (n +\n            SHIFT)")
        assert site.run(str(site.project / "cell.py"), "OUT").items() <= filled.numbers.items()


class TestOptions:
    """Build options that say the same."""

    SPELLINGS = (
        "-cl-no-signed-zeros -cl-mad-enable -I {0} -DA=1",
        "-cl-mad-enable -cl-no-signed-zeros -I{0} -D A=1",
        "-I {0} -cl-mad-enable -DA=1 -cl-no-signed-zeros",
        "-cl-mad-enable -cl-mad-enable -cl-no-signed-zeros -I {0} -DA=1",
    )

    def test_spelled_otherwise(self, filled: Filled, site: Site) -> None:
        """Switches in another order or twice, an include directory with a blank and without."""
        place = str(site.pristine / "kernels")
        spelled = [options.format(place) for options in self.SPELLINGS]
        site.drive("sources", NOISE_FORBIDS=None, KCL_STRICT=None, PYOPENCL_BUILD_OPTIONS=spelled[0])
        assert client.idle(str(site.child.cache / "kcl"), 120)
        for options in spelled:
            numbers = site.drive("sources", PYOPENCL_BUILD_OPTIONS=options)
            assert numbers.items() <= filled.numbers.items()


REAL = ("examples/driver.py", "benchmarks/kernels.py")


def copy_real(folder: pathlib.Path, change: Callable[[str], str]) -> None:
    """Copy the real recipes with what they read, their text changed."""
    shutil.copytree(ROOT / "examples", folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in REAL:
        (folder / pathlib.Path(file).name).write_text(change((ROOT / file).read_text()))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """The caches filled by the real recipes."""
    site = Site(Child(tmp_path_factory.mktemp("real")))
    copy_real(site.project / "recipes", lambda text: text)
    return Filled(site, site.fill((str(site.project / "real.py"), "OUT", str(site.project / "recipes"))))


@pytest.mark.slow
class TestRealRecipes:
    """The recipes of examples/driver.py and benchmarks/kernels.py, reformatted."""

    @pytest.mark.parametrize("width", [60, 88, 200])
    def test_reformatted(self, width: int, real: Filled) -> None:
        """By black with another line length."""
        import black

        folder = real.site.child.directory / f"width-{width}"
        mode = black.Mode(line_length=width, magic_trailing_comma=False)
        copy_real(folder, lambda text: black.format_str(text, mode=mode))
        assert real.site.run(str(real.site.project / "real.py"), "OUT", str(folder)) == real.numbers

    def test_reprinted(self, real: Filled) -> None:
        """Printed from its syntax tree: no comment, no blank, no parenthesis is left as it was."""
        import ast

        folder = real.site.child.directory / "reprinted"
        copy_real(folder, lambda text: ast.unparse(ast.parse(text)))
        assert real.site.run(str(real.site.project / "real.py"), "OUT", str(folder)) == real.numbers


def test_table_is_long_enough() -> None:
    """Thirty noises are asked for."""
    assert len(EDITS) + len(VARIABLES) + 15 >= 30
