"""Measure the digest of a graph of pytato by its number of nodes.

    python benchmarks/graph_key.py [--quick]

The digest has to be small beside pytato's own, to take at most 20 microseconds a node, and to grow with the nodes and no
faster. It needs an interpreter that has pytato.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import measure
from measure import Effort, spread

NODES = (1_000, 10_000, 100_000)
COMPARED = 10_000  # nodes up to which pytato's key builder, the yardstick, runs too


def measured(effort: Effort) -> dict[str, Any]:
    """Return processor seconds of the digests of kcl and pytato for each number of nodes; no graphs without pytato."""
    graphs = []
    if importlib.util.find_spec("pytato"):
        with tempfile.TemporaryDirectory(prefix="kcl-graph-", ignore_cleanup_errors=True) as name:
            for count in NODES if effort != measure.QUICK else NODES[:1]:
                compare = ["compare"] if count <= COMPARED else []
                cache = pathlib.Path(name) / "cache"
                child = measure.run("drive_graph_key.py", str(count), *compare, cache=cache)
                graphs.append(json.loads(child.output.splitlines()[-1]))
    return {"graphs": graphs}


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print microseconds of processor time a node, by nodes."""
    yield "digest of a graph, microseconds a node: median (smallest..largest)"
    if not figures["graphs"]:
        yield "  left out: pytato is not installed"
        return
    yield f"  {'nodes':>10} {'kcl':<26}{'pytato':<26}"
    for graph in figures["graphs"]:
        columns = [
            spread([1e6 * second / graph["nodes"] for second in graph[side]], 1)
            for side in ("kcl", "pytato")
            if graph[side]
        ]
        yield f"  {graph['nodes']:>10} {''.join(f'{column:<26}' for column in columns)}"
    least = [min(graph["kcl"]) / graph["nodes"] for graph in figures["graphs"]]
    yield f"  a node of the largest graph / of the smallest: {least[-1] / least[0]:.2f}"


if __name__ == "__main__":
    measure.part(measured, lines)
