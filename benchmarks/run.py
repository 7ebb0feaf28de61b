"""Compare whole processes: kcl, loopy + pyopencl + PoCL with all their caches, and the floor, all in one run.

    python benchmarks/run.py [--kernels 5 42 200] [--repeats N] [--later N] [--json FILE] [--quick]

The floor is pyopencl by hand: it loads the same binaries from files, sets the same arguments and launches. Each series
gives each side a fresh cache directory: a cold run, the second run at once, then later runs in turns. Printed are
medians with the smallest and largest value, and ratios; there is no verdict, because time is not a test.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import pathlib
import platform
import statistics
import sys
import tempfile
from typing import Any

import measure
from measure import spread

SIDES = ("floor", "kcl", "loopy")
MOMENTS = ("cold", "second", "later")

# what is divided by what, as (side, moment)
RATIOS = (
    ("kcl later / floor later", ("kcl", "later"), ("floor", "later")),
    ("kcl second / floor later", ("kcl", "second"), ("floor", "later")),
    ("loopy later / kcl later", ("loopy", "later"), ("kcl", "later")),
    ("loopy later / kcl second", ("loopy", "later"), ("kcl", "second")),
    ("loopy second / kcl second", ("loopy", "second"), ("kcl", "second")),
    ("loopy later / floor later", ("loopy", "later"), ("floor", "later")),
    ("kcl cold / loopy cold", ("kcl", "cold"), ("loopy", "cold")),
)

IMPORTS = ("kcl", "pyopencl")


class Figures:
    """Everything measured for one number of kernels."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.wall: dict[str, dict[str, list[float]]] = {side: {moment: [] for moment in MOMENTS} for side in SIDES}
        self.cpu: dict[str, dict[str, list[float]]] = {side: {moment: [] for moment in MOMENTS} for side in SIDES}
        self.background: list[measure.Background] = []
        self.disk: dict[str, dict[str, int]] = {}
        self.look_ups: dict[str, list[dict[str, Any]]] = {moment: [] for moment in MOMENTS}
        self.computed: dict[str, str] = {}

    def add(self, side: str, moment: str, child: measure.Child) -> None:
        """Take in one process; raise SystemExit if it computed other numbers than those before it."""
        checksum, _, look_ups = child.output.strip().partition(" ")
        self.computed.setdefault(checksum, f"{side} {moment}")
        if len(self.computed) > 1:
            raise SystemExit(f"bench: not all processes compute the same numbers: {self.computed}")
        self.wall[side][moment].append(child.wall)
        self.cpu[side][moment].append(child.cpu)
        if look_ups:
            self.look_ups[moment].append(ast.literal_eval(look_ups))


def main() -> int:
    """Measure, print the tables, write the JSON."""
    options = parse()
    with tempfile.TemporaryDirectory(prefix="kcl-bench-", ignore_cleanup_errors=True) as name:
        root = pathlib.Path(name)
        plan = record(root, max(options.kernels))
        warm_byte_code(root, plan)
        imports = {module: [] for module in IMPORTS}
        for _ in range(options.imports):
            for module in IMPORTS:
                imports[module].append(measure.import_seconds(module, root / "imports" / "cache"))
        print_imports(imports)
        all_figures = []
        for count in options.kernels:
            all_figures.append(compare(root, plan, count, options))
            print_figures(all_figures[-1])
        device = measure.run("device.py", cache=root / "device" / "cache").output.strip()
    write(options, device, imports, all_figures)
    return 0


