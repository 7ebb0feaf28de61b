"""kcl.foreign.shell, and `kcl env` with it: the lines that switch caches and move them."""

import json
import os
import shutil
import sys

import pytest
from commands import run
from harness import run_command

from kcl import foreign, option
from kcl.foreign import shell
from kcl.foreign.table import ROWS


@pytest.mark.parametrize("name", ROWS)
def test_off(name):
    """What switches a cache off is taken as off by its owner's own parser, and --on takes it back."""
    if not ROWS[name].switches:
        with pytest.raises(ValueError, match="no variable"):
            shell.plan_change([name], [], None)
        run("env", "--off", name, code=2)
        return
    with foreign.variables(shell.plan_change([name], [], None)):
        assert foreign.off(name)
        with foreign.variables(shell.plan_change([], [name], None)):
            assert not foreign.off(name)


def test_layers_of_kcl_that_are_off_stay_off_unless_they_are_wished_on(monkeypatch):
    assert shell.plan_change(["binary"], [], None) == {"KCL_NO_CACHE": "binary"}
    monkeypatch.setenv("KCL_NO_CACHE", "generator")
    assert shell.plan_change(["binary"], [], None) == {"KCL_NO_CACHE": "binary,generator"}
    assert shell.plan_change(["binary", "tuning"], [], None) == {"KCL_NO_CACHE": "1"}
    assert shell.plan_change([], ["generator"], None) == {"KCL_NO_CACHE": None}


@pytest.mark.skipif(sys.platform == "win32", reason="some caches lie elsewhere there")
def test_dir(tmp_path):
    """Under a wished directory lie kcl's files and every cache below it; no variable says otherwise."""
    target = str(tmp_path / "wished")
    with foreign.variables(shell.plan_change([], [], target)):
        assert option.get_cache_dir() == target
        places = [foreign.place(name).path for name, row in ROWS.items() if not row.neighbour]
        assert [path for path in places if path and not path.startswith(target)] == []


def test_json():
    """As JSON: what to set and what to unset."""
    assert json.loads(run("env", "--off", "generator, binary", "--json").stdout) == {
        "set": {"KCL_NO_CACHE": "binary,generator"},
        "unset": [],
    }


@pytest.mark.parametrize(
    "words",
    [
        *(["--off", "nonsense"], ["--off", "pocl", "--on", "pocl"], ["--off", "intel"]),
        *(["--off", ""], ["--dir", ""], ["--off", "pocl", "--dir", ""]),
    ],
)
def test_wrong_use(words):
    """A layer that there is not, a contradiction, what no variable can do, or nothing at all is a wrong use."""
    assert not run("env", *words, code=2).stdout


@pytest.mark.parametrize("name", shell.SHELLS)
def test_shells(name, tmp_path):
    """The lines set and unset what they say in their shell, whatever characters a path has."""
    program = shutil.which({"powershell": "pwsh"}.get(name, name))
    odd = 'it\'s $HOME `x` \\ "q"'
    wish = {"KCL_NO_CACHE": None, "KCL_CACHE_DIR": odd}
    text = "\n".join(shell.lines(wish, name))
    assert "KCL_CACHE_DIR" in text
    assert "KCL_NO_CACHE" in text
    if program is None:
        return
    code = "import os; print(os.environ.get('KCL_NO_CACHE'), os.environ['KCL_CACHE_DIR'], sep='|')"
    (tmp_path / "code.py").write_text(code)
    call = "& " if name == "powershell" else ""
    script = f"{text}\n{call}'{sys.executable}' '{tmp_path / 'code.py'}'\n"
    environment = {**os.environ, "KCL_NO_CACHE": "1"}
    done = run_command([program, "-c", script], env=environment)
    assert done.stdout.strip() == f"None|{odd}", done.stderr
