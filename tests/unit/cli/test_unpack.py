"""`kcl unpack`: entries as files in folders."""

import json
import os

import pytest
from commands import program, run

from kcl.cache.key import Key
from kcl.cache.stores import address
from kcl.cache.stores.directory import Directory

pytestmark = pytest.mark.one_platform


def test_tree(cache, tmp_path):
    """Each program has its files below device, kernel and key, with the invoker that launches it."""
    assert "folders written" in run("unpack", str(tmp_path / "tree")).output
    address_, entry = cache.binary_of("optioned")
    folder = tmp_path / "tree" / address_.partition("/")[0] / "optioned" / entry.key.digest
    names = {name for name in os.listdir(folder) if not name.endswith((".bc", ".so"))}
    texts = "build.log invoker.py key.json options.txt program.bin rebuild.py source.cl"
    assert names == {*texts.split()}
    assert (folder / "source.cl").read_bytes() == entry.parts["source.cl"]
    assert (folder / "program.bin").read_bytes() == entry.parts["binary"]
    assert "-DFACTOR=11" in (folder / "options.txt").read_text().splitlines()
    described = json.loads((folder / "key.json").read_text())
    assert described["address"] == address_
    assert Key(map(tuple, described["key"])).digest == described["digest"] == entry.key.digest
    code = cache.row_of("optioned")[1]
    assert (folder / "invoker.py").read_bytes() == code.parts["invoker.py"]


def test_again(copy, tmp_path):
    """What is there is left as it is. Code that no program was made of lies under no device."""
    run("unpack", str(tmp_path), "--kernel", "typed")
    (source,) = tmp_path.rglob("source.cl")
    source.write_text("changed")
    assert "1 were there" in run("unpack", str(tmp_path), "--kernel", "typed").output
    assert source.read_text() == "changed"
    copy.binaries.delete(program("typed").address)
    run("unpack", str(tmp_path), "--kernel", "typed")
    (folder,) = (tmp_path / "any-device" / "typed").iterdir()
    assert sorted(os.listdir(folder)) == ["invoker.py", "key.json", "options.txt", "source.cl"]


def test_names(copy, tmp_path):
    """The name of a kernel leads nowhere else."""
    found = program("typed")
    entry = found.read([])
    entry.metadata["kernel"] = "../../up"
    store = Directory(copy.binaries.location)
    store.put(address(entry.key.digest, found.address.partition("/")[0], "up"), entry.pack())
    run("unpack", str(tmp_path / "tree"), "--kernel", "../../up")
    assert [path.name for path in tmp_path.iterdir() if path.name in ("tree", "up")] == ["tree"]
    assert len(list((tmp_path / "tree").rglob("program.bin"))) == 1


def test_rebuild(cache, tmp_path):
    """The script builds the program again, with pyopencl alone; it takes the directory of headers."""
    run("unpack", str(tmp_path), "--kernel", "included")
    (script,) = tmp_path.rglob("rebuild.py")
    header = next((cache.folder / "kernels").glob("*.h"))

    def rebuild(*options):
        code = (
            "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
        )
        code += "; assert 'kcl' not in sys.modules"
        return cache.child.python("-c", code, script, *options, KCL_NO_CACHE="1")

    assert header.name in rebuild().stderr  # the compiler misses it
    done = rebuild("-I", str(header.parent))
    assert done.returncode == 0, done.stderr
    assert "rebuilt.bin" in done.stdout
    assert (script.parent / "rebuilt.bin").stat().st_size > 0
