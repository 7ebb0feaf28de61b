"""Write down for the floor how each of COUNT kernels is launched, in DIRECTORY/plan.py.

python record.py COUNT DIRECTORY

Runs the kernels once through loopy. The binaries are not asked for here: the floor gets those that kcl has.
"""

from __future__ import annotations

import pathlib
import re
import sys
from typing import Any

import kernels
import pyopencl as cl

Launch = tuple[str, tuple[int, ...], tuple[int, ...], tuple[str, ...]]


class Recorder:
    """Stand in for `pyopencl.enqueue_nd_range_kernel`: launch, and keep the kernel and its sizes."""

    def __init__(self) -> None:
        self.enqueue = cl.enqueue_nd_range_kernel
        self.launched: list[tuple[cl.Kernel, tuple[int, ...], tuple[int, ...]]] = []
        cl.enqueue_nd_range_kernel = self

    def __call__(
        self,
        queue: cl.CommandQueue,
        kernel: cl.Kernel,
        global_size: tuple[int, ...],
        local_size: tuple[int, ...],
        global_offset: tuple[int, ...] | None = None,
        wait_for: list[cl.Event] | None = None,
        g_times_l: bool = False,
        allow_empty: bool = False,
    ) -> Any:
        if g_times_l:
            global_size = tuple(
                groups * size for groups, size in zip(global_size, local_size, strict=True)
            )
        self.launched.append((kernel, tuple(global_size), tuple(local_size)))
        return self.enqueue(
            queue, kernel, global_size, local_size, global_offset, wait_for, False, allow_empty
        )


def main() -> None:
    count, directory = int(sys.argv[1]), pathlib.Path(sys.argv[2])
    recorder = Recorder()
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    arguments = kernels.Arguments(queue)
    for number in range(count):
        recipe, variant = kernels.case(number)
        recipe(variant).executor(context)(queue, **arguments.of(number))
        if len(recorder.launched) != number + 1:
            raise SystemExit(
                f"kernel {number} made several launches; the floor knows one launch a kernel"
            )
    print(arguments.checksum())
    launches: list[Launch] = []
    for kernel, global_size, local_size in recorder.launched:
        program = kernel.get_info(cl.kernel_info.PROGRAM)
        source = program.get_info(cl.program_info.SOURCE)
        launches.append(
            (
                kernel.function_name,
                global_size,
                local_size,
                argument_names(source, kernel.function_name),
            )
        )
    lines = "".join(f"    {launch!r},\n" for launch in launches)
    (directory / "plan.py").write_text(f"LAUNCHES = (\n{lines})\n", encoding="utf-8")


def argument_names(source: str, entry: str) -> tuple[str, ...]:
    """Return the names of a kernel's arguments in their order, from its OpenCL C as loopy writes it."""
    signature = re.search(rf"\b{entry}\(([^)]*)\)", source)
    if signature is None:
        raise SystemExit(f"the source of {entry} declares no such kernel")
    return tuple(argument.split()[-1].lstrip("*") for argument in signature[1].split(","))


if __name__ == "__main__":
    main()
