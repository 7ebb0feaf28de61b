"""A driver of a marked user on a marked host, run by test_traces.py; and what of the marks is found in bytes."""

import ctypes
import os
import socket
import sys
from collections.abc import Iterable, Iterator

NEW_HOST = 0x04000000  # a namespace for the host's name
HOST = "markedhost"


def mark_host() -> str:
    """Give this process a host name of its own where the system lets it; return the host's name."""
    if ctypes.CDLL(None).unshare(NEW_HOST) == 0:
        socket.sethostname(HOST)
    return os.uname().nodename


def found(content: bytes, marks: Iterable[str]) -> Iterator[str]:
    """Yield the marks in some bytes, in characters of 7 and 8 bits that begin at any bit."""
    number = int.from_bytes(content, "little")
    shifted = [(number >> shift).to_bytes(len(content), "little") for shift in range(8)]
    for mark in marks:
        text = mark.encode()
        packed = sum(character << 7 * place for place, character in enumerate(text))
        whole = packed.to_bytes((7 * len(text) + 7) // 8, "little")[: 7 * len(text) // 8]
        if any(text in one or whole in one for one in shifted):
            yield mark


def main(platform: str, count: int) -> None:
    """Launch the kernels of the benchmarks, and one whose compilation says something; print the host's name."""
    host = mark_host()
    os.mkdir("headers")
    with open("headers/seven.h", "w") as stream:
        stream.write("#define SEVEN 7\n#warning said in the header\n")
    import kernels
    import numpy as np
    from opened import queue_on

    import kcl

    @kcl.kernel
    def loud() -> kcl.Source:
        """x = 7, with a header and two warnings."""
        arguments = [kcl.Array("x", np.float32, "(8,)", "out")]
        text = '#include "seven.h"\n#warning said\nkernel void loud(global float *x) { x[get_global_id(0)] = SEVEN; }'
        headers = [os.path.abspath("headers")]
        return kcl.Source(
            text, entry="loud", arguments=arguments, global_size="(8,)", include_dirs=headers
        )

    queue = queue_on(platform)
    arguments = kernels.Arguments(queue)
    recipes = {recipe: kcl.kernel(recipe) for recipe, _, _ in kernels.FAMILY}
    for number in range(count):
        recipe, variant = kernels.case(number)
        recipes[recipe](variant)(queue, **arguments.of(number))
    loud()(queue)
    data, _info = kcl.save_artifacts()
    with open("saved.kclb", "wb") as stream:
        stream.write(data)
    print(host)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
