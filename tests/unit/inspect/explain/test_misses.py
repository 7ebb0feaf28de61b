"""kcl.inspect.explain.misses: the last misses, with what explains them."""

import time

from click.testing import CliRunner

import kcl
from kcl.base import events
from kcl.base.events import Event
from kcl.cache import layers, places
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.cache.lead import Lead
from kcl.cli import main
from kcl.drivers.pocl.jobs import JobQueue
from kcl.inspect import purge
from kcl.inspect.explain import FIRST_TIME, Texts, misses
from kcl.inspect.explain.misses import Shelf, write_explanation

OLD, NEW = Key([("source", "1"), ("option", "-DA=1")]), Key([("source", "1"), ("option", "-DA=2")])


def stored(key, created=1, kernel="add"):
    layers.binary().publish(
        f"device/{kernel}-{key.digest}", Entry(key, {"kernel": kernel, "created": created}, {})
    )


def miss(kernel, key, **more):
    events.emit(
        Event("binary", kernel, key.digest, "miss", "not in the cache", 0.5, 1), key, **more
    )


def explain(texts=Texts(), begun=None, made={}):  # noqa: B006, B008 (never changed)
    now = time.time()
    return Shelf("binary", made).explain("add", NEW, texts, now, now if begun is None else begun)


def now(kernel):
    moment = time.time() + 1.0
    return write_explanation(Shelf("binary").explain(kernel, NEW, Texts(), moment, moment))


def test_explain():
    """A miss, or what would be missed now, is explained by the nearest entry that was there before, if there is one."""
    assert explain() == FIRST_TIME
    assert write_explanation(FIRST_TIME) == ["first time seen"]
    stored(OLD, created=int(time.time()) + 100)
    assert explain() == FIRST_TIME
    stored(OLD)
    found = explain()
    assert found[0].key == OLD
    assert write_explanation(found) == now("add") == ["option: -DA=1 -> -DA=2"]
    assert now("other") == ["first time seen"]


def test_removed():
    """A miss of an entry that was removed says by what, and when; the nearest entry is no cause."""
    stored(OLD)
    now = time.time()
    purge.note_removed([NEW.digest], "kcl gc")
    removed = Shelf("binary")
    (said,) = write_explanation(removed.explain("add", NEW, Texts(), now + 60, now + 60))
    assert said.startswith("removed by kcl gc, ")
    assert removed.explain("add", NEW, Texts(), now - 90, now - 90)[0].key == OLD


class TestPending:
    """A helper of PoCL's still writes an entry: its job holds all but the binary."""

    def pend(self, key):
        about = {"kernel": "add", "created": 1}
        JobQueue(places.own()).add(Entry(key, about, {"source.cl": b"kernel"}))

    def test_nearest(self):
        self.pend(OLD)
        nearest, changes = explain(Texts({"source": "void"}))
        assert [change.part for change in changes] == ["option"]
        assert nearest.key == OLD

    def test_own(self):
        """A miss of the entry itself is no first time, but in the run that asked for it."""
        self.pend(NEW)
        said = ["it was missed before, and its entry waits to be completed"]
        assert now("add") == said
        moment = time.time()
        assert write_explanation(explain(made={NEW.digest: moment - 9})) == said
        assert explain(begun=moment - 1, made={NEW.digest: moment}) == FIRST_TIME
        stored(NEW)
        assert now("add") == ["first time seen"]


class TestCall:
    def missed(self, *kernels):
        for kernel in kernels:
            miss(kernel, NEW)

    def test_fields(self):
        stored(OLD)
        self.missed("add", "add")
        (miss,) = kcl.explain()
        assert (miss.layer, miss.kernel, miss.outcome, miss.times) == ("binary", "add", "miss", 2)
        assert (miss.key, miss.nearest) == (NEW.digest, OLD.digest)
        assert [change.part for change in miss.changes] == ["option"]
        assert str(miss) == "\n".join(miss.words)
        assert miss.words[0] == "add, binary layer: miss (2 times)"

    def test_chosen(self):
        self.missed("add", "sub", "mul")
        assert [miss.kernel for miss in kcl.explain()] == ["add", "sub", "mul"]
        assert [miss.kernel for miss in kcl.explain(limit=2)] == ["sub", "mul"]
        assert [miss.kernel for miss in kcl.explain("sub")] == ["sub"]
        assert kcl.explain("none") == kcl.explain("none", every=True, limit=0) == []
        # The table of a notebook.
        assert "sub, binary layer: miss; first time seen" in kcl.explain()._repr_html_()

    def test_parameters_of_one_text(self):
        """Programs of one text with other options have each the parameters of their own look-up, and answer to them."""
        for radius in (1, 3):
            key = Key([("source", "box"), ("option", f"-DRADIUS={radius}")])
            miss("box", key, lead=Lead("box", {"radius": radius}))
        heads = [f"box(radius={radius}), binary layer: miss" for radius in (1, 3)]
        assert [look.words[0] for look in kcl.explain()] == heads
        assert [look.words[0] for look in kcl.explain("box(radius=3)")] == heads[1:]
        assert len(kcl.explain("box")) == 2
        assert kcl.explain("box(radius=2)") == []

    def test_said_once(self):
        """Look-ups that have the same explanation stand together, and each line of it is printed once."""
        before = {name: Key([("source", name), ("option", "1")]) for name in ("add", "mul")}
        for name, key in before.items():
            stored(key, kernel=name)
            miss(name, Key([("source", name), ("option", "2")]))
            self.missed(f"new {name}")
            events.emit(Event("generator", name, "", "bypass", "time.time reads the time", 0.5, 1))
        said = CliRunner().invoke(main, ["explain"]).stdout.splitlines()
        assert said[1:] == [
            "  add, binary layer: miss",
            "  mul, binary layer: miss",
            "    option: 1 -> 2",
            "  new add, binary layer: miss",
            "  new mul, binary layer: miss",
            "    first time seen",
            "  add, generator layer: bypass",
            "  mul, generator layer: bypass",
            "    time.time reads the time",
        ]

    def test_ranks(self):
        self.missed("add")
        (miss,) = kcl.explain()
        title, *rest = misses.write_lines([miss] * 4)
        assert (title, rest) == (f"{miss.words[0]} x4", list(miss.words[1:]))
