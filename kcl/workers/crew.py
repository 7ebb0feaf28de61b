"""Crew: worker processes of one call. Each gets one kernel at a time over its own socket, and answers with the result.

    parent -> worker    Setup, once; then for each kernel the bytes of (kernel, arguments)
    worker -> parent    "" where the kernel is prepared, else the reason why not

`multiprocessing` pickles the messages, between this process and its own children only. A worker ends when its socket
is closed, so no worker outlives this process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection, reduction, spawn
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl.base import events, settings
from kcl.base.settings import option
from kcl.drivers.pocl import completion
from kcl.workers.item import PreparationItem

if TYPE_CHECKING:
    import pyopencl as cl

# No user reads the output of a worker, and each program is asked of it once. Its entries are to be completed, whatever
# the user wants of launches, so it leaves a job for each program at once: the worker may be killed.
_VARIABLES = {"KCL_AHEAD": "0", "KCL_PROGRESS": "0", "KCL_PROMOTE": "background", "KCL_REPORT": ""}


class WorkerTask(NamedTuple):
    """The task of a worker: an item to prepare, and the bytes that are sent for it."""

    item: PreparationItem
    blob: bytes


class Setup(NamedTuple):
    """The data that a worker needs before its first kernel.

    `start` is what `multiprocessing` tells a process that it spawns: the main module, `sys.path` and `sys.argv`.
    `devices` are those of the context, each as the place of its platform, its place in that, and its name.
    """

    start: dict[str, Any]
    cache_dir: str
    devices: list[tuple[int, int, str]]


class Worker:
    """One worker process, its socket, and the task that it works on."""

    def __init__(self, setup: Setup) -> None:
        self.socket, theirs = connection.Pipe()
        with theirs:
            code = f"import sys; sys.path.insert(0, {os.path.dirname(settings.PACKAGE)!r}); "
            code += f"from kcl.workers.worker import main; main({theirs.fileno()})"
            null = subprocess.DEVNULL
            self.process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=null,
                stdout=null,
                stderr=null,
                pass_fds=[theirs.fileno()],
                env={**settings.environment(), **_VARIABLES},
            )
        self.task: WorkerTask | None = None
        self.is_dead = False
        with suppress(OSError):
            self.socket.send(tuple(setup))

    def give(self, task: WorkerTask | None) -> None:
        """Give the worker its next task; None ends it."""
        self.task = task
        with suppress(OSError):  # the worker has died: no answer will come
            self.socket.send_bytes(task.blob if task is not None else b"")

    def answer(self) -> tuple[WorkerTask, str]:
        """Return the task that was given, and the reason why it was not done, empty where it was."""
        assert self.task is not None
        try:
            return self.task, str(self.socket.recv())
        except (EOFError, OSError):
            self.is_dead = True
            return self.task, "the worker has died"

    def end(self) -> None:
        """End the process, if it has not ended by itself."""
        self.socket.close()
        self.process.kill()
        self.process.wait()


def work(
    items: list[PreparationItem], context: cl.Context | cl.CommandQueue, count: int, said: Callable[[int, str], object]
) -> list[PreparationItem]:
    """Let `count` workers prepare the items, and wait for them; return the items that they did not prepare.

    All items are returned where no worker can be started for this context. The reason is logged.
    """
    devices = _devices(getattr(context, "context", context))
    tasks = [task for task in map(_task, items) if task is not None] if devices and _is_python() else []
    if not devices or not tasks:
        return items
    workers: list[Worker] = []
    try:
        setup = _setup(devices)
        workers += [Worker(setup) for _ in range(min(count, len(tasks)))]
        faults = _hand_out(deque(tasks), workers, said)
        for worker in workers:
            worker.process.wait()
    except OSError as error:  # no more processes, or no memory
        events.logger().warning("kernels are prepared in this process: %s", error)
        return items
    finally:
        for worker in workers:
            worker.end()
        completion.start()  # now, since it would have shared the processors with the workers
    return [item._replace(fault=faults.get(id(item), "")) for item in items if faults.get(id(item), "not sent")]


def _setup(devices: list[tuple[int, int, str]]) -> Setup:
    start = spawn.get_preparation_data("kcl worker")
    start.pop("authkey", None)  # for connections, and only `multiprocessing` itself may send it
    return Setup(start, option.get_cache_dir() if option.is_chosen() else "", devices)


def _hand_out(tasks: deque[WorkerTask], workers: list[Worker], said: Callable[[int, str], object]) -> dict[int, str]:
    """Give a task to each free worker at once, until all are done; return the fault of each item, if any."""
    faults: dict[int, str] = {}
    for worker in workers:
        worker.give(tasks.popleft())
    busy: dict[Any, Worker] = {worker.socket: worker for worker in workers}
    while busy:
        for socket in connection.wait(list(busy)):
            worker = busy.pop(socket)
            task, fault = worker.answer()
            faults[id(task.item)] = fault
            said(len(faults), task.item.label)
            if fault:
                events.logger().info("kernel %s is prepared in this process: %s", task.item.label, fault)
            if not worker.is_dead:
                worker.give(tasks.popleft() if tasks else None)
                if worker.task is not None:
                    busy[socket] = worker
    return faults


def _task(item: PreparationItem) -> WorkerTask | None:
    """Return the task of an item, None where its kernel cannot be sent."""
    dtypes = {name: _dtypes(value) for name, value in item.values.items()}
    try:
        return WorkerTask(item, bytes(reduction.ForkingPickler.dumps((item.kernel, dtypes))))
    except Exception as error:
        events.logger().info("kernel %s is prepared in this process: %s", item.label, error)
        return None


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


def _devices(context: cl.Context) -> list[tuple[int, int, str]] | None:
    """Return the places of a context's devices; None where one has no place, for example a part of a device."""
    import pyopencl as cl

    places = {
        device: (number, place, device.name)
        for number, platform in enumerate(cl.get_platforms())
        for place, device in enumerate(platform.get_devices())
    }
    found = [places.get(device) for device in context.devices]
    return [one for one in found if one is not None] if None not in found else None


def _is_python() -> bool:
    """Tell whether this interpreter can be started again; an application with Python inside cannot."""
    name = os.path.basename(sys.executable or "").lower()
    return os.name == "posix" and name.startswith(("python", "pypy"))