def parse() -> argparse.Namespace:
    """Read the command line; ``--quick`` is one short series."""
    parser = argparse.ArgumentParser(description="Compare kcl with loopy and with hand-written pyopencl.")
    parser.add_argument("--kernels", type=int, nargs="+", default=[5, 42, 200], metavar="N", help="numbers of kernels")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="series, each from cold (default 3)")
    parser.add_argument("--later", type=int, default=5, metavar="N", help="later runs in a series (default 5)")
    parser.add_argument("--imports", type=int, default=11, metavar="N", help="imports of each module (default 11)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="where the figures go (default results/)")
    parser.add_argument("--quick", action="store_true", help="5 kernels, one series, two later runs")
    options = parser.parse_args()
    if options.quick:
        options.kernels, options.repeats, options.later, options.imports = [5], 1, 2, 3
    return options


def record(root: pathlib.Path, count: int) -> pathlib.Path:
    """Save the binaries and the launches that the floor needs; return their directory."""
    plan = root / "plan"
    plan.mkdir()
    print(f"saving the binaries of {count} kernels for the floor ...", flush=True)
    measure.run("record.py", str(count), str(plan), cache=root / "record" / "cache")
    return plan


def warm_byte_code(root: pathlib.Path, plan: pathlib.Path) -> None:
    """Run each side once, uncounted, so that no measured process compiles Python modules."""
    for side in SIDES:
        for _ in range(2):
            drive(side, 1, plan, root / "byte-code" / side / "cache")
        measure.settle(root / "byte-code" / side / "cache")


def drive(side: str, count: int, plan: pathlib.Path, cache: pathlib.Path) -> measure.Child:
    """Run the driver script of one side on its cache directory."""
    return measure.run(f"drive_{side}.py", str(count), *([str(plan)] if side == "floor" else []), cache=cache)


def compare(root: pathlib.Path, plan: pathlib.Path, count: int, options: argparse.Namespace) -> Figures:
    """Run all series for one number of kernels."""
    figures = Figures(count)
    for series in range(options.repeats):
        caches = {side: root / f"{count}-{series}" / side / "cache" for side in SIDES}
        for side in turned(series):
            for moment in ("cold", "second"):
                figures.add(side, moment, drive(side, count, plan, caches[side]))
            background = measure.settle(caches[side])
            if side == "kcl":
                figures.background.append(background)
        for step in range(options.later):
            for side in turned(step):
                figures.add(side, "later", drive(side, count, plan, caches[side]))
        figures.disk = {side: measure.disk_usage(caches[side]) for side in SIDES}
    return figures


def turned(step: int) -> tuple[str, ...]:
    """Return the sides in an order that turns with every round, so that none is always first."""
    step %= len(SIDES)
    return SIDES[step:] + SIDES[:step]


def print_imports(imports: dict[str, list[float]]) -> None:
    """Print what importing costs and the ratio."""
    print("\nimport, milliseconds: median (smallest..largest)")
    for module, seconds in imports.items():
        print(f"  {module:<10} {spread([1e3 * second for second in seconds])}")
    print(f"  kcl / pyopencl: {import_ratio(imports):.2f}")


def import_ratio(imports: dict[str, list[float]]) -> float:
    """Return the ratio of the medians."""
    return statistics.median(imports["kcl"]) / statistics.median(imports["pyopencl"])


def print_figures(figures: Figures) -> None:
    """Print seconds, ratios and bytes for one number of kernels."""
    print(f"\n{figures.count} kernels, whole processes, seconds: median (smallest..largest)")
    print("  {:<8}".format("") + "".join(f"{moment:<30}" for moment in MOMENTS))
    for side in SIDES:
        print(f"  {side:<8}" + "".join(f"{spread(figures.wall[side][moment]):<30}" for moment in MOMENTS))
        print("  {:<8}".format("  cpu") + "".join(f"{spread(figures.cpu[side][moment]):<30}" for moment in MOMENTS))
    helped = [background.cpu for background in figures.background]
    if any(helped):
        waited = [background.waited for background in figures.background]
        print(f"  kcl's helpers alive after the second run: cpu {spread(helped)}, gone {spread(waited)} later")
    print("  ratio of medians (smallest..largest of the pairs)")
    for name, (median, low, high) in ratios(figures).items():
        print(f"    {name:<28}{median:6.2f} ({low:.2f}..{high:.2f})")
    print("  bytes on disk per kernel")
    for side in SIDES:
        owned = ", ".join(f"{owner} {size // figures.count}" for owner, size in figures.disk[side].items() if size)
        print(f"    {side:<8}{owned}")
    print_look_ups(figures)


def print_look_ups(figures: Figures) -> None:
    """Say whether kcl's warm runs were warm, in kcl's own counts."""
    for moment in ("second", "later"):
        for layer in ("generator", "binary"):
            missed = [int(stats[layer]["misses"] + stats[layer]["bypassed"]) for stats in figures.look_ups[moment]]
            hits = [int(stats[layer]["hits"]) for stats in figures.look_ups[moment]]
            if any(missed) or min(hits, default=0) < figures.count:
                print(f"  NOT WARM: kcl {moment}, {layer}: hits {hits}, missed or bypassed {missed}")
    sys.stdout.flush()


def ratios(figures: Figures) -> dict[str, tuple[float, float, float]]:
    """Return each ratio of medians with the range over the runs that were made side by side."""
    found = {}
    for name, (side, moment), (other, other_moment) in RATIOS:
        above, below = figures.wall[side][moment], figures.wall[other][other_moment]
        pairs = [a / b for a, b in zip(above, below, strict=False)]
        found[name] = (statistics.median(above) / statistics.median(below), min(pairs), max(pairs))
    return found


def write(options: argparse.Namespace, device: str, imports: dict[str, list[float]], found: list[Figures]) -> None:
    """Write all figures, the raw seconds among them, as JSON."""
    now = datetime.datetime.now().astimezone()
    target = options.json or measure.HERE / "results" / f"bench-{now:%Y%m%d-%H%M%S}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "time": now.isoformat(timespec="seconds"),
        "device": device,
        "python": platform.python_version(),
        "imports": imports,
        "import ratio": import_ratio(imports),
        "kernels": [vars(figures) | {"ratios": ratios(figures)} for figures in found],
    }
    target.write_text(json.dumps(document, indent=1), encoding="utf-8")
    print(f"\nwritten: {target}")


if __name__ == "__main__":
    sys.exit(main())
