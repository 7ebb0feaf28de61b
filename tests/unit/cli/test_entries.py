"""kcl ls, show, stats and unpack, on the cache of a real run."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from click.testing import CliRunner

from kcl import cli, events, option
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.cache.stores.base import address
from kcl.cache.stores.directory import Directory
from kcl.cli import ls as ls_module
from kcl.cli.assembly import NoAssembly, assembly
from kcl.inspect import inventory
from kcl.inspect.history import journal

pytestmark = pytest.mark.one_platform


def run(*arguments, code=0):
    """Run a command in this process and return its result, which must end as told."""
    result = CliRunner().invoke(cli.main, list(arguments))
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def cache(filled):
    """The cache of a cold and a warm run; only to be read."""
    option.cache_dir(filled.project.child.cache)
    return filled.project


@pytest.fixture
def copy(warm):
    """A copy of that cache."""
    option.cache_dir(warm.child.cache)
    return warm


def program(kernel: str) -> inventory.Summary:
    """Return the program of a kernel."""
    (found,) = [one for one in inventory.find(kernel) if one.layer == "binary"]
    return found


class TestLs:
    def test_all(self, cache):
        """Every kernel has a line for its program and one for its code, with device, times, uses and key."""
        head, *lines = run("ls").output.splitlines()
        assert head.split() == ["kernel", "layer", "device", "size", "built", "took", "last", "used", "uses", "key"]
        address_, _entry = cache.binary_of("typed")
        (line,) = [line for line in lines if line.split()[:2] == ["typed", "binary"]]
        assert line.endswith(f"1  {address_[-64:][:12]}")
        assert " never " not in line
        assert len(lines) == len(list(inventory.summaries()))

    def test_json(self, cache):
        """--json has a stable set of members, with numbers as numbers."""
        found = json.loads(run("ls", "--json", "--kernel", "typed", "--layer", "binary").output)
        (one,) = found
        _address, entry = cache.binary_of("typed")
        assert set(one) == {
            *("kernel", "layer", "platform", "device", "bytes"),
            *("built", "build_seconds", "last_used", "uses", "key"),
        }
        assert one["key"] == entry.key.digest
        assert one["build_seconds"] == entry.metadata["seconds"]
        assert one["uses"] == 1
        assert one["built"] < one["last_used"]

    @pytest.mark.usefixtures("cache")
    def test_filters(self):
        """Layer, kernel (a name or a pattern) and device narrow the list."""
        everything = json.loads(run("ls", "--json").output)
        code = json.loads(run("ls", "--json", "--layer", "generator").output)
        named = json.loads(run("ls", "--json", "--kernel", "from_*").output)
        (name,) = {one["device"] for one in everything if one["layer"] == "binary"}
        device = json.loads(run("ls", "--json", "--device", name[2:].upper()).output)
        assert {one["layer"] for one in code} == {"generator"}
        assert {one["kernel"] for one in named} == {"from_global", "from_class", "from_file"}
        assert {one["layer"] for one in device} == {"binary"}
        assert run("ls", "--device", "no such").output == "no entries\n"

    @pytest.mark.usefixtures("cache")
    @pytest.mark.parametrize("sort", ls_module.SORTS)
    def test_sort(self, sort):
        """Words are sorted up, numbers and times down; a limit takes the first."""
        found = json.loads(run("ls", "--json", "--sort", sort).output)
        member = {"size": "bytes", "took": "build_seconds", "used": "last_used"}.get(sort, sort)
        values = [one[member] or 0 for one in found] if sort == "used" else [one[member] for one in found]
        assert values == sorted(values, reverse=sort not in ("kernel", "layer", "device"))
        assert json.loads(run("ls", "--json", "--sort", sort, "--limit", "3").output) == found[:3]

    @pytest.mark.usefixtures("cache")
    def test_limit(self):
        """A limit says how many are left out."""
        count = len(list(inventory.summaries()))
        lines = run("ls", "--limit", "2").output.splitlines()
        assert lines[-1] == f"{count - 2} more; --limit 0 shows all"
        assert len(lines) == 4

    def test_nothing(self, tmp_path):
        """Where there is no cache there are no entries, and none is made."""
        option.cache_dir(tmp_path / "none")
        assert run("ls").output == "no entries\n"
        assert json.loads(run("ls", "--json").output) == []
        assert not (tmp_path / "none").exists()

    def test_damaged(self, copy):
        """A damaged entry is named on stderr, the status is 1, and the others are listed."""
        path = os.path.join(copy.binaries.location, program("typed").address)
        with open(path, "r+b") as stream:
            stream.truncate(100)
        result = run("ls", "--layer", "binary", code=1)
        assert path in result.stderr
        assert len(result.stdout.splitlines()) == 1 + len(list(inventory.summaries("binary")))

    @pytest.mark.usefixtures("copy")
    def test_unused(self):
        """After a reset of the statistics no entry was used."""
        run("stats", "--reset")
        assert {one["uses"] for one in json.loads(run("ls", "--json").output)} == {0}
        assert "  never  " in run("ls").output


class TestStats:
    @pytest.mark.usefixtures("cache")
    def test_by_layer(self, filled):
        """Alone it adds up by layer, in the order of the line."""
        head, generator, binary = run("stats").output.splitlines()
        counted = ["layer", "hits", "misses", "bypassed", "errors", "hit", "rate", "spent", "saved"]
        assert head.split() == counted
        assert generator.split()[0] == "generator"
        hits = filled.second.said["stats"]["binary"]["hits"]
        misses = filled.cold.said["stats"]["binary"]["misses"]
        rate = f"{100 * hits / (hits + misses):.0f}"
        assert binary.split()[:7] == ["binary", str(hits), str(misses), "0", "0", rate, "%"]

    @pytest.mark.usefixtures("cache")
    def test_by_several(self):
        """Kernels, layers and days can be combined, in the order that is asked for."""
        found = json.loads(run("stats", "--by", "kernel,layer", "--json").output)
        assert found[0].keys() == {"kernel", "layer", *journal.COUNTERS}
        (one,) = [row for row in found if (row["kernel"], row["layer"]) == ("typed", "binary")]
        assert (one["hits"], one["misses"]) == (1, 1)
        days = json.loads(run("stats", "--by", "day", "--json").output)
        assert sum(row["hits"] for row in days) == sum(row["hits"] for row in found)

    def test_wrong(self):
        """What is none of the three is a wrong use."""
        assert "none of layer, kernel, day" in run("stats", "--by", "week", code=2).output

    @pytest.mark.usefixtures("copy")
    def test_reset(self):
        """--reset forgets statistics, uses and misses."""
        run("stats", "--reset")
        assert run("stats").output == "no look-ups are recorded\n"
        assert journal.last_misses() == []


class TestShow:
    def test_by_name(self, cache):
        """A kernel that has one entry in each layer is shown with both."""
        code, made = run("show", "typed").output.split("\n\n")
        facts = dict(line.split(None, 1) for line in made.splitlines())
        address_, entry = cache.binary_of("typed")
        assert (facts["kernel"], facts["layer"], facts["key"]) == ("typed", "binary", entry.key.digest)
        assert facts["file"] == os.path.join(cache.binaries.location, address_)
        assert facts["uses"].startswith("1, last ")
        assert "invoker.py" in code
        assert cache.rows.location in code

    def test_by_prefix(self, cache):
        """So does the start of a digest, of one entry."""
        _address, entry = cache.row_of("typed")
        assert entry.key.digest in run("show", entry.key.digest[:12]).output
        assert "\n\n" not in run("show", entry.key.digest[:12]).output

    def test_pieces(self, cache):
        """Source, options, log, invoker and key are printed as they are, and nothing else."""
        _address, entry = cache.binary_of("optioned")
        _row, code = cache.row_of("optioned")
        assert run("show", "optioned", "--source").output.strip() == entry.parts["source.cl"].decode().strip()
        assert "-DFACTOR=11" in run("show", "optioned", "--options").output.splitlines()
        assert run("show", "optioned", "--log").output.strip() == entry.parts["build.log"].decode().strip()
        assert run("show", "optioned", "--invoker").output.strip() == code.parts["invoker.py"].decode().strip()
        assert run("show", "optioned", "--key").output.splitlines() == [
            f"{part.name} = {part.value}" for part in entry.key.parts
        ]

    def test_binary(self, cache, tmp_path):
        """The program binary is written to a file."""
        _address, entry = cache.binary_of("typed")
        assert run("show", "typed", "--binary", str(tmp_path / "typed.bin")).output == ""
        assert (tmp_path / "typed.bin").read_bytes() == entry.parts["binary"]
        assert "cannot write" in run("show", "typed", "--binary", str(tmp_path / "no" / "x"), code=1).stderr

    @pytest.mark.usefixtures("cache")
    def test_assembly(self):
        """The native code is disassembled, by kernel."""
        text = run("show", "typed", "--asm").output
        assert "<" in text
        assert "ret" in text

    def test_json(self, cache):
        """--json has everything but the bytes, and the texts that are asked for."""
        code, made = json.loads(run("show", "typed", "--json").output)
        _address, entry = cache.binary_of("typed")
        assert Key(map(tuple, made["parts"])) == entry.key
        assert made["metadata"] == entry.metadata
        assert made["sizes"] == {name: len(part) for name, part in entry.parts.items()}
        assert code["layer"] == "generator"
        assert "source" not in made
        (made,) = json.loads(run("show", "typed", "--json", "--source").output)
        assert made["source"].strip() == entry.parts["source.cl"].decode().strip()

    @pytest.mark.usefixtures("cache")
    def test_ambiguous(self):
        """Where several entries are meant they are listed, and the status is 2."""
        result = run("show", "untyped", code=2)
        entries = [one for one in inventory.find("untyped") if one.layer == "binary"]
        assert all(one.digest[:12] in result.stdout for one in entries)
        assert "give more digits" in result.stderr

    def test_several_devices(self, copy):
        """Of programs for several devices the code that they were made of is one."""
        found = program("typed")
        entry = inventory.read("binary", found.address)
        key = Key((part.name, "another" if part.name == "driver" else part.value) for part in entry.key.parts)
        copy.binaries.put(address(key.digest, "another", "typed"), Entry(key, entry.metadata, entry.parts).pack())
        assert run("show", "typed", "--source").stdout.encode().strip() == entry.parts["source.cl"].strip()
        assert "of 3 entries" in run("show", "typed", code=2).stderr
        assert "of 2 entries" in run("show", "typed", "--log", code=2).stderr

    @pytest.mark.usefixtures("cache")
    def test_unknown(self):
        """Where none is meant the status is 1, and the message says what to do."""
        assert "kcl ls" in run("show", "nothing", code=1).stderr

    def test_lacking(self, cache):
        """An entry that has not what is asked for says so."""
        digest = cache.row_of("typed")[1].key.digest
        assert "no asm" in run("show", digest, "--asm", code=1).stderr
        assert "no binary" in run("show", digest, "--binary", "x", code=1).stderr

    def test_damaged(self, copy):
        """A damaged entry is an error in one line."""
        found = program("typed")
        with open(os.path.join(copy.binaries.location, found.address), "r+b") as stream:
            stream.seek(-1, os.SEEK_END)
            stream.write(b"X")
        assert "cannot be read" in run("show", found.digest, code=1).stderr


class TestAssembly:
    def test_ptx(self):
        """NVIDIA's binary is text already."""
        text = ".version 8.3\n.target sm_90\n.visible .entry axpy()\n{ ret; }\n"
        assert assembly(text.encode() + b"\0") == text

    @pytest.mark.parametrize("binary", [b"", b"BC\xc0\xde", b"poclbin\0" + bytes(80)])
    def test_unknown(self, binary):
        """What cannot be taken apart is said to be so."""
        with pytest.raises(NoAssembly):
            assembly(binary)

    def test_no_objdump(self, monkeypatch):
        """Without objdump the message says which package has it."""
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(NoAssembly, match="binutils"):
            assembly(b"\x7fELF" + bytes(100))


