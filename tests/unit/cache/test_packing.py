"""kcl.cache.packing: which parts are stored in pieces; test_entry.py packs whole entries."""

import os

from kcl.cache import packing


def test_pieces():
    """A part that shrinks lies in pieces of the given size, the last one shorter, each compressed where that pays."""
    noise, zeros = os.urandom(4096), bytes(9000)
    described, body = packing.lay_out({"binary": noise + zeros}, 4096, 1 << 20)
    ((name, size, stored),) = described
    assert (name, size, len(stored)) == ("binary", 13096, 4)
    assert stored[0] == 4096
    assert max(stored[1:3]) < 100
    assert stored[3] == 13096 - 3 * 4096
    assert body.startswith(noise)
    assert sum(stored) == len(body)


def test_room():
    """Parts beyond the room are stored plain, and so is one that does not shrink."""
    parts = {"first": bytes(9000), "second": bytes(9000), "noise": os.urandom(9000)}
    described, body = packing.lay_out(parts, 4096, 10_000)
    assert [len(part) for part in described] == [3, 2, 2]
    assert body.endswith(parts["second"] + parts["noise"])
