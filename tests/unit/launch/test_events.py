"""kcl.launch.events: what a played call waits for, and the events that it leaves."""

import pyopencl as cl

from kcl.launch.events import RECENT, trim, waits


def test_of_the_same_queue(queue):
    """Events of the queue itself, which is in order, are not waited for, and are known afterwards."""
    own, events = {}, [cl.enqueue_marker(queue) for _ in range(2)]
    assert waits(own, queue, [events[:1], events[1:]]) is None
    assert list(own) == events


def test_an_event_of_the_user_has_no_queue_and_is_waited_for(context, queue):
    event = cl.UserEvent(context)
    assert waits({}, queue, [[event]]) == [event]
    event.set_status(cl.command_execution_status.COMPLETE)


def test_events_that_are_done_are_let_go_of_but_for_the_last_ones(queue):
    events = [cl.enqueue_marker(queue) for _ in range(3 * RECENT)]
    queue.finish()
    own = dict.fromkeys(events)
    trim(own, wait=False)
    assert list(own) == events[-RECENT:]
    trim(own, wait=True)
    assert len(own) == RECENT
