"""A driver that launches for as long as its standard input is open; run by tools/soak.py.

python soaked.py PLATFORM THREADS SEED

A line of JSON a second says the launches and errors so far, the wrong numbers, descriptors, threads, and the bytes of
memory. The process keeps few programs of dropped Kernels, so that it goes back to the files again and again.
"""

import ctypes
import gc
import json
import os
import random
import sys
import threading
import time
import traceback

import crowd
import pyopencl as cl

from kcl import line

KERNELS = 60
KEPT = 10  # programs of dropped Kernels


def forget() -> None:
    """Drop the entries that this process keeps in memory, so that the files are read again."""
    from kcl.cache import layers

    for layer in (layers.generator(), layers.binary()):
        layer.memory.clear()


def resident() -> int:
    """Return the bytes of memory that this process occupies now, without what its allocator could give back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Driver:
    """Threads that launch, and what they found."""

    def __init__(self, platform: str, seed: int) -> None:
        self.context = crowd.context_of(platform)
        self.seed = seed
        self.launches, self.wrong, self.errors = 0, [], []
        self.ended = threading.Event()

    def work(self, thread: int) -> None:
        """Launch kernels that are made up until the driver ends."""
        chance, queue = random.Random(f"{self.seed} {thread}"), cl.CommandQueue(self.context)
        while not self.ended.is_set():
            number = chance.randrange(KERNELS)
            try:
                found = crowd.launched(queue, number)
                if found != number:
                    self.wrong.append((number, found))
            except Exception:
                self.errors.append(traceback.format_exc())
            self.launches += 1
            time.sleep(chance.random() * 0.05)

    def said(self) -> dict[str, object]:
        """Return what is printed once a second."""
        return {
            "launches": self.launches,
            "wrong": self.wrong,
            "errors": self.errors,
            "descriptors": len(os.listdir("/proc/self/fd")),
            "threads": threading.active_count(),
            "memory": resident(),
        }


def main(platform: str, threads: int, seed: int) -> None:
    """Launch in threads and print, until the standard input is closed."""
    line.KEPT = KEPT
    driver = Driver(platform, seed)
    crew = [threading.Thread(target=driver.work, args=(number,)) for number in range(threads)]
    threading.Thread(target=lambda: (sys.stdin.read(), driver.ended.set()), daemon=True).start()
    for one in crew:
        one.start()
    while not driver.ended.wait(1.0):
        print(json.dumps(driver.said()), flush=True)
        forget()
    for one in crew:
        one.join()
    print(json.dumps(driver.said()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