class TestUnpack:
    def test_tree(self, cache, tmp_path):
        """Each program has its files below device, kernel and key, with the invoker that launches it."""
        assert "folders written" in run("unpack", str(tmp_path / "tree")).output
        address_, entry = cache.binary_of("optioned")
        folder = tmp_path / "tree" / address_.partition("/")[0] / "optioned" / entry.key.digest
        assert sorted(os.listdir(folder)) == [
            *("build.log", "invoker.py", "key.json", "options.txt", "program.bin", "rebuild.py", "source.cl"),
        ]
        assert (folder / "source.cl").read_bytes() == entry.parts["source.cl"]
        assert (folder / "program.bin").read_bytes() == entry.parts["binary"]
        assert "-DFACTOR=11" in (folder / "options.txt").read_text().splitlines()
        described = json.loads((folder / "key.json").read_text())
        assert Key(map(tuple, described["key"])).digest == described["digest"] == entry.key.digest
        assert (folder / "invoker.py").read_bytes() == cache.row_of("optioned")[1].parts["invoker.py"]

    @pytest.mark.usefixtures("cache")
    def test_again(self, tmp_path):
        """What is there is left as it is."""
        run("unpack", str(tmp_path), "--kernel", "typed")
        (source,) = tmp_path.rglob("source.cl")
        source.write_text("changed")
        assert "1 were there" in run("unpack", str(tmp_path), "--kernel", "typed").output
        assert source.read_text() == "changed"

    def test_code_alone(self, copy, tmp_path):
        """Code that no program was made of lies under no device."""
        copy.binaries.delete(program("typed").address)
        run("unpack", str(tmp_path), "--kernel", "typed")
        (folder,) = (tmp_path / "any-device" / "typed").iterdir()
        assert sorted(os.listdir(folder)) == ["invoker.py", "key.json", "options.txt", "source.cl"]

    def test_names(self, copy, tmp_path):
        """The name of a kernel leads nowhere else."""
        found = program("typed")
        entry = inventory.read("binary", found.address)
        entry.metadata["kernel"] = "../../up"
        store = Directory(copy.binaries.location)
        store.put(address(entry.key.digest, found.address.partition("/")[0], "up"), entry.pack())
        run("unpack", str(tmp_path / "tree"), "--kernel", "../../up")
        assert [path.name for path in tmp_path.iterdir() if path.name in ("tree", "up")] == ["tree"]
        assert len(list((tmp_path / "tree").rglob("program.bin"))) == 1

    def test_rebuild(self, cache, tmp_path):
        """The script builds the program again, with pyopencl alone; it asks for the directory of headers."""
        run("unpack", str(tmp_path), "--kernel", "included")
        (script,) = tmp_path.rglob("rebuild.py")
        header = next((cache.folder / "kernels").glob("*.h"))

        def rebuild(*options):
            code = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
            command = [sys.executable, "-c", f"{code}; assert 'kcl' not in sys.modules", str(script), *options]
            environment = cache.child.environment(KCL_NO_CACHE="1")
            return subprocess.run(command, env=environment, text=True, capture_output=True, timeout=120)

        assert f"the source includes {header.name}: say where" in rebuild().stderr
        done = rebuild("-I", str(header.parent))
        assert done.returncode == 0, done.stderr
        assert "rebuilt.bin" in done.stdout
        assert (script.parent / "rebuilt.bin").stat().st_size > 0

    @pytest.mark.usefixtures("cache")
    def test_not_writable(self, tmp_path):
        """What cannot be written is named, and the status is 1."""
        (tmp_path / "file").write_text("")
        said = run("unpack", str(tmp_path / "file" / "below"), code=1).stderr
        assert "cannot be made" in said
        assert said.count("\n") == 1


