"""kcl.launch.events: what a played call waits for, and the events that it leaves."""

import pyopencl as cl

from kcl.launch.events import RECENT, trim, waits


def markers(queue, number):
    """Enqueue markers on a queue."""
    return [cl.enqueue_marker(queue) for _ in range(number)]


def test_of_the_same_queue(queue):
    """Events of the queue itself, which is in order, are not waited for, and are known afterwards."""
    own, events = {}, markers(queue, 2)
    assert waits(own, queue, [events[:1], events[1:]]) is None
    assert list(own) == events


def test_of_the_user(context, queue):
    """An event of the user has no queue and is waited for."""
    event = cl.UserEvent(context)
    assert waits({}, queue, [[event]]) == [event]
    event.set_status(cl.command_execution_status.COMPLETE)


def test_trimmed(queue):
    """Events that are done are let go of, but for the last ones."""
    events = markers(queue, 3 * RECENT)
    queue.finish()
    own = dict.fromkeys(events)
    trim(own, wait=False)
    assert list(own) == events[-RECENT:]
    trim(own, wait=True)
    assert len(own) == RECENT
