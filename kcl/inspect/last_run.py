"""The last run of a driver, from the journal and the entries: the contents of `kcl report`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kcl.base import settings
from kcl.inspect import inventory, kernels, tally
from kcl.inspect.explain import misses
from kcl.inspect.explain.misses import Miss
from kcl.inspect.history import journal
from kcl.inspect.history.records import COUNTERS
from kcl.inspect.history.runs import RunRecord
from kcl.inspect.kernels import Entries, KernelRow

EXPLAINED = 40  # misses of a run


class LayerContents(NamedTuple):
    """The contents of a layer: the number of entries and of kernels, all bytes, and when the entries were made."""

    layer: str
    places: tuple[str, ...]
    entries: int
    kernels: int
    size: int
    oldest: float
    newest: float


class Run(NamedTuple):
    """The processes of one run, their look-ups, the explanations of their misses, and the contents of the cache now.

    `began` and `ended` are the times of the first and of the last look-up, in seconds since the epoch. `layers` has
    the counters of each layer. `untold` counts the earlier misses that are not explained: there were too many. `over`
    is the end of the last process.
    """

    driver: str
    processes: tuple[int, ...]
    began: float
    ended: float
    layers: tuple[dict[str, Any], ...]
    rows: tuple[KernelRow, ...]
    told: tuple[Miss, ...]
    untold: int
    remarks: tuple[str, ...]
    held: tuple[LayerContents, ...]
    over: float = 0.0

    def total(self, column: str) -> float:
        """Add up a counter over the layers."""
        return sum(float(row[column]) for row in self.layers)

    def described(self) -> dict[str, Any]:
        """Write the run as JSON."""
        found = list(map(kernels.described, self.rows))
        return kernels.Document(*self[:5], found, self.remarks)._asdict()


def last_run(driver: str | None = None) -> Run | None:
    """Return the last run of a driver, or of any driver; None where none is known."""
    run = journal.last_run(driver)
    if not run:
        return None
    history, names = journal.last_misses(), {one.name for one in run}
    missed = [one for one in history if one.process in names]
    entries = Entries()
    looks = kernels.of_run(run, missed, entries)
    held = tuple(_held(layer) for layer in settings.LAYERS)
    late = [note.late.words for note in journal.late() if note.driver == run[0].driver]
    moments = [moment for look in looks if look.moment for moment in (look.moment - look.seconds, look.moment)]
    return Run(
        run[0].driver,
        tuple(sorted({one.pid for one in run})),
        min(moments, default=run[-1].began),
        max(moments, default=run[0].ended),
        tuple(_counted(run, one) for one in held),
        tuple(kernels.rows(looks, entries)),
        tuple(misses.told(missed[-EXPLAINED:], history)),
        max(0, len(missed) - EXPLAINED),
        tuple(dict.fromkeys([*(remark for one in run for remark in one.remarks), *late])),
        held,
        run[0].ended,
    )


def _counted(run: Iterable[RunRecord], held: LayerContents) -> dict[str, Any]:
    """Add up the counters of a layer over the processes of a run."""
    rows = [row for one in run for (layer, _kernel), row in one.tallies.items() if layer == held.layer]
    sums = {name: sum(row[name] for row in rows) for name in COUNTERS}
    return {"layer": held.layer, **sums, "files": ", ".join(held.places)}


def _held(layer: str) -> LayerContents:
    found = list(inventory.entries(layer))
    built = [one.built for one in found]
    return LayerContents(
        layer,
        tuple(store.location for store in inventory.stores(layer, [])),
        len(found),
        len({one.kernel for one in found}),
        tally.of_layer(layer).bytes,
        min(built, default=0.0),
        max(built, default=0.0),
    )
