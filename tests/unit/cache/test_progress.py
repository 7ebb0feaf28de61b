"""kcl.cache.progress: a line of stderr that comes almost at once, is written over, and goes away."""

import io
import re
import sys
import threading

import pytest

from kcl.base import events
from kcl.cache import progress

IS_ALONE = progress._is_alone


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and knows what is left on the screen."""

    def __init__(self):
        super().__init__()
        self.changed = threading.Semaphore(0)

    def isatty(self):
        return True

    def write(self, text):
        written = super().write(text)
        self.changed.release()
        return written

    @property
    def screen(self):
        """What a person sees: a carriage return goes back to the begin of the line."""
        shown = []
        for line in self.getvalue().split("\n"):
            cells = []
            for piece in line.split("\r"):
                cells[: len(piece)] = piece
            shown.append("".join(cells).rstrip())
        return "\n".join(shown)


@pytest.fixture
def terminal(monkeypatch):
    """Put a terminal in place of stderr; the tests' own threads do not count, and every work is long enough."""
    monkeypatch.setattr(progress, "_is_alone", lambda: True)
    monkeypatch.setattr(progress, "AFTER", 0.0)

    def use():
        monkeypatch.setattr(sys, "stderr", Terminal())  # pytest sets it as each test begins
        return sys.stderr

    return use


class TestMaking:
    def test_on_a_terminal(self, terminal):
        """The line counts the kernels that the run asked for, and what the program prints later stands alone."""
        terminal = terminal()
        for number in ("1 kernel", "2 kernels"):
            with progress.making():
                assert re.fullmatch(rf"kcl: {number}, \d+ s", terminal.screen)
            assert terminal.screen == ""
            events.emit(events.Event("binary", "mm", "", "miss", "not in the cache", 0.0, 0))
        sys.stderr.write("mine\n")
        assert terminal.screen == "mine\n"

    def test_of_the_last_run(self, child):
        """The line has the number of the last run of the program, where that asked for more kernels."""
        code = """
            import sys
            from kcl.base import events
            from kcl.cache import progress
            words, sys.argv = sys.argv[1], ["solver.py"]
            progress.AFTER = 0.0
            for name in words.split():
                with progress.making():
                    events.emit(events.Event("binary", name, "", "miss", "not in the cache", 0.0, 0))
            """
        child.run(code, "mm axpy dot", KCL_PROGRESS="1")
        said = child.run(code, "mm dot dot axpy", KCL_PROGRESS="1").stderr
        counts = [*(f"{number} of 3 kernels" for number in (1, 2, 3)), "4 kernels"]
        assert re.findall("kcl: (.*), ", said) == counts

    @pytest.mark.parametrize(
        ("name", "shows"), [("mine", False), ("Thread-7 (_log_start_if_long)", True)]
    )
    def test_beside_a_thread(self, terminal, monkeypatch, name, shows):
        """A thread that may print holds the line back, which could erase its text; one that times loopy's log does not."""
        terminal = terminal()
        monkeypatch.setattr(progress, "_is_alone", IS_ALONE)
        other = threading.Thread(name=name)
        # An earlier test may have left a thread of its own.
        monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread(), other])
        with progress.making():
            assert terminal.screen.startswith("kcl: 1 kernel") is shows
            assert bool(terminal.getvalue()) is shows

    def test_a_warning_takes_the_place_of_the_line(self, terminal):
        terminal = terminal()
        warning = "/a/long/path/of/a/module.py:31: LoopyWarning: reductions\n"
        with progress.making():
            sys.stderr.write(warning)
        assert terminal.screen == warning

    def test_quick(self, terminal, monkeypatch):
        """What is quick is not shown; seconds of several kernels add up."""
        terminal = terminal()
        monkeypatch.setattr(progress, "AFTER", 60.0)
        with progress.making():
            pass
        assert terminal.getvalue() == ""
        progress._state().seconds = 60.0
        with progress.making():
            assert "1 kernel" in terminal.getvalue()

    def test_one_long_work(self, terminal, monkeypatch):
        """The line comes in the midst of one long work, and is written over until the work ends."""
        terminal = terminal()
        monkeypatch.setattr(progress, "AFTER", 0.01)
        monkeypatch.setattr(progress, "EVERY", 0.01)
        with progress.making():
            for drawn in (1, 2, 3):
                assert terminal.changed.acquire(timeout=60)
                assert terminal.getvalue().count("kcl: 1 kernel") >= drawn
            assert "\n" not in terminal.getvalue()
        assert terminal.screen == ""

    @pytest.mark.parametrize(("value", "said"), [("", ""), ("1", "kcl: 1 kernel, 0 s\n")])
    def test_in_a_pipe(self, monkeypatch, capsys, value, said):
        """A pipe and a notebook get nothing; `KCL_PROGRESS=1` writes whole lines there."""
        monkeypatch.setattr(progress, "AFTER", 0.0)
        monkeypatch.setenv("KCL_PROGRESS", value)
        with progress.making():
            pass
        assert capsys.readouterr().err == said

    def test_switched_off(self, terminal, monkeypatch):
        terminal = terminal()
        monkeypatch.setenv("KCL_PROGRESS", "0")
        with progress.making():
            assert terminal.getvalue() == ""


class TestLine:
    def test_within_another(self, terminal):
        """Of two lines the outer one speaks, and a shorter text leaves nothing of a longer one."""
        terminal = terminal()
        with progress.ProgressLine() as line:
            line.say("building 9/10 a long name")
            with progress.making():
                assert terminal.screen == "kcl: building 9/10 a long name"
            line.say("building 10/10 mm()")
            assert terminal.screen == "kcl: building 10/10 mm()"
        assert terminal.screen == ""

    def test_width(self, terminal):
        """The line is cut to 79 columns: what is folded could not be erased."""
        terminal = terminal()
        with progress.ProgressLine() as line:
            line.say("building 1/2 mm" * 10)
            assert terminal.screen == "kcl: building 1/2 mm" + ("building 1/2 mm" * 4)[:59]
