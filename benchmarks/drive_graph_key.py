"""Measure the digest of a graph of COUNT nodes of pytato in this process: processor seconds, as JSON.

python drive_graph_key.py COUNT [compare]

Each round makes the graph anew, so nothing is memoised on it. With "compare" pytato's own key builder digests it too.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import pytato as pt
from drive_content_key import timed
from pytato.analysis import PytatoKeyBuilder, get_num_nodes

from kcl.frontends.pytato.graph import digest

DEPTH = 50  # nodes of a chain: pytato's key builder recurses over them
ROUNDS = 5


def main() -> None:
    count = int(sys.argv[1])
    found = {"nodes": get_num_nodes(graph(count)), "kcl": [], "pytato": []}
    timed(digest, graph(DEPTH))  # pays for what a process does once
    timed(PytatoKeyBuilder(), graph(DEPTH))
    for _ in range(ROUNDS):
        found["kcl"].append(timed(digest, graph(count)))
        if "compare" in sys.argv:
            found["pytato"].append(timed(PytatoKeyBuilder(), graph(count)))
    print(json.dumps(found))


def graph(count: int):
    """Return chains of nodes of five kinds, whose first nodes are shared, as outputs."""
    x, y = (pt.make_placeholder(name, (10, 4), np.float64) for name in "xy")
    data = pt.make_data_wrapper(np.zeros((10, 4)))
    outputs = {}
    for start in range(0, count, DEPTH):
        before, last = (x, y) if start % (2 * DEPTH) else (x, data)
        for number in range(min(DEPTH, count - start)):
            before, last = last, joined(number, before, last, start + number)
        outputs[f"out{start}"] = last
    return pt.make_dict_of_named_arrays(outputs)


def joined(number: int, before, last, value: int):
    """Return one node of two nodes."""
    match number % 5:
        case 0:
            return before + last
        case 1:
            return last - (value + 0.5)
        case 2:
            return pt.sin(last)
        case 3:
            return pt.roll(last, 1, 0)
        case _:
            return pt.einsum("ij,ij->ij", before, last)


if __name__ == "__main__":
    main()
