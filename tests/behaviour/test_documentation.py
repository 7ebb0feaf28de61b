"""Every block of the README and of doc/ is executed; every public name and variable is documented.

Python blocks run in one module per document, console blocks in sh, both in a fresh directory with a fresh cache. A
comment before a block says what else it is: ``<!-- file: NAME -->`` writes it to a file, ``<!-- exit status N -->`` is
how its last command ends, ``<!-- raises NAME -->`` is the exception in which a Python block ends.

`make transcripts` writes what the commands print into the pages, where that is not what the page says. It leaves the
output of a command alone in which ``...`` stands for what another machine would print. `KCL_WRITE_TRANSCRIPTS=all`
writes that too, for a review by hand.
"""

import contextlib
import functools
import importlib.util
import os
import pathlib
import re
import secrets
import shutil
import sys
import types

import console
import pytest
from harness import ROOT
from sybil import Sybil
from sybil.parsers.myst import CodeBlockParser

import kcl
from kcl import drivers
from kcl.base import process, settings
from kcl.drivers.pocl import client
from kcl.foreign.table import ROWS

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "doc").rglob("*.md"))]
TEXTS = {path: path.read_text(encoding="utf-8") for path in DOCUMENTS}
# What a reader tries first runs in `make test`; the blocks of the other pages are slow.
FIRST = {"README.md", "doc/tutorial/first-run.md", "doc/howto/project-cache.md"}
MODULE = "kcl_documentation"
WIDTH = 107  # columns of code; see doc/_static/kcl.css
COLUMNS = "90"  # of the terminal on which a reader gives the commands; with others, other columns would be left out
TRANSCRIPT = 100  # columns of what commands print, which do not all fit a terminal
READER = "/home/you"
WRITES = os.environ.get("KCL_WRITE_TRANSCRIPTS", "")
# a block of another language is nobody's to execute; "text" is for diagrams and directory listings
LANGUAGES = {"python", "console", "c", "text", "{eval-rst}", "{include}", "{toctree}"}


class Reader:
    """Does what a reader does with the blocks of one document, in one directory."""

    def __init__(self, directory: pathlib.Path, environment: dict[str, str]) -> None:
        self.directory = directory
        self.environment = environment
        self.shell = ""
        # Where in the page a block is, and what it ought to be.
        self.transcripts: list[tuple[int, int, str]] = []
        device = _device()
        folder = drivers.named(device.platform.name).folder(device)
        self._shown = {environment["HOME"]: READER, environment["TMPDIR"]: "/tmp"}
        self._shown |= {str(ROOT): f"{READER}/kcl", device.name: "pthread-cpu", folder: "pocl-cpu"}

    def shown(self, printed: str) -> str:
        """Return what a command printed as a page shows it: on the machine of a reader."""
        for here, there in self._shown.items():
            column = rf"{re.escape(here)}(?=  )"  # keeps its width
            printed = re.sub(column, there.ljust(len(here)), printed).replace(here, there)
        home = self.environment["HOME"]
        for length in range(1, len(home) + 1):  # a path whose middle is left out
            printed = printed.replace(f" {home[:length]}...", f" {READER[:length]}...")
        return printed

    def note(self, example) -> tuple[str, str]:
        """Return the comment above a block as (word, value)."""
        before = example.document.text[: example.region.start].rstrip().rpartition("\n")[2]
        found = re.fullmatch(r"<!-- (file:|exit status|raises) (\S+) -->", before.strip())
        return (found[1], found[2]) if found else ("", "")

    def python(self, example) -> None:
        """Run a block in the document's module, or write it to the file that is named."""
        word, value = self.note(example)
        if word == "file:":
            self.file(example)
            return
        module = sys.modules[MODULE]
        before = "\n" * (example.line + example.parsed.line_offset)
        code = compile(before + example.parsed, example.path, "exec")
        if word == "raises":
            with pytest.raises(Exception) as caught:
                exec(code, module.__dict__)
            assert caught.type.__name__ == value
            return
        exec(code, module.__dict__)

    def file(self, example) -> None:
        """Write a block to the file that its comment names."""
        word, name = self.note(example)
        assert word == "file:", "a block of this language needs a comment that names its file"
        (self.directory / name).write_text(example.parsed, encoding="utf-8")

    def console(self, example) -> None:
        """Run the commands of a block, each after all those before it; variables that are set stay set."""
        word, value = self.note(example)
        listed = console.commands(example.parsed)
        lines = []
        for number, command in enumerate(listed):
            lines.append(f"$ {command.text}\n{command.expected}")
            if console.check_promise(command.text):
                continue
            if re.fullmatch(r"(export )?\w+=\S*( \w+=\S*)*", command.text):
                self.shell += command.text + "\n"
                continue
            self.rest(command.text)
            terminal = {} if re.search(r"(?<!\|)\|(?!\|)", command.text) else {"COLUMNS": COLUMNS}
            status, printed = console.run(
                self.shell + command.text, self.directory, self.environment | terminal
            )
            demanded = int(value) if word == "exit status" and number == len(listed) - 1 else 0
            assert status == demanded, f"$ {command.text}\nended with {status}:\n{printed}"
            printed = self.shown(printed)
            different = console.differs(command.expected, printed)
            assert WRITES or not different, f"$ {command.text}\n{different}"
            if WRITES == "all" if "..." in command.expected else different:
                lines[-1] = f"$ {command.text}\n{printed.rstrip()}\n"
        self.rest()
        start, end = example.region.start, example.region.end
        whole = example.document.text[start:end].replace(example.parsed, "".join(lines))
        self.transcripts.append((start, end, whole))

    def write(self, path: pathlib.Path) -> None:
        """Write what the commands printed into the page."""
        text = path.read_text(encoding="utf-8")
        for start, end, block in reversed(self.transcripts):
            text = text[:start] + block + text[end:]
        path.write_text(text, encoding="utf-8")

    def rest(self, command: str = "") -> None:
        """Let the helper process end its work, as it does while a reader reads; itself before files are removed."""
        home = pathlib.Path(self.environment["HOME"])
        for folder in (*home.glob(".cache/kcl"), *self.directory.glob("*/kcl")):
            if (folder / "pending").is_dir():
                assert client.idle(str(folder), 180.0)
                if "rm -rf" in command:
                    assert client.quiet(str(folder), 180.0)


