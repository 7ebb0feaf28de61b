"""kcl.cli.page.timeline: lanes and bars."""

from __future__ import annotations

import re

import pytest

from kcl.cli.page import timeline
from kcl.inspect.kernels import KernelRow, LookSummary
from kcl.inspect.last_run import Run


def run(*looks, began=10.0, ended=20.0):
    """Return a run with a kernel for each look-up."""
    rows = tuple(KernelRow(look.kernel, (look,), ()) for look in looks)
    return Run("driver.py", (1,), began, ended, (), rows, (), 0, (), ())


def look(moment, seconds, times=1, kernel="k"):
    """Return a miss."""
    return LookSummary("binary", kernel, "miss", "", "", times, moment, seconds, 0.0)


def test_places():
    """A bar begins and ends where its look-up did; of several that ended alike the last one is drawn."""
    drawn = timeline.drawn(run(look(15.0, 2.5), look(20.0, 4.0, times=2)))
    assert re.findall(r"left:min\(([\d.]+)%,.*?width:([\d.]+)%", drawn) == [("25.000", "25.000"), ("80.000", "20.000")]
    assert "binary miss, 2.5 s, after 2.5 s" in drawn


@pytest.mark.parametrize(("length", "step"), [(10.0, 2.0), (3.2, 1.0), (0.07, 0.02), (1.0, 0.2)])
def test_steps(length, step):
    """Ticks stand at round numbers."""
    assert timeline._step(length) == pytest.approx(step)


def test_no_time():
    """Where no moment is known the page says so; a run of one moment has a bar."""
    assert "No time" in timeline.drawn(run(look(0.0, 1.0)))
    assert "bar binary miss" in timeline.drawn(run(look(10.0, 0.0), ended=10.0))


def test_many():
    """Of very many kernels the first are drawn."""
    drawn = timeline.drawn(run(*[look(11.0, 1.0, kernel=str(number)) for number in range(250)]))
    assert drawn.count("bar binary") == 200
    assert "50 more kernels" in drawn


def test_names():
    """A name is never taken for markup."""
    assert "<i>" not in timeline.drawn(run(look(11.0, 1.0, kernel="<i>\"'")))
