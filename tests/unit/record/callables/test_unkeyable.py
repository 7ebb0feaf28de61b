"""kcl.record.callables.unkeyable: names whose results no key can hold."""

from __future__ import annotations

import pytest

from kcl.errors import UnknownInput
from kcl.record.callables.unkeyable import refuse, verdict


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("time.monotonic", "reads the time"),
        ("datetime.datetime.now", "reads the time"),
        ("numpy.random.default_rng", "random"),
        ("builtins.eval", "eval runs code"),
        ("os.listdir", "reads=[...]"),
        ("importlib.import_module", "depends=[...]"),
        ("posix.getcwd", "call it so"),
    ],
)
def test_unknown(name, words):
    """The verdict says what is read and what to do instead."""
    assert words in verdict(name)


@pytest.mark.parametrize("name", ["time.sleep", "uuid.UUID", "os.path.join", "os.getcwd", "math.pi", "timeit.x", "os"])
def test_known(name):
    """What is harmless, observed, or another module that only begins alike has no verdict."""
    assert verdict(name) is None


def test_names_of_the_interpreter():
    """What the interpreter keeps under another name has the same verdict."""
    assert verdict("posix.listdir").partition(";")[0] == verdict("os.listdir").partition(";")[0]


def test_refused_object():
    """An object that cannot be known is named by its class, with the method that makes it known."""
    with pytest.raises(UnknownInput, match=r"builtins.object object cannot be known.*__kcl_key__"):
        refuse(object())
