"""The recipes of the pages about remotes, sites, ranks, CI and containers, as a team gives them: twice, from empty.

In the second run every program hits: KCL_STRICT=hit. Before that of a page with a remote all caches are emptied, so
everything comes from the server, which is a directory, Redis or S3. What a team does once is done once: folders, keys
and trust. Of YAML the `run:` lines are run. `make pages` runs all; `test_documentation.py` compares what is printed.
"""

import pathlib
import re
import shutil

import console
import pytest
import remotes
from harness import ROOT

from kcl.drivers.pocl import client

PAGES = ROOT / "doc" / "howto"
REMOTE = ("remote", "ci-remote", "bucket")
OTHERS = ("site", "ranks", "ci", "containers")
SERVERS = ("file", "redis", "s3")
FIRST = ("ci-remote", "file")  # in `make test`
_BLOCK = re.compile(r"(?:<!-- ([^\n]*) -->\n)?```(\w+)\n(.*?)^```", re.M | re.S)
_ONCE = re.compile(r"mkdir |python -m kcl key (?:new|trust) ")
_RUN = re.compile(r"^- run: (.*)\n((?:  .*\n)*)", re.M)
_PLACE = re.compile(r"file://\$PWD/\w+")
_OTHER_REMOTE = "KCL_REMOTE="  # before a command: what a wrong address costs, which is a miss


class Team:
    """Gives the commands of a page in one directory; `address` is the remote in place of the directory of the page."""

    def __init__(self, page, directory, environment, address=""):
        self.text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
        self.directory, self.environment, self.address = directory, environment, address

    def run(self, again=False):
        """Give all commands; each ends with the status of the page."""
        shell = ""
        for note, language, body in _BLOCK.findall(self.text):
            if note.startswith("file: "):
                (self.directory / note.removeprefix("file: ")).write_text(body, encoding="utf-8")
            for command, status in self.commands(note, language, body):
                if again and _ONCE.match(command):
                    continue
                if command.startswith("export "):
                    shell += f"{command}\n"
                    continue
                strict = again and not command.startswith(_OTHER_REMOTE)
                more = {"KCL_STRICT": "hit"} if strict else {}
                script = f"{shell}{command}"
                ended, said = console.run(script, self.directory, self.environment | more)
                assert ended == status, f"again {again}, $ {command}\nended with {ended}:\n{said}"
        self.rest()

    def commands(self, note, language, body):
        """Return the commands of a block with their statuses."""
        if self.address:
            body = _PLACE.sub(self.address, body)
        if language == "console":
            found = [(one.text, 0) for one in console.commands(body)]
            if note.startswith("exit status "):
                found[-1] = found[-1][0], int(note.rpartition(" ")[2])
            return found
        return [(yaml(*one), 0) for one in _RUN.findall(body)]

    def rest(self):
        """Let the helpers end their work, as they do until the next job."""
        for folder in self.caches():
            if (folder / "kcl" / "pending").is_dir():
                assert client.idle(str(folder / "kcl"), 180.0)

    def caches(self):
        home = pathlib.Path(self.environment["HOME"])
        return [one.parent for place in (home, self.directory) for one in place.glob("*/kcl")]

    def empty(self):
        """Remove all caches, PoCL's too; what a team has set up in its home stays."""
        for folder in self.caches():
            if folder.name != ".config":
                shutil.rmtree(folder)


def yaml(run, below):
    """Return the command of a step, with its variables."""
    variables = re.findall(r"^    (\w+): (.*)$", below, re.M)
    placed = [f'{name}="{text}"' for name, text in variables]
    exported = "".join(f"export {one}; " for one in placed)
    return re.sub(r"\$\{\{ github\.workspace \}\}", "$PWD", exported) + run


@pytest.fixture
def team(child):
    """Return the team of a page, in a home and a project of its own."""
    project = child.directory / "project"
    project.mkdir(mode=0o700)
    variables = {"PYOPENCL_CTX": "portable", "HOME": str(child.home)}

    def team(page, server="file"):
        address = ""
        if server != "file":
            found = remotes.server(server, child.directory)
            address, more = found.address(), found.variables
            variables.update(more)
        environment = child.environment(**variables)
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            environment.pop(name, None)
        return Team(page, project, environment, address)

    return team


SLOW = [(page, server) for page in REMOTE for server in SERVERS if (page, server) != FIRST]


@pytest.mark.parametrize(
    ("page", "server"), [FIRST, *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW)]
)
def test_remote(team, page, server):
    """A job with empty caches gets everything from the server, and its push has nothing to do."""
    remotes.demand("obstore", "cryptography")
    one = team(page, server)
    one.run()
    one.empty()
    one.run(again=True)


@pytest.mark.slow
@pytest.mark.parametrize("page", OTHERS)
def test_others(team, page):
    one = team(page)
    one.run()
    one.run(again=True)


@pytest.mark.parametrize(
    ("page", "lines", "needed"),
    [
        ("containers", r"^(?:RUN|COPY|ENV|USER) ", "a docker daemon"),
        ("ci", r"^- uses: ", "a runner of GitHub"),
        ("ci", r"GitLab's executor", "a runner of GitLab"),
    ],
)
def test_left_out(page, lines, needed):
    """What needs a machine of others is named; its lines are on the page, and nobody runs them here."""
    assert re.search(lines, (PAGES / f"{page}.md").read_text(encoding="utf-8"), re.M)
    pytest.skip(f"{page}.md: lines that need {needed} are not run")


def test_yaml():
    """A step has its variables, and those of GitHub stand for places here."""
    text = "- run: python a.py\n  env:\n    KCL_CACHE_DIR: ${{ github.workspace }}/kernels\n- uses: b\n"
    (one,) = _RUN.findall(text)
    assert yaml(*one) == 'export KCL_CACHE_DIR="$PWD/kernels"; python a.py'
