"""The small language of arrays that lies beside these tests."""

import sys
from pathlib import Path

import pytest

LANGUAGE = Path(__file__).parent / "language"
NAMES = ("pytato", "arraycontext")


@pytest.fixture(autouse=True)
def pt(monkeypatch):
    """The language, as long as a test runs."""
    before = {name: one for name, one in sys.modules.items() if name.partition(".")[0] in NAMES}
    for name in before:
        del sys.modules[name]
    monkeypatch.syspath_prepend(str(LANGUAGE))
    import pytato

    yield pytato
    for name in [name for name in sys.modules if name.partition(".")[0] in NAMES]:
        del sys.modules[name]
    sys.modules.update(before)