@functools.cache
def _device():
    import pyopencl as cl

    return next(one for one in cl.get_platforms() if "Portable" in one.name).get_devices()[0]


def blocks(text: str) -> list[str]:
    fence = r"[ \t]*(?:```|~~~)+[ \t]*"
    return re.findall(rf"^{fence}(\S+)?.*\n(?:.*\n)*?{fence}$", text, re.M)


@pytest.fixture(scope="module")
def homes():
    """The homes of all pages. They stay until the last page: loopy's own caches stay open where a page opened them."""
    made: list[pathlib.Path] = []
    yield made
    for home in made:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def home(homes):
    """A home whose path has as many letters as that of a reader, so that tables and lines break where his do."""
    while True:
        made = pathlib.Path("/tmp", secrets.token_hex(2))
        with contextlib.suppress(FileExistsError):
            made.mkdir(mode=0o700)
            break
    assert len(str(made)) == len(READER)
    homes.append(made)
    yield made
    process.reset()  # it writes what kcl remembers, and makes folders for it


def _page(path: pathlib.Path):
    name = path.relative_to(ROOT).as_posix()
    marks = [] if name in FIRST else [pytest.mark.slow]
    return pytest.param(path, id=name, marks=marks)


class TestBlocks:
    @pytest.mark.parametrize("path", [_page(path) for path in DOCUMENTS])
    def test_execute(self, path, child, home, monkeypatch):
        """Every block of the document runs and prints what it says, on PoCL."""
        # What others keep among temporary files is not on the pages.
        project, temporary = home / "project", child.directory / "tmp"
        for folder in (project, temporary):
            folder.mkdir(mode=0o700)
        monkeypatch.chdir(project)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("PYOPENCL_CTX", "portable")
        monkeypatch.setitem(sys.modules, MODULE, types.ModuleType(MODULE))
        variables = {"PYOPENCL_CTX": "portable", "KCL_REPORT": "", "HOME": str(home)}
        # In a terminal, too, prints come before what is reported at exit.
        variables |= {"TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
        monkeypatch.delenv("KCL_WRITE_TRANSCRIPTS", raising=False)
        environment = child.environment(**variables)
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):  # a reader has the default places
            monkeypatch.delenv(name)
            del environment[name]
        reader = Reader(project, environment)
        evaluate = {"python": reader.python, "console": reader.console, "c": reader.file}
        parsers = [CodeBlockParser(*language) for language in evaluate.items()]
        for example in Sybil(parsers).parse(path).examples():
            example.evaluate()
        if WRITES:
            reader.write(path)

    def test_languages(self):
        """No block has a language that nobody executes."""
        for path, text in TEXTS.items():
            assert LANGUAGES.issuperset(blocks(text)), path

    @pytest.mark.parametrize(("languages", "width"), [("python|c", WIDTH), ("console", TRANSCRIPT)])
    def test_code_fits(self, languages, width):
        """No line of Python or C is wider than the page, and none of a transcript wider than a terminal."""
        block = re.compile(rf"^[ \t]*```(?:{languages})\n(.*?)^[ \t]*```", re.M | re.S)
        for path, text in TEXTS.items():
            lines = "\n".join(block.findall(text)).splitlines()
            assert [line for line in lines if len(line) > width] == [], path


