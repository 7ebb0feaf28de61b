"""What every command prints where lines have 80 characters, over a cache of 10,000 entries: no key is cut.

The entries are made up, and valid: most are rows of one database, which are made quickly.
"""

import contextlib
import gc
import json
import os
import pathlib
import re
import shutil
import sqlite3
import sys
import tempfile
from itertools import pairwise

import pytest
from commands import invoke, run
from harness import run_command

from kcl import cli, option
from kcl.base import events, settings
from kcl.base.events import Event
from kcl.bundle.format import write
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.stores import address
from kcl.foreign.table import ROWS
from kcl.inspect import inventory
from kcl.inspect.history import records

pytestmark = pytest.mark.one_platform

COUNT, PROGRAMS = 10_000, 60
VERSION = "OpenCL 3.0 PoCL 5.0  Linux, Release, RELOC, LLVM 16, SLEEF"  # `show` wraps it
POCL = {"name": "Portable Computing Language", "version": VERSION}
CPU = {"name": "cpu-haswell-AMD Ryzen Threadripper PRO 7995WX 96-Cores", "driver": "5.0"}
NAMES = ("mm", "solve_poisson_3d", "a_kernel_whose_author_likes_" + "long_" * 8 + "names")


def entry(number: int, parts: dict[str, str], contents: dict[str, bytes], **metadata) -> Entry:
    """Return an entry with what code and program have in common: names of all lengths, some beyond any column."""
    common = {"kernel": f"{NAMES[number % 3]}_{number % 700}", "kernels": ["k"], "seconds": 0.3}
    common |= {"created": 1.7e9 + number, "program": Key([Part("n", str(number))]).digest}
    return Entry(Key([Part(*part) for part in parts.items()]), common | metadata, contents)


def code(number: int) -> Entry:
    parameters = [["block", str(number)], ["text", repr("x" * 60)]]
    recipe = {"site": f"drivers/{number}.py:{number}", "parameters": parameters}
    arguments = [[name, "ArrayArg", "<f8", True] for name in ("x", "y", "residual", "coefficients")]
    parts = {"record": str(number), "argument x": "<f8"}
    more = {"function": "invoke", "recipe": recipe, "arguments": arguments}
    return entry(number, parts, {"source.cl": b"kernel"}, **more)


def program(number: int) -> Entry:
    parts = {"format": "1", "source": str(number)}
    more = {"platform": POCL, "device": CPU, "options": ["-cl-std=CL1.2"] * 9}
    return entry(number, parts, {"source.cl": b"k", "binary": b"b"}, **more)


@pytest.fixture(scope="module")
def root():
    """A cache of 10,000 entries below a short path."""
    root = tempfile.mkdtemp(prefix="kcl-")
    folder = os.path.join(root, "pyopencl", "kcl-binary-v1", "cpu")
    os.makedirs(folder, mode=0o700)
    os.mkdir(os.path.join(root, "pytools"), 0o700)
    for made in map(program, range(PROGRAMS)):
        with open(os.path.join(folder, address(made.key.digest, "", "k")), "xb") as stream:
            stream.write(made.pack())
    rows = [code(number) for number in range(COUNT - PROGRAMS)]
    record = {"record.json": b'{"parts":[["source.c'}
    rows.append(Entry(Key([Part("record", "0")]), {"kernel": "mm_0", "base": {}}, record))
    path = os.path.join(root, "pytools", "pdict-v5-kcl-generated-v1-3.99.sqlite")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        columns = "keyhash TEXT NOT NULL PRIMARY KEY, key_value TEXT NOT NULL"
        connection.execute(f"CREATE TABLE dict ({columns})")
        packed = ((made.key.digest, made.pack()) for made in rows)
        connection.executemany("INSERT INTO dict VALUES (?, ?)", packed)
        connection.commit()
    yield root
    shutil.rmtree(root)


