"""The parts of a tuning that work without the others: its files, and what a child has."""

import contextlib

import pyopencl as cl
import pytest

from kcl.choices.tuning.candidates import CandidateFiles
from kcl.choices.tuning.child import Rig
from kcl.drivers import devices
from kcl.handle import chooser_of


@pytest.fixture
def files_of(queue, tmp_path):
    """Return a function that makes the files of a tuning, in a folder of its own; they are closed at the end."""
    (folder := tmp_path / "tuning").mkdir()
    with contextlib.ExitStack() as stack:

        def files_of(kernel, **arguments):
            files = CandidateFiles(chooser_of(kernel), queue, arguments, str(folder))
            stack.callback(files.close)
            return files

        yield files_of


@pytest.fixture
def question_of(queue):

    def question_of(files, tolerance=None):
        return files.question(devices.places_of(queue.context), tolerance)

    return question_of


@pytest.fixture
def rig_of(question_of, monkeypatch):
    """Return a function that makes in this process what a child has."""

    def rig_of(files, tolerance=None):
        # The rig replaces this function.
        monkeypatch.setattr(cl, "enqueue_nd_range_kernel", cl.enqueue_nd_range_kernel)
        return Rig(question_of(files, tolerance))

    return rig_of
