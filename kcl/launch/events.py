"""The events that a played call waits for, leaves on arrays and holds."""

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
    """Return the events that a launch must wait for; None where all are of `queue`, which is in order.

    `own` are events known to be of the queue, equal by their handles. No other event has such a handle while they are
    held here. An event that holds memory of the host is held only after it has released that memory.
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
    # The command has ended: a wait releases the memory of the host, and takes no time.
    event.wait()
    return True


def leave(own: dict[cl.Event, None], array: Array, event: cl.Event) -> None:
    """Leave an event on an array in place of the events that it stands for.

    An event that holds memory of the host stays: dropping it would wait for its end.
    """
    array.events[:] = [other for other in array.events if other not in own]
    array.add_event(event)


def trim(own: dict[cl.Event, None], wait: bool) -> None:
    """Release the completed events of a queue, but for the last.

    An event that was taken off an array lives until then: another thread may be handing it to OpenCL, which does not
    hold it. With `wait` this function waits for old events, as arrays do with theirs, so that no queue grows without
    end.
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
        # An event of the user has no queue.
        return False
