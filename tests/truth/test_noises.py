"""No needless miss: what cannot change a recipe's outcome is changed, and every layer hits in a whole process on PoCL.

The caches are filled once. Each noise then runs in a process of its own in which compilation and loopy are forbidden
and anything but a hit raises; the numbers must be those of the first run.
"""

from __future__ import annotations

import ast
import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
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


VARIABLES: dict[str, dict[str, str]] = {
    "locale": {"LC_ALL": "C", "LANG": "de_DE.UTF-8"},
    "user": {"USER": "somebody", "LOGNAME": "somebody", "USERNAME": "somebody"},
    "hash seed 1": {"PYTHONHASHSEED": "1"},
    "hash seed 2": {"PYTHONHASHSEED": "12345"},
    "import order": {"NOISE_IMPORTS": "helpers decimal numpy json"},
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


def test_text(filled: Filled, site: Site) -> None:
    """How the text is written does not count: comments, blanks and parentheses go, and no line stays in its place."""
    for path in site.project.rglob("*.py"):
        path.write_text(f"# reprinted\n\n{ast.unparse(ast.parse(path.read_text()))}\n")
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
    def test_as_a_module(self, filled: Filled, site: Site) -> None:
        """Run with -m."""
        assert site.run("-m", "driver", "OUT").items() <= filled.numbers.items()

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
