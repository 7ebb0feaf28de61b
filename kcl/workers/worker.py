"""Worker: a process that prepares the kernels which its parent sends (`kcl.workers.crew`)."""

from __future__ import annotations

import os
from contextlib import suppress
from multiprocessing import connection, reduction, spawn
from typing import TYPE_CHECKING

from kcl.base.settings import option
from kcl.drivers.pocl import client
from kcl.workers import prepare
from kcl.workers.crew import Setup

if TYPE_CHECKING:
    import pyopencl as cl


def main(descriptor: int) -> None:
    """Prepare the kernels that come from a socket, then end this process."""
    prepare.be_worker()
    client.leave_starting()
    with suppress(EOFError, OSError), connection.Connection(descriptor) as socket:
        serve(socket)
    os._exit(0)  # without the drivers' exit handlers


def serve(socket: connection.Connection) -> None:
    """Prepare the kernels that come until an empty message; make sure that a helper completes the entries."""
    from kcl.inspect import report

    setup = Setup(*socket.recv())
    fault = _begin(setup)
    context: cl.Context | None = None
    while blob := socket.recv_bytes():
        try:
            context = context or _context(setup.devices)
            if not fault:
                _prepare(blob, context)
        except Exception as error:
            socket.send(_words(error))
        else:
            socket.send(fault)
    report.flush(0)


def _begin(setup: Setup) -> str:
    """Import the main module of the parent, as `multiprocessing` does; return the fault of an import that raised."""
    try:
        with prepare.beginning():
            spawn.prepare(setup.start)
    except (Exception, SystemExit) as error:
        return _words(error)
    if setup.cache_dir:
        option.cache_dir(setup.cache_dir)
    return ""


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _context(devices: list[tuple[int, int, str]]) -> cl.Context:
    import pyopencl as cl

    platforms = cl.get_platforms()
    found = [(platforms[number].get_devices()[place], name) for number, place, name in devices]
    other = [name for device, name in found if device.name != name]
    if other:
        raise LookupError(f"device {other[0]} is not found in this process")
    return cl.Context([device for device, _name in found])


def _prepare(blob: bytes, context: cl.Context) -> None:
    from kcl.handle import prepare_only

    kernel, values = reduction.ForkingPickler.loads(blob)
    prepare_only(kernel, context, values)
