"""kcl.base.trace_file: the file of a trace is whole at any time, whoever adds to it."""

import subprocess
import sys

from trace_files import whole

from kcl.base import spans


def test_at_once(on):
    """Processes that end at once add to what is there and lose nothing; the file is whole."""
    code = (
        "import sys; from kcl.base import spans\n"
        "for n in range(50):\n"
        "    with spans.span('build', 'x' * 100): pass\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(8)]
    assert [one.wait() for one in children] == [0] * 8
    assert len(whole(on)) == 400
    assert len({event["pid"] for event in whole(on)}) == 8


def test_a_file_that_cannot_be_written_is_said_and_nothing_is_raised(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KCL_TRACE", str(tmp_path / "nowhere" / "trace.json"))
    with spans.span("build"):
        pass
    spans.write()
    assert "no trace is written to" in capsys.readouterr().err
