"""`kcl show`: one entry with everything that it holds."""

import json
import os

import pytest
from commands import flip, program, run, with_parts

from kcl.cache.key import Key
from kcl.cache.stores import address
from kcl.cli import output
from kcl.cli.show import disassemble
from kcl.inspect import inventory

pytestmark = pytest.mark.one_platform


def printed(*words):
    return run("show", *words).stdout.strip()


def text(entry, part):
    return entry.parts[part].decode().strip()


class TestShow:
    def test_by_name(self, cache, monkeypatch):
        """A kernel that has one entry in each layer is shown with both; the start of a digest is one entry."""
        # Time passes between the two commands.
        monkeypatch.setattr(output, "format_ago", lambda _moment: "today")
        code, made = run("show", "typed").output.split("\n\n")
        facts = dict(line.split(None, 1) for line in made.splitlines())
        address_, entry = cache.binary_of("typed")
        assert [facts[name] for name in ("kernel", "layer", "key")] == [
            *("typed", "binary", entry.key.digest)
        ]
        assert facts["file"] == os.path.join(cache.binaries.location, address_)
        assert facts["uses"] == "1, last today"
        assert "invoker.py" in code
        assert cache.rows.location in code
        digest = cache.row_of("typed")[1].key.digest
        assert run("show", digest[:12]).output == f"{code}\n"

    def test_pieces(self, cache, tmp_path):
        _address, entry = cache.binary_of("optioned")
        _row, code = cache.row_of("optioned")
        assert printed("optioned", "--source") == text(entry, "source.cl")
        assert printed("optioned", "--log") == text(entry, "build.log")
        assert printed("optioned", "--invoker") == text(code, "invoker.py")
        assert "-DFACTOR=11" in printed("optioned", "--options").splitlines()
        parts = [f"{part.name} = {part.value}" for part in entry.key.parts]
        assert printed("optioned", "--key").splitlines() == parts
        assert run("show", "optioned", "--binary", str(tmp_path / "made.bin")).output == ""
        assert (tmp_path / "made.bin").read_bytes() == entry.parts["binary"]
        assembly = run("show", "typed", "--asm").output
        assert "<" in assembly
        assert "ret" in assembly

    def test_json(self, cache):
        code, made = json.loads(run("show", "typed", "--json").output)
        _address, entry = cache.binary_of("typed")
        assert Key(map(tuple, made["parts"])) == entry.key
        assert made["metadata"] == entry.metadata
        assert made["sizes"] == {name: len(part) for name, part in entry.parts.items()}
        assert code["layer"] == "generator"
        assert "source" not in made
        (made,) = json.loads(run("show", "typed", "--json", "--source").output)
        assert made["source"].strip() == text(entry, "source.cl")

    @pytest.mark.usefixtures("cache")
    def test_ambiguous(self):
        result = run("show", "untyped", code=1)
        keys = [
            entry.digest[:12] for entry in inventory.find_named("untyped", [*inventory.entries()])
        ]
        assert all(key in result.stderr for key in keys)
        assert result.stdout == ""
        assert "give more digits" in result.stderr

    def test_several_devices(self, copy):
        """Of programs for several devices the code that they were made of is one."""
        found = program("typed")
        entry = found.read([])
        other = with_parts(entry, driver="another")
        copy.binaries.put(address(other.key.digest, "another", "typed"), other.pack())
        assert printed("typed", "--source") == text(entry, "source.cl")
        assert "of 3 entries" in run("show", "typed", code=1).stderr
        assert "of 2 entries" in run("show", "typed", "--log", code=1).stderr

    def test_lacking(self, cache):
        digest = cache.row_of("typed")[1].key.digest
        assert "kcl ls" in run("show", "nothing", code=1).stderr
        assert "no log" in run("show", digest, "--log", code=1).stderr
        assert "no asm" in run("show", digest, "--asm", code=1).stderr
        assert "no binary" in run("show", digest, "--binary", "x", code=1).stderr

    def test_damaged(self, copy):
        found = program("typed")
        flip(os.path.join(copy.binaries.location, found.address), -1)
        assert "does not fit its bytes" in run("show", found.digest, code=1).stderr


@pytest.mark.one_platform
class TestAssembly:
    def test_ptx(self):
        """NVIDIA's binary is text already."""
        text = ".version 8.3\n.target sm_90\n.visible .entry axpy()\n{ ret; }\n"
        assert disassemble(text.encode() + b"\0") == text

    @pytest.mark.parametrize(
        ("binary", "words"),
        [
            (b"", "neither PTX"),
            (b"BC\xc0\xde", "neither PTX"),
            (b"poclbin\0" + bytes(80), "be taken apart"),
            (b"\x7fELF" + bytes(100), "binutils"),
        ],
    )
    def test_unknown(self, binary, words, capsys, monkeypatch):
        monkeypatch.setenv("PATH", "/nowhere")  # where no objdump is
        with pytest.raises(SystemExit, match="1"):
            disassemble(binary)
        assert words in capsys.readouterr().err
