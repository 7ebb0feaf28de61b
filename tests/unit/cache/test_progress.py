"""kcl.cache.progress: a line of stderr that comes after two seconds and goes away."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from kcl.cache import progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and knows what is left on the screen."""

    def isatty(self):
        return True

    @property
    def screen(self):
        """What a person sees: a carriage return goes back to the begin of the line."""
        shown = []
        for line in self.getvalue().split("\n"):
            cells: list[str] = []
            for piece in line.split("\r"):
                cells[: len(piece)] = piece
            shown.append("".join(cells).rstrip())
        return "\n".join(shown)


@pytest.fixture
def terminal(monkeypatch):
    """A terminal in place of stderr; the tests' own threads do not count, and every work is long enough."""
    monkeypatch.setattr(progress, "_is_alone", lambda: True)
    monkeypatch.setattr(progress, "AFTER", 0.0)

    def use():
        monkeypatch.setattr(sys, "stderr", Terminal())  # pytest sets it as each test begins
        return sys.stderr

    return use


class TestMaking:
    def test_on_a_terminal(self, terminal):
        """The line names the kernel and its number, and what the program prints later stands alone."""
        terminal = terminal()
        for kernel in ("mm(block=8)", "mm(block=8)", "axpy()"):
            with progress.making(kernel):
                assert terminal.screen.startswith(f"kcl: building {kernel} (kernel ")
            assert terminal.screen == ""
        assert "kcl: building axpy() (kernel 2 of this run)" in terminal.getvalue()
        sys.stderr.write("mine\n")
        assert terminal.screen == "mine\n"

    def test_warning_meanwhile(self, terminal):
        """A warning of what is built takes the place of the line."""
        terminal = terminal()
        with progress.making("mm()"):
            sys.stderr.write("/a/long/path/of/a/module.py:31: LoopyWarning: reductions\n")
        assert terminal.screen == "/a/long/path/of/a/module.py:31: LoopyWarning: reductions\n"

    def test_after_two_seconds(self, terminal, monkeypatch):
        """What is quick is not shown; seconds of several kernels add up."""
        terminal = terminal()
        monkeypatch.setattr(progress, "AFTER", 2.0)
        with progress.making("quick()"):
            pass
        assert terminal.getvalue() == ""
        progress._state().seconds = 2.0
        with progress.making("late()"):
            assert "late()" in terminal.getvalue()

    def test_one_long_work(self, terminal, monkeypatch):
        """A timer shows the line in the midst of one long work."""
        terminal = terminal()
        monkeypatch.setattr(progress, "AFTER", 0.01)
        with progress.making("long()"):
            progress._state().line._timer.join(10)
            assert "long()" in terminal.screen
        assert terminal.screen == ""

    def test_in_a_pipe(self, monkeypatch, capsys):
        """A pipe and a notebook get nothing; `KCL_PROGRESS=1` writes whole lines there."""
        monkeypatch.setattr(progress, "AFTER", 0.0)
        with progress.making("mm()"):
            pass
        assert capsys.readouterr().err == ""
        monkeypatch.setenv("KCL_PROGRESS", "1")
        with progress.making("axpy()"):
            pass
        assert capsys.readouterr().err == "kcl: building axpy() (kernel 2 of this run)\n"

    def test_off(self, terminal, monkeypatch):
        """`KCL_PROGRESS=0` switches it off."""
        terminal = terminal()
        monkeypatch.setenv("KCL_PROGRESS", "0")
        with progress.making("mm()"):
            assert terminal.getvalue() == ""


class TestLine:
    def test_within_another(self, terminal):
        """Of two lines the outer one speaks, and a shorter text leaves nothing of a longer one."""
        terminal = terminal()
        with progress.ProgressLine() as line:
            line.say("building 9/10 a long name")
            with progress.making("mm()"):
                assert terminal.screen == "kcl: building 9/10 a long name"
            line.say("building 10/10 mm()")
            assert terminal.screen == "kcl: building 10/10 mm()"
        assert terminal.screen == ""

    def test_width(self, terminal, monkeypatch):
        """The line is cut where the terminal ends: what is folded could not be erased."""
        terminal = terminal()
        monkeypatch.setattr(progress, "_columns", lambda: 20)
        with progress.ProgressLine() as line:
            line.say("building 1/2 mm(block=8)")
            assert terminal.screen == "kcl: building 1/2 m"

    def test_other_threads(self, monkeypatch):
        """While another thread of the program may print nothing is drawn, since it could be erased."""
        monkeypatch.setattr(sys, "stderr", Terminal())
        monkeypatch.setattr(progress, "AFTER", 0.0)
        over = threading.Event()
        other = threading.Thread(target=over.wait, args=(30,))
        other.start()
        with progress.making("mm()"):
            assert sys.stderr.getvalue() == ""
        over.set()
        other.join()
