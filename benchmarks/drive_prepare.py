"""Prepare COUNT kernels of the family with PROCESSES workers, and say how many seconds that takes.

python drive_prepare.py COUNT PROCESSES
"""

from __future__ import annotations

import sys
import time

import prepared
import pyopencl as cl

import kcl


def main() -> None:
    count, processes = map(int, sys.argv[1:3])
    context = cl.create_some_context(interactive=False)
    items = [prepared.case(number) for number in range(count)]
    begin = time.perf_counter()
    kcl.prepare(items, context, processes)
    print(time.perf_counter() - begin)


if __name__ == "__main__":
    main()
