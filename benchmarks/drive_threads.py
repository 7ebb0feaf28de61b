"""Launch COUNT new kernels of the family from THREADS threads at once, each thread all of them on a queue of its own.

python drive_threads.py COUNT THREADS {shared,own}

With "shared" the threads launch the same Kernel objects, with "own" each thread calls the recipes itself. Prints the
seconds from the start of the threads to the end of the last one, and the look-ups that missed.
"""

from __future__ import annotations

import sys
import threading
import time

import kernels
import pyopencl as cl

import kcl


def main() -> None:
    count, number, share = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    decorated = {recipe: kcl.kernel(recipe) for recipe, _, _ in kernels.FAMILY}
    context = cl.create_some_context(interactive=False)
    cases = [kernels.case(one) for one in range(count)]
    shared = [decorated[recipe](variant) for recipe, variant in cases]
    arguments = [kernels.Arguments(cl.CommandQueue(context)) for _ in range(number)]
    given = [[each.of(one) for one in range(count)] for each in arguments]
    faults: list[BaseException] = []

    def work(place: int) -> None:
        queue = arguments[place].queue
        try:
            for one, (recipe, variant) in enumerate(cases):
                kernel = shared[one] if share == "shared" else decorated[recipe](variant)
                kernel(queue, **given[place][one])
            queue.finish()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(number)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    if faults:
        raise faults[0]
    print(seconds, kcl.stats()["generator"]["misses"], kcl.stats()["binary"]["misses"])


if __name__ == "__main__":
    main()
