"""Compare whole processes: kcl, loopy + pyopencl + PoCL with all their caches, and the floor, all in one run.

    python benchmarks/processes.py [--quick]

The floor is pyopencl by hand: it loads the same binaries from files, sets the same arguments and launches. Each series
gives each side a fresh cache directory: a cold run, the second run as the first one exits, then later runs in turns, of
loopy half as many since they take most of the time; and then, without loopy, runs with PoCL's own cache emptied before
each, and switched off.
"""

from __future__ import annotations

import ast
import itertools
import json
import pathlib
import runpy
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from typing import Any

import measure
from measure import Effort, spread

from kcl.cache.entry import Entry

SIDES = ("floor", "kcl", "loopy")
MOMENTS = ("cold", "second", "later")
WITHOUT = ("empty", "off")  # PoCL's own cache
MANY = 100  # kernels: one series of so many takes as long as several of fewer
LOOPY_EVERY = 2  # rounds of later runs
BINARIES = pathlib.Path("pyopencl", "kcl-binary-v1")

# what is divided by what, as (side, moment)
RATIOS = {
    "kcl later / floor later": (("kcl", "later"), ("floor", "later")),
    "kcl second / floor later": (("kcl", "second"), ("floor", "later")),
    "loopy later / kcl later": (("loopy", "later"), ("kcl", "later")),
    "loopy later / kcl second": (("loopy", "later"), ("kcl", "second")),
    "loopy second / kcl second": (("loopy", "second"), ("kcl", "second")),
    "loopy later / floor later": (("loopy", "later"), ("floor", "later")),
    "kcl cold / loopy cold": (("kcl", "cold"), ("loopy", "cold")),
    "kcl empty / floor empty": (("kcl", "empty"), ("floor", "empty")),
    "kcl off / floor off": (("kcl", "off"), ("floor", "off")),
}


def measured(effort: Effort) -> dict[str, Any]:
    """Run all series for each number of kernels; return seconds, processor seconds, bytes and counts."""
    with tempfile.TemporaryDirectory(prefix="kcl-bench-", ignore_cleanup_errors=True) as name:
        root = pathlib.Path(name)
        plan = record(max(effort.kernels))
        warm_byte_code(root, plan)
        return {"kernels": [_compared(root, plan, count, effort) for count in effort.kernels]}


def lines(figures: dict[str, Any]) -> Iterator[str]:
    """Print seconds, ratios and bytes for each number of kernels."""
    for one in figures["kernels"]:
        yield from _table(one)


# What `record` has saved, by number of kernels; the directories go when this process ends.
_recorded: dict[int, tempfile.TemporaryDirectory[str]] = {}


def record(count: int) -> pathlib.Path:
    """Save what the floor needs, once for all parts: how each kernel is launched, and the binaries that kcl has."""
    if _recorded and max(_recorded) >= count:
        return pathlib.Path(_recorded[max(_recorded)].name, "plan")
    made = tempfile.TemporaryDirectory(prefix="kcl-plan-", ignore_cleanup_errors=True)
    plan, cache = pathlib.Path(made.name, "plan"), pathlib.Path(made.name, "record", "cache")
    plan.mkdir()
    print(f"saving launches and binaries of {count} kernels for the floor ...", flush=True)
    measure.run("record.py", str(count), str(plan), cache=cache)
    measure.run("drive_kcl.py", str(count), cache=cache)
    measure.settle(cache)
    entries = [
        Entry.unpack(path.read_bytes()) for path in (cache / BINARIES).rglob("*") if path.is_file()
    ]
    binaries = {
        name: entry.parts["binary"] for entry in entries for name in entry.metadata["kernels"]
    }
    for number, launch in enumerate(runpy.run_path(str(plan / "plan.py"))["LAUNCHES"]):
        if launch[0] not in binaries:
            raise SystemExit(f"bench: kcl's helper has made no binary of {launch[0]}")
        (plan / f"{number}.bin").write_bytes(binaries[launch[0]])
    _recorded[count] = made
    return plan


