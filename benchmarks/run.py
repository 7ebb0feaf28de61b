"""Measure all parts, print their tables, write the figures as JSON; `report.py` draws them, `check.py` compares them.

    python benchmarks/run.py [PART ...] [--quick] [--add] [--json FILE] [--FIELD VALUE ...]

Figures are compared within one part only: a machine is not the same an hour later. There is no verdict here, because
time is not a test. A part that fails is said and left out. Where FILE exists with ``--add`` its other parts stay, and
it says of the new ones when and where they were measured.
PART:PIECE is a piece of a part that has some; the other pieces that were measured before stay.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.util
import json
import os
import pathlib
import platform
import sys
import tempfile
import time
import traceback
from typing import Any

import measure
from measure import Effort

# module: what it measures
PARTS = {
    "imports": "what importing costs",
    "processes": "whole processes, cold, second, later, and without PoCL's own cache",
    "cold": "cold runs in pairs",
    "prepare": "many kernels made ready, by two processes and by one",
    "threads": "new kernels launched from 16 threads at once",
    "unchanged": "programs that were not written for kcl",
    "bypassed": "programs that kcl helps little or not at all",
    "storm": "processes that start cold at once",
    "large": "a kernel of many statements",
    "calls": "hot calls",
    "sizes": "kernels that fit their sizes",
    "tuning": "choices that are measured",
    "lookup": "look-ups among many entries",
    "entries": "bytes on disk, and what compression would do",
    "bundle": "a bundle: its bytes, what saving and loading cost, and the first run after it",
    "tiers": "a run whose own cache is empty, with a site and with a remote",
    "listing": "commands on a large cache",
    "bookkeeping": "what statistics cost a warm run",
    "recording": "recorded calls, imports, recipes called anew",
}


def main() -> int:
    """Measure what the command line asks for."""
    options = _parse()
    effort = _effort(options)
    with tempfile.TemporaryDirectory(prefix="kcl-device-") as name:
        device = measure.run("device.py", cache=pathlib.Path(name) / "cache").output.strip()
    document: dict[str, Any] = {
        "time": datetime.datetime.now().astimezone().isoformat(timespec="minutes"),
        "device": device,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "effort": effort._asdict(),
        "load": {},
        "seconds": {},
        "added": {},
        "parts": {},
    }
    place = ""
    if options.add and options.json.exists():
        place = f"{device}; {document['cores']} cores; {document['time']}"
        document |= json.loads(options.json.read_text(encoding="utf-8"))
    print(f"{device}; {os.cpu_count()} cores")
    asked = [
        one
        for part in options.parts or PARTS
        if importlib.util.find_spec(part.partition(":")[0])
        for one in _pieces(part, effort)
    ]
    failed = []
    for one in asked:
        part, _, piece = one.partition(":")
        document["load"][one] = round(os.getloadavg()[0], 1)
        begin = time.monotonic()
        figures = _measured(part, effort, piece)
        document["seconds"][one] = round(time.monotonic() - begin)
        if figures is None:
            failed.append(one)
        else:
            document["parts"][part] = {
                **(document["parts"].get(part, {}) if piece else {}),
                **figures,
            }
            document["added"] |= {one: place} if place else {}
        measure.write(document, options.json)
    print(f"\nwritten: {options.json}")
    return 1 if failed else 0


def _pieces(part: str, effort: Effort) -> list[str]:
    """Return a part, or its pieces if it has some: each is stored, or fails, alone."""
    with contextlib.suppress(Exception):  # `_measured` says why
        return [f"{part}:{piece}" for piece in importlib.import_module(part).pieces(effort)]
    return [part]


def _measured(part: str, effort: Effort, piece: str) -> dict[str, Any] | None:
    print(f"\n== {part}: {piece or PARTS[part]}", flush=True)
    try:
        module = importlib.import_module(part)
        figures: dict[str, Any] = (
            module.measured(effort, [piece]) if piece else module.measured(effort)
        )
        print("\n".join(module.lines(figures)), flush=True)
    except (Exception, SystemExit):
        traceback.print_exc()
        print(f"bench: {part} could not be measured", flush=True)
        return None
    return figures


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure kcl beside loopy and beside hand-written pyopencl."
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"all, or some of: {', '.join(PARTS)}"
    )
    parser.add_argument("--quick", action="store_true", help="as little as shows that it works")
    parser.add_argument("--add", action="store_true", help="keep the other parts that are in FILE")
    now = datetime.datetime.now().astimezone()
    parser.add_argument(
        "--json",
        type=pathlib.Path,
        metavar="FILE",
        default=measure.RESULTS / f"bench-{now:%Y%m%d-%H%M%S}.json",
        help="where the figures go (default benchmarks/results/)",
    )
    for field, default in Effort._field_defaults.items():
        many = isinstance(default, tuple)
        parser.add_argument(
            f"--{field.replace('_', '-')}", type=int, nargs="+" if many else None, metavar="N"
        )
    options = parser.parse_args()
    unknown = {one.partition(":")[0] for one in options.parts} - set(PARTS)
    if unknown:
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    return options


def _effort(options: argparse.Namespace) -> Effort:
    chosen = {field: getattr(options, field) for field in Effort._fields}
    given: Any = {
        field: tuple(v) if isinstance(v, list) else v
        for field, v in chosen.items()
        if v is not None
    }
    return (measure.QUICK if options.quick else Effort())._replace(**given)


if __name__ == "__main__":
    sys.exit(main())
