"""kcl.generate: the state of a thread while recipes and libraries run."""

import threading

import pytest

from kcl.generate import carrying, shown, thread


def test_carrying():
    """Calls pass through in the block, in this thread alone, and an error ends it."""
    seen = []

    def look():
        seen.append(thread.carrying)

    with pytest.raises(LookupError), carrying():  # noqa: PT012
        look()
        other = threading.Thread(target=look)
        other.start()
        other.join()
        raise LookupError
    look()
    assert seen == [True, False, False]


def test_shown():
    """A value is shown as its repr, while the thread knows that it is shown."""

    class Asking:
        def __repr__(self):
            return str(thread.showing)

    assert shown(Asking()) == "True"
    assert repr(Asking()) == "False"
