"""kcl.generate.origins: what the generate stage asks of an origin."""

from __future__ import annotations

import pytest

from kcl.generate.origins import Origin
from kcl.generate.origins.recorded import Recorded
from kcl.generate.origins.walked import Walked
from kcl.record.declarations import NOTHING, PURE, Task


def nothing():
    """Return what is no kernel."""
    return 3


@pytest.mark.parametrize("made", [Recorded(Task("f", nothing, {}, NOTHING)), Walked(Task("f", nothing, {}, PURE))])
def test_every_origin_answers(made):
    """A recipe that runs and one that is walked have every verb of the contract."""
    asked = [name for name in vars(Origin) if not name.startswith("_")]
    assert {"key", "generate", "outcome"} <= set(asked)
    assert set(asked) - set(dir(made)) == set()
    assert made.name == "f"
