"""A process in which every lock of kcl tells the order of locks; run by test_locks.py.

Import this module before kcl. Threads launch the same new kernels at the same moments. The process prints, as JSON, the
pairs of classes of which a thread wanted the lock of the second while it held that of the first, and the classes of the
locks that a thread held as it began to wait for another thread, process or helper. Of two locks of one class a younger
one may be held while the older one is wanted: the lock of a record, and that of a record which it was made from.

It also prints, by the class of a held lock, the foreign code that began to run under the lock: imports, calls of loopy
and pyopencl, and by name the functions of the user: recipes, hooks, and methods of parameters.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
import threading
from typing import Any

ORDER: set[tuple[str, str]] = set()
HELD_IN_WAITS: set[str] = set()
# The class of a lock, and what began under it.
FOREIGN: set[tuple[str, str]] = set()
# The class of a lock, and the user's function that began under it.
USERS: set[tuple[str, str]] = set()
LIBRARIES = ("loopy", "pyopencl")
_thread = threading.local()
_numbers = itertools.count()


def held() -> list[Watched]:
    found: list[Watched] = _thread.__dict__.setdefault("held", [])
    return found


class Watched:
    """A lock that notes the locks which the thread that wants it holds."""

    def __init__(self, lock: Any, place: str) -> None:
        self._lock = lock
        self.place = place
        self.age = next(_numbers)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if blocking and self not in held():
            ORDER.update(
                (one.place, self.place)
                for one in held()
                if one.place != self.place or one.age < self.age
            )
        got: bool = self._lock.acquire(blocking, timeout)
        if got:
            held().append(self)
        return got

    def release(self) -> None:
        if self in held():  # a lock may be given back by another thread
            held().remove(self)
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def watching(make: Any) -> Any:
    """Return what makes watched locks for kcl, and plain ones for everybody else."""

    def watched() -> Any:
        caller = sys._getframe(1)
        if caller.f_globals.get("__name__", "").split(".")[0] != "kcl":
            return make()
        return Watched(make(), type(caller.f_locals["self"]).__qualname__)

    return watched


def note(what: str) -> None:
    """Note that foreign code begins now."""
    FOREIGN.update((lock.place, what) for lock in held())


def profile(frame: Any, event: str, argument: Any) -> None:
    """Note a call of a library by kcl."""
    if event == "call" and held():
        caller = frame.f_back.f_globals.get("__name__", "") if frame.f_back else ""
        called = frame.f_globals.get("__name__", "")
    elif event == "c_call" and held():
        caller, called = (
            frame.f_globals.get("__name__", ""),
            str(getattr(argument, "__module__", "")),
        )
    else:
        return
    if caller.partition(".")[0] != "kcl":
        return
    if called.partition(".")[0] in LIBRARIES:
        note(f"call of {called} by {caller}")
    elif called == "crowd":
        USERS.update((lock.place, frame.f_code.co_name) for lock in held())


def note_imports() -> None:
    """Note each import that Python begins, or that waits for another thread's."""
    find = importlib._bootstrap._find_and_load

    def noted(name: str, *rest: Any) -> Any:
        note(f"import of {name}")
        return find(name, *rest)

    importlib._bootstrap._find_and_load = noted


def main(platform: str, threads: int, kernels: int) -> None:
    threading.Lock, threading.RLock = watching(threading.Lock), watching(threading.RLock)  # type: ignore[misc]
    import crowd
    import numpy as np
    import pyopencl as cl
    from opened import queue_on

    import kcl
    from kcl.cache import locks, progress

    # The line is drawn at once.
    os.environ["KCL_PROGRESS"], progress.AFTER = "1", 0.0
    wait = locks.wait

    def noted(*arguments: Any) -> bool:
        HELD_IN_WAITS.update(lock.place for lock in held())
        return wait(*arguments)

    locks.wait = noted
    context = queue_on(platform).context
    together, wrong = threading.Barrier(threads), []
    shared = [
        crowd.shifted(number) if number % 3 == 2 else crowd.added(number)
        for number in range(kernels)
    ]

    def work(thread: int) -> None:
        queue = cl.CommandQueue(context)
        for number, one in enumerate(shared):
            own = crowd.shifted if number % 3 == 2 else crowd.added
            kernel = one if (thread + number) % 2 else own(crowd.Number(number))
            together.wait()
            _event, (out,) = kernel(queue, x=np.zeros(8, np.float32))
            if out.tolist() != [number] * 8:
                wrong.append((thread, number))

    note_imports()
    kcl.install()
    remove = kcl.add_hook(crowd.heard)
    threading.setprofile(profile)
    crew = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    remove()
    kcl.uninstall()
    assert crowd.HEARD
    seen = {"order": ORDER, "waits": HELD_IN_WAITS, "foreign": FOREIGN, "users": USERS}
    print(json.dumps({"wrong": wrong, **{name: sorted(places) for name, places in seen.items()}}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.flush()
    os._exit(0)