@pytest.fixture
def narrow(root, monkeypatch, tmp_path):
    """The commands print for 80 columns, and look at that cache."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    option.cache_dir(root)
    gc.disable()  # as a command does
    yield
    gc.enable()


def recorded():
    made = code(1)
    name, digest = made.metadata["kernel"], made.key.digest
    for _ in range(2):
        events.emit(Event("generator", name, digest, "miss", "not there", 0.1, 9), made.key)
    records.write()


def lines(*words, codes=(0, 1)):
    done = invoke(*words)
    assert done.exit_code in codes, done.output
    return done.output.splitlines()


COMMANDS = """\
status; status --all; ls; ls --layer binary; show {key}; show {program}; show mm_0; explain; verify; stats;
stats --by kernel,layer,day; env; env --off all; purge --all --dry-run; gc --dry-run --max-size 1M; doctor; report;
unpack tree --kernel mm_21; pin mm_21; unpin mm_22; tune --list; flush; wait; save all.kclb; save none.kclb nothing;
load {bundle}; rebuild {bundle}; key list; pull; push; remote ls""".replace("\n", " ").split("; ")


@pytest.mark.usefixtures("narrow")
class TestNarrow:
    def test_every_command_is_tried(self):
        """But for `run`, which prints what the program does, and `init`, which changes the settings."""
        assert {words.split()[0] for words in COMMANDS} == cli.COMMANDS.keys() - {"run", "init"}

    @pytest.mark.parametrize("words", COMMANDS)
    @pytest.mark.slow_cases(4)
    def test_fits(self, words):
        """No line is longer than 80 characters, but for one word, which is not broken: a path."""
        recorded()
        digests = {"key": code(7).key.digest[:12], "program": program(7).key.digest[:12]}
        keys = {**digests, "bundle": "empty.kclb"}
        pathlib.Path("empty.kclb").write_bytes(write([]))
        printed = lines(*words.format(**keys).split(), codes=(0, 1, 2))
        assert printed
        assert [line for line in printed if len(line) > 80 and len(line.split()) > 1] == []

    def test_keys(self):
        """`ls` has the key of each entry at the end of its first line, and `kcl show` takes it."""
        printed = "\n".join(lines("ls", "--limit", "0", codes=(0,)))
        keys = re.findall(r" ([0-9a-f]{12})$", printed, re.MULTILINE)
        assert set(keys) == {one.digest[:12] for one in inventory.entries()}
        assert len(keys) == COUNT
        shown = "\n".join(lines("show", keys[0], codes=(0,)))
        assert re.search(rf"^key +{keys[0]}[0-9a-f]{{52}}$", shown, re.MULTILINE)

    def test_partners(self):
        """`show` has the whole key of the entry in the other layer, with the parameters of the recipe."""
        shown = "\n".join(lines("show", program(7).key.digest, codes=(0,)))
        assert re.search(rf"^partner +{code(7).key.digest}$", shown, re.MULTILINE)
        assert re.search(r"^parameters +block=7,$", shown, re.MULTILINE)
        assert re.search(r"^recipe +drivers/7.py:7$", shown, re.MULTILINE)

    def test_counts(self):
        """`status` counts what `ls` lists, and reads no header for it."""
        layers = json.loads(run("status", "--json").output)["layers"]
        said = {row["layer"]: row["entries"] for row in layers}
        listed = [one["layer"] for one in json.loads(run("ls", "--json").output)]
        for layer in settings.LAYERS:
            assert listed.count(layer) == said[layer]
        assert said["generator"] == COUNT - PROGRAMS

    def test_wider(self, monkeypatch):
        """A wider terminal shows more, and a pipe everything."""
        heads = []
        for columns in ("60", "120", ""):
            monkeypatch.setenv("COLUMNS", columns)
            heads.append(set(lines("ls", "--limit", "5")[0].split()))
        assert all(one < other for one, other in pairwise(heads))
        assert {"parameters", "dtypes", "recipe"} < heads[-1]

    def test_help(self):
        """Help is not cut: every command has its whole first sentence, and no line is too long."""
        for words in ([], *([name] for name in cli.COMMANDS)):
            printed = lines(*words, "--help", codes=(0,))
            cut = [line for line in printed if "..." in line and not line.startswith("Usage:")]
            assert [line for line in printed if len(line) > 80] == cut == []

    @pytest.mark.parametrize(
        ("words", "meant"),
        [
            ("staus", "(did you mean 'status' or 'stats'?"),
            ("ls --limt 5", "Did you mean '--limit'?"),
            ("env --off pocll", "(did you mean 'pocl' or 'pyopencl'?"),
            ("purge binry", "(did you mean 'binary'"),
            ("stats --by kernl", "(did you mean 'kernel'?"),
        ],
    )
    def test_misspelt(self, words, meant):
        """What is misspelt is told with what was meant: commands, options, layers and caches."""
        printed = " ".join(" ".join(lines(*words.split(), codes=(2,))).split())
        assert meant in printed


@pytest.mark.skipif(os.name == "nt", reason="the shell is sh")
def test_all(child):
    """After `eval "$(kcl env --off all)"` every cache that `kcl status` shows is off, and `--on all` undoes it."""
    kcl = f'"{sys.executable}" -m kcl'
    ways = [f'eval "$({kcl} env --{way} all)"; {kcl} status --json' for way in ("off", "on")]
    done = run_command(["sh", "-c", "; echo; ".join(ways)], env=child.environment(), check=True)
    assert done.stderr == ""
    off, on = [json.loads(part)["layers"] for part in done.stdout.split("\n\n")]
    shown = {row["layer"] for row in off if row["kind"] != "neighbour" and row["directory"]}
    neighbours = {name for name, row in ROWS.items() if row.neighbour}
    assert {row["layer"] for row in off if not row["on"]} - neighbours == shown
    assert {"generator", "binary", "loopy", "pocl", "pyopencl", "pyopencl-binary"} < shown
    assert all(row["on"] for row in on if row["kind"] != "neighbour")