def warm_byte_code(root: pathlib.Path, plan: pathlib.Path) -> None:
    """Run each side once, uncounted, so that no measured process compiles Python modules."""
    for side in SIDES:
        for _ in range(2):
            drive(side, 1, plan, root / "byte-code" / side / "cache")
        measure.settle(root / "byte-code" / side / "cache")


def drive(
    side: str, count: int, plan: pathlib.Path, cache: pathlib.Path, **variables: str
) -> measure.Child:
    """Run the driver script of one side on its cache directory."""
    return measure.run(
        f"drive_{side}.py", *_arguments(side, count, plan), cache=cache, variables=variables
    )


def _arguments(side: str, count: int, plan: pathlib.Path) -> list[str]:
    return [str(count), *([str(plan)] if side == "floor" else [])]


class Figures:
    """Everything measured for one number of kernels."""

    def __init__(self, count: int) -> None:
        self.count = count
        moments = (*MOMENTS, *WITHOUT)
        self.wall: dict[str, dict[str, list[float]]] = {
            side: {moment: [] for moment in moments} for side in SIDES
        }
        self.cpu: dict[str, dict[str, list[float]]] = {
            side: {moment: [] for moment in moments} for side in SIDES
        }
        self.rounds: dict[str, list[int]] = {
            side: [] for side in SIDES
        }  # in which a side had its later runs
        self.background: dict[str, list[float]] = {"cpu": [], "seconds": []}
        self.disk: dict[str, dict[str, int]] = {}
        self.missed: dict[str, int] = {"second": 0, "later": 0, "empty": 0, "off": 0}
        self.libraries: dict[str, dict[str, dict[str, int]]] = {"floor": {}, "kcl": {}}
        self._computed: dict[str, str] = {}

    def add(self, side: str, moment: str, child: measure.Child) -> None:
        """Take in one process; raise SystemExit if it computed other numbers than those before it."""
        checksum, _, look_ups = child.output.strip().partition(" ")
        self._computed.setdefault(checksum, f"{side} {moment}")
        if len(self._computed) > 1:
            raise SystemExit(f"bench: not all processes compute the same numbers: {self._computed}")
        self.wall[side][moment].append(child.wall)
        self.cpu[side][moment].append(child.cpu)
        if look_ups and moment in self.missed:
            stats = ast.literal_eval(look_ups)
            self.missed[moment] += sum(
                max(
                    self.count - layer["hits"],
                    layer["misses"] + layer["bypassed"] + layer["errors"],
                )
                for layer in (stats["generator"], stats["binary"])
            )

    def as_json(self) -> dict[str, Any]:
        """Return what was measured."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


def _compared(root: pathlib.Path, plan: pathlib.Path, count: int, effort: Effort) -> dict[str, Any]:
    """Run all series for one number of kernels."""
    figures = Figures(count)
    if count >= MANY:
        effort = effort._replace(series=1)
    for series in range(effort.series):
        print(f"{count} kernels, series {series + 1} of {effort.series} ...", flush=True)
        caches = {side: root / f"{count}-{series}" / side / "cache" for side in SIDES}
        for side in turned(series):
            for moment in ("cold", "second"):
                figures.add(side, moment, drive(side, count, plan, caches[side]))
            background = measure.settle(caches[side])
            if side == "kcl":
                figures.background["cpu"].append(background.cpu)
                figures.background["seconds"].append(background.waited)
        for step in range(effort.later):
            for side in turned(step):
                if side != "loopy" or step % LOOPY_EVERY == 0:
                    figures.add(side, "later", drive(side, count, plan, caches[side]))
                    figures.rounds[side].append(series * effort.later + step)
        figures.disk = {side: measure.disk_usage(caches[side]) for side in SIDES}
        for moment in WITHOUT:
            for step in range(effort.later):
                for side in ("floor", "kcl")[:: 1 if step % 2 else -1]:
                    figures.add(side, moment, _without(moment, side, count, plan, caches[side]))
            for side in ("floor", "kcl"):
                figures.libraries[side][moment] = _libraries(
                    moment, side, count, plan, caches[side]
                )
        shutil.rmtree(root / f"{count}-{series}", ignore_errors=True)
    return figures.as_json()


def _without(
    moment: str, side: str, count: int, plan: pathlib.Path, cache: pathlib.Path
) -> measure.Child:
    return drive(side, count, plan, cache, **_conditions(moment, cache))


def _libraries(
    moment: str, side: str, count: int, plan: pathlib.Path, cache: pathlib.Path
) -> dict[str, int]:
    """Count the libraries that PoCL unpacked or generated in a run under this condition."""
    variables = _conditions(moment, cache)
    binaries = plan if side == "floor" else cache / BINARIES
    arguments = (side, str(binaries), *_arguments(side, count, plan))
    child = measure.run("drive_counted.py", *arguments, cache=cache, variables=variables)
    return dict(json.loads(child.output.splitlines()[-1]))


def _conditions(moment: str, cache: pathlib.Path) -> dict[str, str]:
    """Empty PoCL's cache; return the variables that the next process gets."""
    shutil.rmtree(cache / "pocl", ignore_errors=True)
    return {"POCL_KERNEL_CACHE": "0"} if moment == "off" else {}


