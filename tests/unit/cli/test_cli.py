"""The command line: `kcl`, also as `python -m kcl`."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import sysconfig

import pytest
from click.shell_completion import ShellComplete
from commands import kcl, run
from harness import run_command

from kcl import cli


@pytest.mark.one_platform
def test_options():
    for option in ("--version", "-h"):
        assert "kcl" in run(option).stdout


@pytest.mark.one_platform
def test_script(project):
    """The lines for a shell come from the command itself; the script `kcl`, where it is installed, is the same one."""
    code = "import sys; sys.argv[0] = 'kcl'; from kcl.__main__ import main; main()"
    assert "COMP_WORDS" in project.child.run(code, _KCL_COMPLETE="bash_source").stdout
    script = os.path.join(sysconfig.get_path("scripts"), "kcl")
    if not os.path.exists(script):
        pytest.skip("kcl is not installed here, only importable")
    done = run_command([script, "-h"], env=project.child.environment())
    assert done.stdout == kcl(project, "-h").stdout.replace("python -m kcl", "kcl")


@pytest.mark.one_platform
class TestOutput:
    """What happens to the output, or to the command, leaves no traceback."""

    def piped(self, project, stdout, *arguments, **variables):
        command = [sys.executable, "-m", "kcl", *arguments]
        streams = {"stdin": subprocess.PIPE, "stdout": stdout, "stderr": subprocess.PIPE}
        environment = project.child.environment(**variables)
        return subprocess.Popen(command, env=environment, text=True, **streams)

    def test_closed_early(self, project):
        """A reader that has read enough, as `head` has, is no fault."""
        reader, writer = os.pipe()
        os.close(reader)
        started = self.piped(project, writer, "env")
        os.close(writer)
        assert started.communicate(timeout=60)[1] == ""

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
    @pytest.mark.parametrize("length", [0, 2000])
    def test_full(self, project, length):
        """Output that cannot be written is said in one line, and the status is 1, more than a buffer of it too."""
        long = "/".join([str(project.child.cache), *["x" * 100] * (length // 100)])
        with open("/dev/full", "w") as full:
            started = self.piped(project, full, "env", KCL_CACHE_DIR=long)
            said = started.communicate(timeout=60)[1]
        assert (started.returncode, said.count("\n")) == (1, 1)
        assert "No space left on device" in said

    @pytest.mark.skipif(sys.platform != "linux", reason="names that are no text")
    @pytest.mark.parametrize("encoding", ["utf-8:strict", "latin-1:strict"])
    def test_any_name(self, project, encoding):
        strange = os.fsencode(project.child.directory) + b"/caf\xff\xe2\x82\xac"
        variables = {"KCL_CACHE_DIR": os.fsdecode(strange), "PYTHONIOENCODING": encoding}
        command, environment = [sys.executable, "-m", "kcl", "status"], project.child.environment()
        done = subprocess.run(command, env=environment | variables, capture_output=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, b"")
        assert (strange if "utf" in encoding else b"caf\\udcff\\u20ac") in done.stdout

    @pytest.mark.skipif(os.name == "nt", reason="as sh closes it")
    def test_none(self, project):
        """Without a stdout a command does what it does, and ends as it ends."""
        command = ["sh", "-c", f"exec '{sys.executable}' -m kcl ls >&-"]
        done = subprocess.run(command, env=project.child.environment(), stderr=subprocess.PIPE)
        assert (done.returncode, done.stderr) == (0, b"")

    @pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
    def test_interrupted(self, project):
        kept = project.child.cache / "pocl" / "kcache" / "AB"
        kept.mkdir(parents=True)
        started = self.piped(project, subprocess.PIPE, "purge", "pocl")
        asked = ""
        while not asked.endswith("Remove this?"):
            asked += (letter := started.stdout.read(1))
            assert letter, asked
        started.send_signal(signal.SIGINT)
        said = started.communicate(timeout=60)[1]
        assert (started.returncode, said.strip()) == (1, "Aborted!")
        assert kept.exists()


@pytest.mark.one_platform
class TestColours:
    def on_terminal(self, project, **variables):
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "kcl", "report"]
        environment = project.child.environment(TERM="xterm", **variables)
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        process = subprocess.Popen(command, env=environment, **streams)
        os.close(theirs)
        read = []
        with contextlib.suppress(OSError):  # Linux says so at the end
            while piece := os.read(ours, 4096):
                read.append(piece)
        os.close(ours)
        assert process.wait(60) == 0
        return b"".join(read).decode()

    def test_terminal(self, warm):
        assert "\x1b[32mhit\x1b[0m" in self.on_terminal(warm)
        assert "\x1b" not in kcl(warm, "report").stdout
        assert "\x1b[" not in self.on_terminal(warm, NO_COLOR="1")


@pytest.mark.one_platform
class TestCompletion:
    """A shell completes what names kernels, by click's own machinery."""

    @pytest.fixture
    def completed(self, cache):
        assert cache
        shell = ShellComplete(cli.main, {}, "kcl", "_KCL_COMPLETE")
        return lambda *words, start: {one.value for one in shell.get_completions([*words], start)}

    @pytest.mark.parametrize(
        "words",
        [
            *("show", "explain", "ls --kernel", "purge --kernel", "save file"),
            *("pin", "unpin", "unpack --kernel", "tune --only", "pin mm"),
        ],
    )
    def test_kernels(self, completed, words):
        assert completed(*words.split(), start="ty") == {"typed"}
        assert completed(*words.split(), start="nothing") == set()

    def test_commands(self, completed):
        assert completed(start="pu") == {"pull", "purge", "push"}
        assert "--html" in completed("report", start="--h")
