"""kcl ls, show, stats and unpack, on the cache of a real run."""

import os
import pathlib

import pytest
from commands import run

from kcl import option
from kcl.base import events
from kcl.inspect.history import journal

pytestmark = pytest.mark.one_platform


class TestUnusable:
    """Where a directory cannot be used each command says so, with the remedy, and ends with 1."""

    @pytest.fixture(params=["a file", "others can write"])
    def unusable(self, request, tmp_path):
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
        for line in ("ls", "show typed", f"unpack {tmp_path}/tree", "stats", "explain", "verify"):
            said = run(*line.split(), code=1).output
            assert str(unusable) in said, line
            assert "KCL_CACHE_DIR" in said, line

    @pytest.mark.skipif(os.name == "nt" or not os.getuid(), reason="nothing is unreadable to root")
    def test_unreadable(self, tmp_path):
        """What cannot be read is not taken for empty by `kcl purge`."""
        (tmp_path / "pytools").mkdir(mode=0o000)
        option.cache_dir(tmp_path)
        assert "Permission denied" in run("purge", "--yes", code=1).output

    def test_other_python(self, copy):
        other = pathlib.Path(copy.rows.location).with_name(
            "pdict-v5-kcl-generated-v1-2.7.0.final.0.sqlite"
        )
        other.write_bytes(b"no database")
        other.chmod(0o600)
        assert str(other) in run("ls", code=1).stderr
        assert "typed" in run("show", "typed", "--source").stdout


def test_no_command_imports_loopy(copy, tmp_path):
    """Each of them does its work without loopy, and but for the doctor, save, load and rebuild without pyopencl."""
    code = """
        import json, sys
        from click.testing import CliRunner
        from kcl.cli import COMMANDS, main
        lines = '''
            show control; explain control; unpack tree; env --off loopy; run --help; pin control; unpin control;
            purge --all --dry-run; key list; pull --help; push --help; remote --help; tune --list;
            save saved.kclb; load saved.kclb; rebuild --help; doctor'''
        words = {line.split()[0]: line.split() for line in lines.split(";")}
        said = {}
        for name in sorted(COMMANDS, key=lambda name: [*words].index(name) if name in words else -1):
            code = CliRunner().invoke(main, words.get(name, [name])).exit_code
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
    assert [said.pop(name)[0] for name in ("save", "load", "rebuild")] == [0, 0, 0]
    assert said == {name: [0, []] for name in said}


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    "line",
    ["unpack {}/tree", "save {}/x.kclb", "report --html {}/page.html", "show typed --binary {}/x"],
)
def test_unwritable(tmp_path, line):
    (tmp_path / "file").write_text("")
    said = run(*line.format(tmp_path / "file").split(), code=1).stderr
    assert said.count("\n") == 1
    assert "Not a directory" in said


@pytest.mark.usefixtures("cache")
def test_nothing_is_counted():
    before = journal.count_by_day()
    run("ls")
    run("show", "typed")
    assert not events.has_looked_up()
    assert journal.count_by_day() == before