class TestUnusable:
    """Where a directory cannot be used each command says so, with the remedy, and ends with 1."""

    @pytest.fixture(params=["a file", "others can write"])
    def unusable(self, request, tmp_path):
        """A cache directory that is none, or not the user's alone."""
        root = tmp_path / "unusable"
        if request.param == "a file":
            root.write_text("")
        else:
            for name in ("pytools", "pyopencl/kcl-binary-v1", "kcl/journal"):
                (root / name).mkdir(parents=True)
            root.chmod(0o777)
        option.cache_dir(root)
        return root

    def test_said(self, unusable, tmp_path):
        """In the words of the layer itself."""
        for words in (["ls"], ["show", "typed"], ["unpack", str(tmp_path / "tree")], ["stats"], ["explain"]):
            said = run(*words, code=1).output
            assert str(unusable) in said, words
            assert "KCL_CACHE_DIR" in said, words
        assert "KCL_CACHE_DIR" in run("verify", code=1).stdout

    @pytest.mark.skipif(os.name == "nt" or not os.getuid(), reason="nothing is unreadable to root")
    def test_unreadable(self, tmp_path):
        """What cannot be read is not taken for empty by `kcl purge`."""
        (tmp_path / "pytools").mkdir(mode=0o000)
        option.cache_dir(tmp_path)
        assert "Permission denied" in run("purge", "--yes", code=1).output

    def test_other_python(self, copy):
        """A damaged file of another Python is named, and hides no entry."""
        other = pathlib.Path(copy.rows.location).with_name("pdict-v5-kcl-generated-v1-2.7.0.final.0.sqlite")
        other.write_bytes(b"no database")
        other.chmod(0o600)
        assert str(other) in run("ls", code=1).stderr
        assert "typed" in run("show", "typed", "--source").stdout


