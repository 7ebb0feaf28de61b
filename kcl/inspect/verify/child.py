"""Programs built once more and launched: the child process of `kcl verify --rebuild`.

    main("source" or "binary", FOLDER, START)

The file `tasks.json` in the folder lists the launches, from number START on. Each line of the file `<way>.log` is an
outcome, so that the parent knows which task ended the process. `source` builds from source and keeps the results of the
kernels, `binary` loads the stored binary and compares. A driver with its own cache must not see the cache of the other
way: each way runs in its own process, with its own driver caches.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import pyopencl as cl

from kcl import drivers
from kcl.base import settings
from kcl.build import results, shapes
from kcl.build.bind import launcher_of
from kcl.build.program_key import ProgramSlot
from kcl.build.stage import Build
from kcl.cache.entry import Entry
from kcl.code import LaunchableCode
from kcl.errors import CacheFault, UnknownInput
from kcl.generate import rows
from kcl.inspect import inventory
from kcl.inspect.explain import Candidate, Texts, changes
from kcl.inspect.verify.rebuilding import DIFFERENT, FINE, SOURCE, UNCOMPARED, RebuildOutcome, RebuildTask
from kcl.launch import Launcher


class NotComparable(Exception):
    """A program that cannot be built or launched here; the message gives the reason."""


def main(way: str, folder: str, start: str) -> None:
    """Do the tasks of a folder in one way, starting at a number."""
    with open(os.path.join(folder, "tasks.json"), encoding="utf-8") as stream:
        tasks = [RebuildTask(*fields) for fields in json.load(stream)]
    with open(os.path.join(folder, f"{way}.log"), "a", encoding="utf-8") as log:
        for number, task in enumerate(tasks[int(start) :], int(start)):
            try:
                outcome = _source(task, folder, number) if way == SOURCE else _binary(task, folder, number)
            except (NotComparable, shapes.UnknownArgument) as error:
                outcome = RebuildOutcome(UNCOMPARED, str(error))
            except Exception as error:
                outcome = RebuildOutcome(UNCOMPARED if way == SOURCE else DIFFERENT, _words(error))
            log.write(json.dumps(outcome) + "\n")
            log.flush()


def _source(task: RebuildTask, folder: str, number: int) -> RebuildOutcome:
    """Build from source, launch twice, and keep the results."""
    build, ready, slot, entry = _prepared(task)
    launcher = launcher_of(ready, build.from_source(ready.code.text))
    computed = _run(launcher, slot, entry)
    again = results.difference(computed, _run(launcher, slot, entry))
    if again:
        return RebuildOutcome(UNCOMPARED, f"the kernel differs from itself: {again}")
    kept: dict[str, Any] = {f"_{name}": array for name, array in computed.items()}
    np.savez(os.path.join(folder, f"{number}.npz"), **kept)
    return RebuildOutcome(FINE)


def _binary(task: RebuildTask, folder: str, number: int) -> RebuildOutcome:
    """Load the stored binary, launch it, and compare with the saved results."""
    path = os.path.join(folder, f"{number}.npz")
    if not os.path.exists(path):
        return RebuildOutcome(UNCOMPARED)
    with np.load(path) as kept:
        expected = {name[1:]: kept[name] for name in kept}
    build, ready, slot, entry = _prepared(task)
    launcher = launcher_of(ready, build.made_of(ready.code.text, [slot], [entry]))
    said = results.difference(_run(launcher, slot, entry), expected)
    return (
        RebuildOutcome(DIFFERENT, f"it computes something else than its source: {said}")
        if said
        else RebuildOutcome(FINE)
    )


def _prepared(task: RebuildTask) -> tuple[Build, LaunchableCode, ProgramSlot, Entry]:
    try:
        entry = inventory.read(settings.BINARY, task.address)
        ready = rows.ready(inventory.read(settings.GENERATOR, task.row), task.directory)
    except (KeyError, OSError, CacheFault, ValueError, TypeError) as error:
        raise NotComparable(f"its entries cannot be read: {_words(error)}") from error
    build, slot = _build(entry, ready)
    return build, ready, slot, entry


def _build(entry: Entry, ready: LaunchableCode) -> tuple[Build, ProgramSlot]:
    """Return the build on the device of the entry, and its slot; raise `NotComparable` where the key differs."""
    other = None
    for device in [device for platform in cl.get_platforms() for device in _devices(platform)]:
        if device.name != entry.metadata.get("device", {}).get("name"):
            continue
        context = cl.Context([device])
        build = Build(context, drivers.of(context))
        try:
            (slot,) = build.slots(ready.code.text)
        except UnknownInput as error:
            fault = str(error).partition(";")[0]  # its cure is meant for the recipe
            raise NotComparable(f"{fault}: run this in the directory of the recipe's module") from error
        if slot.key == entry.key:
            return build, slot
        other = slot
    if other is None:
        raise NotComparable("its device is not here")
    before = Candidate(entry.key, 0.0, entry.metadata, Texts)
    raise NotComparable("; ".join(change.sentence for change in changes(before, other.key, Texts())))


def _devices(platform: cl.Platform) -> list[cl.Device]:
    try:
        return list(platform.get_devices())
    except cl.Error:
        return []


def _run(launcher: Launcher, slot: ProgramSlot, entry: Entry) -> results.Arrays:
    queue = cl.CommandQueue(launcher.program.build.context, slot.device)
    return results.run(launcher, queue, shapes.made(queue, entry.metadata["launch"]))


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
