"""Crew: the worker processes of one call of `kcl.prepare`, those of an executor of `concurrent.futures`.

Each task is the bytes of a kernel and its arguments, so that a recipe which a worker cannot find fails alone. A worker
that dies ends the crew: this process prepares what is left.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent import futures
from multiprocessing import get_context, reduction
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl.base import events, process
from kcl.base.settings import option
from kcl.cache import layers
from kcl.drivers import devices
from kcl.handle import Kernel, described, prepare_only

if TYPE_CHECKING:
    import pyopencl as cl


class PreparationItem(NamedTuple):
    """A kernel, and the values that a call would give: dtypes, types, arrays or scalars by name.

    `fault` is the reason why a worker could not prepare it; it is empty where no worker tried. A variant for some sizes
    is not sent.
    """

    kernel: Kernel
    values: dict[str, Any]
    fault: str = ""
    is_variant: bool = False

    @property
    def label(self) -> str:
        """The kernel with its parameters."""
        return described(self.kernel)


class State:
    """Whether this process is a worker: modules that it imports may ask for kernels to be prepared."""

    def __init__(self) -> None:
        self.is_worker = False


_state = process.shared(State)


def work(
    items: list[PreparationItem], context: cl.Context | cl.CommandQueue, count: int, said: Callable[[int, str], object]
) -> list[PreparationItem]:
    """Let `count` workers prepare the items, and wait for them; return the items that they did not prepare.

    All items are returned where no worker can be started for this context. The reason is logged.
    """
    places = devices.places_of(getattr(context, "context", context))
    tasks = [(item, blob) for item in items if (blob := _bytes(item))] if places and _is_python() else []
    if not places or not tasks:
        return items
    faults: dict[int, str] = {}
    try:
        crew = futures.ProcessPoolExecutor(
            min(count, len(tasks)), get_context("spawn"), begin, (option.get_cache_dir(),)
        )
        try:
            given = {crew.submit(work_on, places, blob): item for item, blob in tasks}
            for done in futures.as_completed(given):
                error, item = done.exception(), given[done]
                faults[id(item)] = f"{type(error).__name__}: {error}" if error else ""
                said(len(faults), item.label)
        finally:
            crew.shutdown(cancel_futures=True)
    except Exception as error:  # no more processes, no memory, or a daemon that may have no children
        events.logger().warning("kernels are prepared in this process: %s", error)
    return [item._replace(fault=faults.get(id(item), "")) for item in items if faults.get(id(item), "not sent")]


def _bytes(item: PreparationItem) -> bytes:
    """Return the bytes of an item, empty if its kernel cannot be sent."""
    if item.is_variant:
        return b""
    try:
        dtypes = {name: _dtypes(value) for name, value in item.values.items()}
        return bytes(reduction.ForkingPickler.dumps((item.kernel, dtypes)))
    except Exception as error:
        events.logger().info("kernel %s is prepared in this process: %s", item.label, error)
        return b""


def _dtypes(value: Any) -> Any:
    """Return the dtype information of an argument, without its content."""
    import numpy as np

    if isinstance(value, (type, str, np.dtype)):
        return value
    if isinstance(value, (tuple, list)):
        return tuple(map(_dtypes, value))
    dtype = getattr(value, "dtype", None)
    if dtype is not None and dtype.hasobject:
        parts = np.empty(value.shape, object)
        for index in np.ndindex(value.shape):
            parts[index] = _dtypes(value[index])
        return parts
    return dtype


def _is_python() -> bool:
    """Return True if this interpreter can be started again; an application with Python inside cannot."""
    name = os.path.basename(sys.executable or "").lower()
    return os.name == "posix" and name.startswith(("python", "pypy"))


# in the worker


def is_worker() -> bool:
    """Return True in a worker: it leaves kernels that modules ask for during their import to its parent."""
    return _state().is_worker


def begin(cache_dir: str) -> None:
    """Begin a worker: its output is nobody's, and its parent starts the helper, as soon as the processors are free."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(null, stream)
    _state().is_worker = True
    option.cache_dir(cache_dir)
    binary = layers.binary()
    binary.chosen = binary.chosen._replace(promote="off")


def work_on(places: devices.DevicePlaces, blob: bytes) -> None:
    """Prepare the kernel of a task."""
    kernel, values = reduction.ForkingPickler.loads(blob)
    prepare_only(kernel, devices.context_at(places), values)
