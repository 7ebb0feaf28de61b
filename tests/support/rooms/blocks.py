"""A third layer: which candidate costs the least, found once and kept. A job is a question, candidates and costs."""

import os

from kcl.base import settings
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.lookup import Look, Stage
from kcl.cache.stores.directory import Directory


def folder():
    return os.path.join(settings.folder("kcl"), "blocks")


ROW = layers.LayerRow({}, ("kcl", "blocks"), folder, lambda: [Directory(folder(), notes_use=True)])


def place_of(question: str) -> tuple[str, Key]:
    """Return the place of a decision: the key of the question, behind its digest, which is the address."""
    key = Key([Part("question", question)])
    return key.digest, key


class Tune(Stage):
    """The stage: look at the place of the question, else ask what each candidate costs."""

    @property
    def layer(self):
        return layers.layer("blocks")

    def name(self, job):
        return job[0]

    def search(self, job):
        address, key = place_of(job[0])
        found = yield address, key
        entries = tuple(filter(None, [found.entry]))
        return Look(
            found.outcome,
            found.reason,
            key,
            slots=((address, key),),
            entries=entries,
            size=found.size,
        )

    def load(self, _job, look):
        return look._replace(value=look.entries[0].metadata["best"])

    def make(self, job, look):
        best = min(job[1], key=job[2])
        address, key = place_of(job[0])
        entry = Entry(key, {"kernel": job[0], "best": best}, {})
        publish = [] if look.outcome == "bypass" else [(address, entry)]
        return look._replace(value=best, publish=publish)