def test_no_command_imports_loopy(copy, tmp_path):
    """Each of them does its work without loopy, and but for the doctor without pyopencl."""
    code = """
        import json, sys
        from click.testing import CliRunner
        from kcl.cli import COMMANDS, main
        wishes = {
            "show": ["control"],
            "explain": ["control"],
            "verify": ["--all"],
            "unpack": ["tree"],
            "env": ["--off", "loopy"],
            "purge": ["--all", "--dry-run"],
            "init": [],
        }
        said = {}
        for name in sorted(COMMANDS, key=lambda name: name == "doctor"):
            code = CliRunner().invoke(main, [name, *wishes.get(name, [])]).exit_code
            said[name] = [code, sorted({"loopy", "pyopencl"} & set(sys.modules))]
        print(json.dumps(said))
        """
    child = copy.child
    (child.directory / ".git").mkdir(mode=0o700)
    refused = tmp_path / "refused" / "loopy"
    refused.mkdir(parents=True)
    (refused / "__init__.py").write_text("raise AssertionError('loopy is imported')\n")
    path = os.pathsep.join([str(refused.parent), child.environment()["PYTHONPATH"]])
    said = child.json(code, PYTHONPATH=path, XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert said.pop("doctor")[1] == ["pyopencl"]
    assert said == {name: [0, []] for name in cli.COMMANDS if name != "doctor"}


class TestCompletion:
    """What a shell gets that asks as the line in its start-up file makes it ask."""

    def completed(self, *words):
        """Return what bash may go on with behind these words."""
        asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_KCL_COMPLETE": "bash_complete"}
        said = CliRunner().invoke(cli.main, [], prog_name="kcl", env=asked).stdout
        return [line.partition(",")[2] for line in said.splitlines()]

    @pytest.mark.usefixtures("cache")
    def test_names(self):
        """Commands, options, layers, the last of a list of layers, kernels."""
        assert self.completed("kcl", "pu") == ["purge"]
        assert self.completed("kcl", "purge", "--o") == ["--older"]
        assert self.completed("kcl", "purge", "po") == ["pocl"]
        assert self.completed("kcl", "env", "--off", "binary,ne") == ["binary,neo"]
        assert self.completed("kcl", "ls", "--layer", "g") == ["generator"]
        for words in (["show"], ["ls", "--kernel"], ["unpack", "--kernel"], ["purge", "--kernel"], ["explain"]):
            assert self.completed("kcl", *words, "from_") == ["from_class", "from_file", "from_global"], words

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_source(self, shell):
        """Each shell of the documentation gets a script."""
        said = CliRunner().invoke(cli.main, [], prog_name="kcl", env={"_KCL_COMPLETE": f"{shell}_source"})
        assert f"_KCL_COMPLETE={shell}_complete" in said.stdout


@pytest.mark.usefixtures("cache")
def test_nothing_is_counted():
    """These commands look nothing up: they leave no event and no record."""
    before = journal.totals()
    run("ls")
    run("show", "typed")
    assert events.collected().tallies == {}
    assert journal.totals() == before