@pytest.mark.parametrize(
    ("shown", "printed"),
    [("1.0", "2.0"), ("hits 1", "hits 2"), ("~/.cache/a", "~/.cache/b"), ("3 s", "-")],
)
def test_different(shown, printed):
    """Numbers, counts and places count as they are."""
    assert console.differs(shown, printed) != ""


class TestReference:
    API = (ROOT / "doc" / "reference" / "api.md").read_text(encoding="utf-8")

    def test_public_names_are_documented(self):
        entries = set(re.findall(r"^\.\. auto\w+:: (kcl\.\S+)$", self.API, re.M))
        assert {f"kcl.{name}" for name in kcl.__all__} <= entries

    def test_documented_names_exist(self):
        for entry in re.findall(r"^\.\. auto\w+:: (\S+)$", self.API, re.M):
            assert _resolve(entry) is not None

    def test_generated_pages_are_up_to_date(self):
        for path, text in _writer().pages().items():
            assert path.read_text(encoding="utf-8") == text, (
                f"{path} is old: run python tools/write_reference.py"
            )

    def test_variables_are_documented(self):
        documented = TEXTS[ROOT / "README.md"] + TEXTS[ROOT / "doc/reference/environment.md"]
        rows = ROWS.values()
        variables = {one.variable for one in settings.SETTINGS if not one.file_only}
        variables |= {name for row in rows for name in row.variables} - {"HOME"}
        variables |= {name for row in rows for name in row.code_variables}
        for name in variables:
            assert re.search(rf"`\$?{name}[`/?]", documented), name

    def test_no_variable_is_made_up(self):
        """Every KCL_ variable that a page names is a setting, or a definition that a page explains."""
        known = {setting.variable for setting in settings.SETTINGS} | {"KCL_HEADERS_", settings.RUN}
        for path, text in TEXTS.items():
            assert set(re.findall(r"\bKCL_[A-Z_]+", text)) <= known, path

    def test_length_of_the_readme(self):
        assert len((ROOT / "README.md").read_bytes()) <= 8_000


class TestWords:
    def test_never_installs_a_bare_name(self):
        assert _with(r"pip3? install (?:-\S+ )*[\"']?kcl\b") == []

    def test_switched_off_or_not_run(self):
        """No page runs a program behind `eval "$(...)"; `: where kcl is not found it would run with its caches on."""
        assert _with(r'eval "\$\([^)]*kcl env[^)]*\)";') == []

    def test_pages_are_in_the_index(self):
        index = (ROOT / "doc" / "index.md").read_text(encoding="utf-8")
        pages = {path.relative_to(ROOT / "doc").with_suffix("") for path in DOCUMENTS[1:]}
        assert {*map(str, pages)} - {"index"} <= set(index.split())


def _with(pattern: str) -> list[pathlib.Path]:
    return [path for path, text in TEXTS.items() if re.search(pattern, text)]


def _resolve(entry: str):
    """Import the longest module in a dotted name and take the rest as attributes."""
    parts = entry.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        try:
            found = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        for attribute in parts[count:]:
            found = getattr(found, attribute)
        return found
    return None


def _writer():
    place = ROOT / "tools" / "write_reference.py"
    spec = importlib.util.spec_from_file_location("write_reference", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
