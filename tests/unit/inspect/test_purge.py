"""kcl.inspect.purge: what a wish removes; that nothing else goes is tested with kcl.inspect.purge_items."""

from __future__ import annotations

import os

import numpy as np
import pytest
from handle_recipes import add

import kcl
from kcl.base import settings
from kcl.cache import layers, places
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.stores.base import address
from kcl.inspect import purge, purge_items


@pytest.fixture
def stored():
    """Store two programs and two rows with code; return the kernels' names."""
    for name in ("first", "second"):
        key = Key([Part("name", name)])
        metadata = {"kernel": name, "created": 0}
        layers.binary().publish(address(key.digest, "device", name), Entry(key, metadata, {"binary": b"12345"}))
        row = Entry(key, {**metadata, "function": "f"}, {"invoker.py": b"pass"})
        layers.generator().publish(address(key.digest), row)
    return ["first", "second"]


def left():
    """Return the kernels that have entries, by layer."""
    return {name: sorted(one.kernel for one in kcl.entries(name)) for name in settings.LAYERS}


@pytest.mark.usefixtures("stored")
class TestPurge:
    def test_all(self):
        """Without a name both layers go, with all that belongs to them; the counts are those of what went."""
        found = kcl.purge()
        size = sum(item.size for item in found.items)
        assert left() == {"generator": [], "binary": []}
        assert (found.bytes, found.refusals, found.remarks) == (size, [], [])
        assert found.files >= 3
        assert repr(found) == f"<kcl.Removal {found.files} files, 0 rows, {size} bytes>"
        assert not os.path.exists(places.own())

    def test_kernel(self):
        """A pattern chooses kernels; files and rows are counted."""
        found = kcl.purge(kernel="fir*")
        assert (found.files, len(found.rows.addresses)) == (1, 1)
        assert found.bytes > found.items[0].size > 0
        assert left() == {"generator": ["second"], "binary": ["second"]}

    def test_layer(self):
        """A layer that is named goes alone."""
        kcl.purge("binary")
        assert left() == {"generator": ["first", "second"], "binary": []}

    def test_older(self):
        """What was made lately stays."""
        assert kcl.purge("binary", older=3600.0).files == 0
        assert kcl.purge("binary", older=-3600.0).files == 2

    def test_dry_run(self):
        """A dry run counts, and removes nothing."""
        found = kcl.purge(dry_run=True)
        assert found.files >= 3
        assert left() == {"generator": ["first", "second"], "binary": ["first", "second"]}

    def test_refused(self, monkeypatch):
        """What the system refuses is told, and the rest goes."""
        remove = purge_items.remove

        def refuse(item):
            if item.cache == "binary":
                raise PermissionError("read-only")
            remove(item)

        monkeypatch.setattr(purge_items, "remove", refuse)
        found = kcl.purge()
        assert [(one.cache, one.reason) for one in found.refusals] == [("binary", "read-only")]
        assert repr(found).endswith("1 place left alone>")
        assert left()["generator"] == []

    @pytest.mark.parametrize(
        ("names", "wish", "words"),
        [
            (("nonsense",), {}, "'nonsense' is no layer: take one of kcl, generator, binary"),
            (("pocl",), {"kernel": "first"}, "know no kernel"),
            ((), {"everything": True, "kernel": "first"}, "know no kernel"),
        ],
    )
    def test_wrong(self, names, wish, words):
        """A wish that cannot be meant is refused, and nothing is removed."""
        with pytest.raises(ValueError, match=words):
            kcl.purge(*names, **wish)
        assert left()["binary"] == ["first", "second"]


class TestPlanned:
    def test_names(self):
        """`everything` adds the names that are given, and none is taken twice."""
        found = purge.planned(("kcl", "mesa"), True, None, None)
        assert {item.cache for item in found.items} <= {*purge_items.everything(), "mesa"}


@pytest.mark.one_platform
def test_memory(queue):
    """A kernel that was launched is looked up again after a purge, and misses."""
    kernel, seen = add(), []
    kcl.add_hook(lambda event: seen.append(event.outcome))
    for expected in (["miss", "miss"], [], ["miss", "miss"]):
        kernel(queue, x=np.zeros(8, np.float32), a=1.0)
        assert seen == expected
        del seen[:]
        if not expected:
            kcl.purge()