def turned(step: int) -> tuple[str, ...]:
    """Return the sides in an order that turns with every round, so that none is always first."""
    step %= len(SIDES)
    return SIDES[step:] + SIDES[:step]


def ratios(figures: dict[str, Any], what: str = "cpu") -> dict[str, tuple[float, float, float]]:
    """Return each ratio of medians with the range over the runs that were made side by side, else over all pairs."""
    found = {}
    for name, ((side, moment), (other, other_moment)) in RATIOS.items():
        above, below = figures[what][side][moment], figures[what][other][other_moment]
        if moment != other_moment:
            together = list(itertools.product(above, below))
        elif moment == "later":
            beside = dict(zip(figures["rounds"][other], below, strict=True))
            rounds = zip(figures["rounds"][side], above, strict=True)
            together = [(seconds, beside[number]) for number, seconds in rounds if number in beside]
        else:
            together = list(zip(above, below, strict=True))
        pairs = [a / b for a, b in together]
        found[name] = (statistics.median(above) / statistics.median(below), min(pairs), max(pairs))
    return found


def _table(figures: dict[str, Any]) -> Iterator[str]:
    yield f"{figures['count']} kernels, whole processes, seconds: median (smallest..largest)"
    yield "  {:<8}".format("") + "".join(
        f"{moment:<24}" for moment in (*MOMENTS, *(f"PoCL {w}" for w in WITHOUT))
    )
    for side in SIDES:
        for what, title in (("wall", side), ("cpu", "  cpu")):
            measured = [figures[what][side][moment] for moment in (*MOMENTS, *WITHOUT)]
            yield f"  {title:<8}" + "".join(f"{spread(one) if one else '':<24}" for one in measured)
    cpu, seconds = (spread(figures["background"][what]) for what in ("cpu", "seconds"))
    yield f"  kcl's helper after the second run: cpu {cpu}, ended {seconds} later"
    yield "  ratio of medians (smallest..largest of the pairs)     wall                   cpu"
    in_cpu = ratios(figures)
    for name, one in ratios(figures, "wall").items():
        both = ("{:6.2f} ({:.2f}..{:.2f})".format(*each) for each in (one, in_cpu[name]))
        yield f"    {name:<44}{'   '.join(both)}"
    yield "  bytes on disk per kernel"
    for side in SIDES:
        owned = (
            f"{owner} {size // figures['count']}"
            for owner, size in figures["disk"][side].items()
            if size
        )
        yield f"    {side:<8}{', '.join(owned)}"
    for side, moments in figures["libraries"].items():
        told = (
            f"cache {moment}: {one['generated']} of {one['libraries']}"
            for moment, one in moments.items()
        )
        yield f"  libraries that PoCL generated itself for {side:<6} {', '.join(told)}"
    for moment, missed in figures["missed"].items():
        if missed:
            yield f"  NOT WARM: kcl {moment}: {missed} look-ups did not hit"


if __name__ == "__main__":
    measure.part(measured, lines)
