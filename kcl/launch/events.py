"""The OpenCL events of a played call: those it waits for, leaves on arrays, and keeps alive."""

from __future__ import annotations

from collections.abc import Sequence

import pyopencl as cl
from pyopencl.array import Array

# Launches that a caller may be ahead of its device, and completed events that stay known (a power of two).
AHEAD = 256
RECENT = 64
_COMPLETE = cl.command_execution_status.COMPLETE


def waits(
    own: dict[cl.Event, None], queue: cl.CommandQueue, lists: Sequence[list[cl.Event]]
) -> list[cl.Event] | None:
    """Return the events that a launch must wait for; None if all belong to `queue`, which is in order.

    `own` are events known to belong to the queue. They are compared by handle, which no other event has as long as they
    are kept. An event that holds host memory is added only after it has released that memory.
    """
    for events in lists:
        for event in events:
            if event not in own:
                if not _is_of(queue, event):
                    return [event for events in lists for event in events]
                if _holds_nothing(event):
                    own[event] = None
    return None


def _holds_nothing(event: cl.Event) -> bool:
    if type(event) is cl.Event:
        return True
    if type(event) is not cl.NannyEvent or event.command_execution_status != _COMPLETE:
        return False
    # The command has ended: `wait` takes no time, and releases the host memory.
    event.wait()
    return True


def leave(own: dict[cl.Event, None], array: Array, event: cl.Event) -> None:
    """Add an event to an array, and remove the earlier events of the same queue, which it implies.

    An event that holds host memory is kept: dropping it would wait for its end.
    """
    array.events[:] = [other for other in array.events if other not in own]
    array.add_event(event)


def trim(own: dict[cl.Event, None], wait: bool) -> None:
    """Drop the completed events of a queue, except the last ones.

    Events that `leave` removed from an array live until then: another thread may be passing one to OpenCL, which does not
    keep it alive. With `wait` this function waits for old events, as arrays do with theirs, so that the host cannot run
    ahead of the device without bound.
    """
    older = list(own)[:-RECENT]
    if not older:
        return
    status = older[-1].command_execution_status
    if status > _COMPLETE:
        older = older[: -(AHEAD - RECENT)]
        if not older or not (wait or older[-1].command_execution_status <= _COMPLETE):
            return
    for event in older:
        own.pop(event, None)
    if status != _COMPLETE:
        # This raises the error of a failed command.
        older[-1].wait()


def _is_of(queue: cl.CommandQueue, event: cl.Event) -> bool:
    try:
        return bool(event.command_queue == queue)
    except (cl.Error, RuntimeError, ValueError):
        # A user event (`cl.UserEvent`) has no queue.
        return False
