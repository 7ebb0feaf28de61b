"""kcl.drivers.child: a process that answers questions, and may die of one."""

import signal

import pytest
from harness import SUPPORT

from kcl.base import settings
from kcl.drivers import child
from kcl.drivers.child import ChildFault, PythonChild


@pytest.fixture
def answering(monkeypatch):
    """A child that answers with the methods of `answering.Answers`."""
    monkeypatch.syspath_prepend(str(SUPPORT))
    made = PythonChild("answering", settings.environment_alone())
    made.begin("asked")
    yield made
    made.end()


def test_each_question_is_answered_one_after_the_other(answering):
    assert [answering.ask(60, "added", number, 1) for number in (1, 2)] == [2, 3]
    assert answering.ask(60, "about") == "asked"


def test_a_question_that_kills_the_process_is_named_by_the_signal(answering):
    with pytest.raises(ChildFault) as caught:
        answering.ask(60, "dies")
    assert caught.value.verdict == ("crashes", signal.Signals.SIGKILL.name)


def test_a_question_without_an_answer_ends_the_process(answering):
    assert answering.ask(60, "about")
    with pytest.raises(ChildFault) as caught:
        answering.ask(0.2, "hangs")
    assert caught.value.verdict[0] == "hangs"
    assert answering.process.poll() == -signal.SIGKILL


@pytest.mark.parametrize(("status", "said"), [(-11, "SIGSEGV"), (1, "status 1")])
def test_ended(status, said):
    """An end is named by its signal or its status."""
    assert child.ended(status) == said
