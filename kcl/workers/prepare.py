"""`kcl.prepare`: makes many kernels ready, in worker processes if that saves time, else one after the other.

A worker generates and builds into the stores and sends no code back: this process finds the entries by its own keys. So
a worker whose state differs from this process can cost time, but never causes a wrong hit. This process prepares the
kernels that no worker could prepare. If a worker dies, all workers end. Each task is a pickled kernel with its arguments,
so a recipe that a worker cannot find fails alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent import futures
from contextlib import suppress
from multiprocessing import get_context, reduction
from typing import TYPE_CHECKING, Any, NamedTuple

from kcl.base import events, process, settings
from kcl.base.settings import option
from kcl.base.text.layout import counted
from kcl.cache import layers, progress
from kcl.cache.faults import warn_once
from kcl.drivers import devices
from kcl.errors import PrepareError
from kcl.handle import Kernel, chooser_of, described, is_stored_for, prepare_only
from kcl.inspect import flush

if TYPE_CHECKING:
    import pyopencl as cl

# The default is small, since each worker needs the memory of loopy and of an OpenCL driver.
_MOST_WORKERS = 8
_GUARD = 'if __name__ == "__main__":'
# The fewest tasks for each worker: its start, with the import of loopy, takes about as long as one kernel.
_FEWEST_TASKS = 2


class PreparationItem(NamedTuple):
    """A kernel, and the values that a call would give: dtypes, types, arrays or scalars by name.

    `fault` says why a worker could not prepare it; it is empty if none tried. A variant for certain sizes (`is_variant`)
    is not sent to workers.
    """

    kernel: Kernel
    values: dict[str, Any]
    fault: str = ""
    is_variant: bool = False

    @property
    def label(self) -> str:
        """The kernel with its parameters."""
        return described(self.kernel)


def prepare(
    kernels: Iterable[Kernel | tuple[Kernel, Mapping[str, Any]]],
    context: cl.Context | cl.CommandQueue,
    processes: int | None = None,
) -> None:
    """Make kernels ready for `context`: generate their code, build their programs, and store both. Nothing is launched.

    Each item is a Kernel, or a pair of a Kernel and a mapping that gives the arguments that its recipe left open, by name:
    dtypes, types, or arrays and scalars of the dtype. For a kernel that chooses by sizes the mapping also has sizes, such
    as "n": 64; the variant that a launch with these sizes would use is prepared.

    `processes` is the number of workers that generate and build; by default one for each processor that this process may
    use, at most 8. A worker imports the modules of the recipes, and the script too: as with `multiprocessing` the script
    needs the guard `if __name__ == "__main__":`. A recipe that a worker cannot find is prepared in this process. With
    `processes=1`, or if a layer is off, all are.

    Kernels that are stored already are skipped. On PoCL a helper process completes the new entries, whatever `KCL_PROMOTE`
    says: `kcl.flush()` and `kcl wait` wait for it. Progress is shown on a terminal (`KCL_PROGRESS`). At the end raises
    PrepareError, which names every kernel that could not be prepared. Raises TypeError for another item, ValueError for
    fewer processes than one. Thread-safe.

    >>> kcl.prepare([doubled(), doubled(factor=3)], context, processes=1)
    >>> doubled(factor=3).is_stored()
    True
    """
    if not isinstance(kernels, Iterable):
        raise TypeError(
            f"kcl.prepare takes a list of kernels: write kcl.prepare([...], context), not {kernels!r}"
        )
    if processes is not None and processes < 1:
        raise ValueError(f"kcl.prepare needs one process at least, not {processes}")
    # `_inheriting` is multiprocessing's own mark of a worker that still imports the main module.
    module = sys.modules.get("multiprocessing.process")
    if module is not None and getattr(module.current_process(), "_inheriting", False):
        raise RuntimeError(
            f"a worker that begins came to a call of kcl.prepare: put {_GUARD} above it"
        )
    if is_worker():
        return
    items = [_item(item, context) for item in kernels]
    with progress.ProgressLine() as line:
        missing = _missing(items, context)

        def report(done: int, kernel: str) -> None:
            line.say(f"building {done}/{len(missing)} {kernel}")

        left = _in_workers(missing, context, processes, report)
        failed = _here(left, context, len(missing) - len(left), report)
    if missing:
        # Starts the helper for the new entries.
        flush(0, lambda _done, _total: None)
    broken = {kernel for kernel, _error in failed}
    _warn([item.fault for item in left if item.fault and item.label not in broken])
    if failed:
        raise PrepareError(len(items), failed) from failed[0][1]


def _item(item: Any, context: cl.Context | cl.CommandQueue) -> PreparationItem:
    kernel, values = item if isinstance(item, tuple) and len(item) == 2 else (item, {})
    if isinstance(kernel, Kernel) and isinstance(values, Mapping):
        chooser = chooser_of(kernel)
        line, _why = chooser.asked(context, values)
        return PreparationItem(Kernel(line), dict(values), is_variant=chooser.has_variants)
    cure = f"; call it: {item.__name__}()" if callable(item) and hasattr(item, "__name__") else ""
    raise TypeError(
        f"kcl.prepare takes kernels, or pairs (kernel, {{name: dtype or array}}), not {item!r}{cure}"
    )


def _warn(faults: list[str]) -> None:
    """Warn once that workers could not prepare kernels that this process could."""
    if faults:
        warn_once(
            "workers of kcl.prepare",
            f"{counted(len(faults), 'kernel was', 'kernels were')} prepared by this process alone, since its workers "
            f"could not: {faults[0]}. A worker imports modules and the script: a recipe must be found there, and what "
            f"the script does belongs below {_GUARD}",
        )


def _here(
    items: list[PreparationItem],
    context: cl.Context | cl.CommandQueue,
    done: int,
    report: Callable[[int, str], object],
) -> list[tuple[str, Exception]]:
    """Prepare items in this process; return (label, error) for each that failed."""
    failed = []
    for number, item in enumerate(items, done + 1):
        report(number, item.label)
        try:
            prepare_only(item.kernel, context, item.values)
        except Exception as error:
            failed.append((item.label, error))
    return failed


def _in_workers(
    items: list[PreparationItem],
    context: cl.Context | cl.CommandQueue,
    processes: int | None,
    report: Callable[[int, str], object],
) -> list[PreparationItem]:
    """Have workers prepare the items, if that saves time; return the items that are left to this process."""
    most = min(settings.processors(), _MOST_WORKERS) if processes is None else processes
    count = min(most, len(items) // _FEWEST_TASKS)
    is_shared = all(
        layer.stores and not layer.off() for layer in (layers.generator(), layers.binary())
    )
    if count < 2 or not is_shared:
        return items
    return work(items, context, count, report)


def _missing(
    items: list[PreparationItem], context: cl.Context | cl.CommandQueue
) -> list[PreparationItem]:
    """Return the items from the first one on that is not stored. The others are not looked up: that may run recipes."""
    for number, item in enumerate(items):
        # An error shows again, and is reported, when the item is prepared.
        with suppress(Exception):
            if is_stored_for(item.kernel, context, item.values):
                continue
        return items[number:]
    return []


class WorkerState:
    """Whether this process is a worker. In a worker `kcl.prepare`, called by an imported module, does nothing."""

    def __init__(self) -> None:
        self.is_worker = False


_state = process.shared(WorkerState)


def work(
    items: list[PreparationItem],
    context: cl.Context | cl.CommandQueue,
    count: int,
    report: Callable[[int, str], object],
) -> list[PreparationItem]:
    """Have `count` workers prepare the items, and wait for them; return the items that they did not prepare.

    If no worker can be started, all items are returned and the reason is logged.
    """
    places = devices.places_of(getattr(context, "context", context))
    # An application that embeds Python cannot start a worker.
    tasks = (
        [(item, blob) for item in items if (blob := _bytes(item))]
        if places and settings.is_python()
        else []
    )
    if not places or not tasks:
        return items
    faults: dict[int, str] = {}
    try:
        crew = futures.ProcessPoolExecutor(
            min(count, len(tasks)), get_context("spawn"), begin, (option.get_cache_dir(),)
        )
        try:
            sent = {crew.submit(work_on, places, blob): item for item, blob in tasks}
            for done in futures.as_completed(sent):
                error, item = done.exception(), sent[done]
                faults[id(item)] = f"{type(error).__name__}: {error}" if error else ""
                report(len(faults), item.label)
        finally:
            crew.shutdown(cancel_futures=True)
    except Exception as error:
        # For example no memory, no more processes, or a daemon process, which may have no children.
        events.logger().warning("kernels are prepared in this process: %s", error)
    return [
        item._replace(fault=faults.get(id(item), ""))
        for item in items
        if faults.get(id(item), "not sent")
    ]


def _bytes(item: PreparationItem) -> bytes:
    """Pickle an item for a worker; empty if it cannot be sent."""
    if item.is_variant:
        return b""
    try:
        dtypes = {name: _dtypes(value) for name, value in item.values.items()}
        return bytes(reduction.ForkingPickler.dumps((item.kernel, dtypes)))
    except Exception as error:
        events.logger().info("kernel %s is prepared in this process: %s", item.label, error)
        return b""


def _dtypes(value: Any) -> Any:
    """Return the dtype of an argument, which a worker gets in place of the argument."""
    import numpy as np

    if isinstance(value, (type, str, np.dtype)):
        return value
    if isinstance(value, (tuple, list)):
        return tuple(map(_dtypes, value))
    dtype = getattr(value, "dtype", None)
    if dtype is not None and dtype.hasobject:
        # An array of objects keeps its shape, and each element becomes its dtype.
        parts = np.empty(value.shape, object)
        for index in np.ndindex(value.shape):
            parts[index] = _dtypes(value[index])
        return parts
    return dtype


# What follows runs in the worker.


def is_worker() -> bool:
    """Return True if this process is a worker of `kcl.prepare`."""
    return _state().is_worker


def begin(cache_dir: str) -> None:
    """Set a worker up: its output is discarded, and it starts no helper, which its parent does at the end."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(null, stream)
    _state().is_worker = True
    option.cache_dir(cache_dir)
    binary = layers.binary()
    binary.options = binary.options._replace(promote="off")


def work_on(places: devices.DevicePlaces, blob: bytes) -> None:
    """Prepare the kernel of a task."""
    kernel, values = reduction.ForkingPickler.loads(blob)
    prepare_only(kernel, devices.context_at(places), values)
