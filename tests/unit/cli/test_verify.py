"""`kcl verify`: damaged entries are named."""

import json
import os

import pytest
from commands import kcl


def verify(project, *options):
    """Run `kcl verify --json` beside a project's cache: (exit status, what it says)."""
    refused = project.child.directory / "refused" / "loopy"
    refused.mkdir(parents=True, exist_ok=True)
    (refused / "__init__.py").write_text("raise AssertionError('loopy is imported')\n")
    path = os.pathsep.join([str(refused.parent), project.child.environment()["PYTHONPATH"]])
    done = kcl(project, "verify", "--json", *options, PYTHONPATH=path)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def path_of(project, kernel):
    """Return the file of a kernel's program."""
    return os.path.join(project.binaries.location, project.binary_of(kernel)[0])


def flip(path, position):
    """Flip a bit in a file."""
    with open(path, "r+b") as stream:
        stream.seek(position, os.SEEK_SET if position >= 0 else os.SEEK_END)
        (byte,) = stream.read(1)
        stream.seek(-1, os.SEEK_CUR)
        stream.write(bytes([byte ^ 1]))


@pytest.mark.one_platform
class TestDigests:
    def test_fine(self, warm):
        """All entries that were just written are whole, by their headers and by every byte."""
        counts = {
            "generator": len(list(warm.rows.scan())),
            "binary": len(list(warm.binaries.scan())),
        }
        for options in ([], ["--headers"]):
            status, said = verify(warm, *options)
            assert (status, said["damaged"], said["checked"]) == (0, [], counts)

    def test_damaged(self, warm):
        """Headers show a changed header, an entry cut short and one in another's place; all bytes show the rest."""
        header, body, short = (path_of(warm, kernel) for kernel in ("control", "body", "helped"))
        flip(header, 200)
        flip(body, -1)
        os.truncate(short, os.path.getsize(short) - 1)
        address, entry = warm.row_of("closed")
        (other, _entry) = warm.row_of("defaulted")
        warm.rows.put(other, entry.pack())
        status, said = verify(warm, "--headers")
        places = {fault["place"] for fault in said["damaged"]}
        assert status == 1
        assert {header, short} <= places
        assert body not in places
        assert any(other in place for place in places)
        assert not any(address in place for place in places)
        status, said = verify(warm)
        assert status == 1
        assert {header, short, body} <= {fault["place"] for fault in said["damaged"]}
        assert len(said["damaged"]) == 4

    def test_words(self, warm):
        """A person reads how many were checked, which are damaged, and what becomes of them."""
        path = path_of(warm, "control")
        flip(path, -1)
        done = kcl(warm, "verify")
        assert "damaged: 1\n" in done.stdout
        assert f"binary: {path}: the digest over the entry does not fit its bytes\n" in done.stdout
        assert "makes it anew" in done.stdout

    def test_of_pocl(self, warm):
        """Damaged files in PoCL's own cache are named, and what becomes of them."""
        path = warm.child.cache / "pocl" / "kcache" / "AB" / ("C" * 37) / "program.bc"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"garbage")
        status, said = verify(warm)
        assert (status, said["damaged"]) == (
            1,
            [{"layer": "pocl", "place": str(path), "reason": "it is no bitcode"}],
        )
        done = kcl(warm, "verify")
        assert f"pocl: {path}: it is no bitcode\n" in done.stdout
        assert "kcl purge pocl removes the rest" in done.stdout

    def test_empty(self, project):
        """An empty cache is fine, and stays empty."""
        status, said = verify(project)
        assert (status, said["checked"]) == (0, {"generator": 0, "binary": 0})
        assert not project.child.cache.exists()
