"""examples/demo.py: what it complains of, told from what its five processes counted."""

import importlib.util

import pytest
from harness import ROOT

import kcl


@pytest.fixture(scope="module")
def demo():
    """The module of the demonstration."""
    spec = importlib.util.spec_from_file_location("kcl_demo", ROOT / "examples" / "demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def said(demo):
    """Return what the demo complains of: five equal runs, of which the strict ones counted and imported this."""

    def complain(generator=None, loopy=False, made=None):
        outcomes = []
        for run in demo.RUNS:
            stats = kcl.stats()
            for layer in ("generator", "binary"):
                stats[layer]["hits"] = 3
            stats["generator"].update(generator or {})
            stats["made"] = made or {}
            record = {"results": {"axpy": "1"}, "stats": stats, "seconds": 1.0, "loopy": loopy or not run.strict}
            outcomes.append(demo.Outcome(run, 0, 1.0, record))
        return demo.complaints(outcomes)

    return complain


class TestComplaints:
    def test_nothing(self, said):
        """Strict runs that hit and import no loopy are as they should be; the others may import it."""
        assert said() == []

    def test_miss(self, said):
        """A strict run that missed is named with what it counted."""
        found = said(generator={"misses": 1})
        assert found[0] == 'run "again" should hit everywhere, but counted 1 misses (generator).'

    def test_loopy(self, said):
        """A strict run that imported loopy is named, with the question where there was one."""
        assert said(loopy=True)[0] == 'run "again" imported loopy.'
        asked = said(loopy=True, made={"repr of make_kernel (driver.py:12)": 1})
        assert asked[0] == 'run "again" imported loopy, which was asked: repr of make_kernel (driver.py:12).'
