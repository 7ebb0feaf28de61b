"""A third layer: which candidate costs the least, found once and kept. A job is a question, candidates and costs."""

from __future__ import annotations

import contextlib

from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.lookup import Look, Made
from kcl.cache.stores.directory import Directory


def row(folder):
    """Return the row of the layer."""
    return layers.Row("tuning", {}, lambda: str(folder), lambda: ([Directory(folder)], []))


class Place:
    def __init__(self, question: str) -> None:
        self.key = Key([Part("question", question)])
        self.address = self.key.digest


class Tune:
    verb = "tuned"

    @property
    def layer(self):
        return layers.layer("tuning")

    def name(self, job):
        return job[0]

    def guard(self, _job):
        return contextlib.nullcontext()

    def together(self, job, _look):
        return Place(job[0]).address

    def search(self, job):
        place = Place(job[0])
        found = yield place
        entries = tuple(filter(None, [found.entry]))
        return Look(found.outcome, found.reason, place.key, slots=(place,), entries=entries, size=found.size)

    def load(self, _job, look):
        return look._replace(value=look.entries[0].metadata["best"])

    def checked(self, _job, look):
        return look

    def make(self, job, look):
        best = min(job[1], key=job[2])
        return Made(best, [(look.slots[0].address, Entry(look.key, {"kernel": job[0], "best": best}, {}))])

    def texts(self, _look):
        return {}
