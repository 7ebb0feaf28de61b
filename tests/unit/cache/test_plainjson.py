"""kcl.cache.plainjson: what json reads and writes, without importing it."""

from __future__ import annotations

import hashlib
import json
import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl.cache import plainjson

TEXTS = st.text(st.characters(codec=None))
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=20)


@given(VALUES)
def test_as_json(value):
    """Both texts are those of json, and both are read as json reads them."""
    text = plainjson.dumps(value)
    assert text == json.dumps(value, separators=(",", ":"))
    for written in (text, json.dumps(value, ensure_ascii=False)):
        assert plainjson.loads(written) == json.loads(written)
        assert repr(plainjson.loads(written)) == repr(json.loads(written))


@pytest.mark.parametrize(
    "text", ["", " ", "{", "[1,]", '{"a" 1}', "nul", "[1] 2", "{}{}", '"', '"\n"', "01", "NaN", "[-Infinity]"]
)
def test_refused(text):
    """What is no JSON value, or has something after it, is a ValueError."""
    with pytest.raises(ValueError, match=r"."):
        plainjson.loads(text)


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {1, 2}, b"", {"a": object()}])
def test_not_written(value):
    """What JSON cannot hold is refused."""
    with pytest.raises((TypeError, ValueError)):
        plainjson.dumps(value)


@pytest.mark.parametrize("module", ["no_such_module", "math"])
def test_without_the_c_code(monkeypatch, module):
    """A Python without the C code, or with another one, reads, writes and refuses the same."""
    scan, encode = plainjson._codec(module)
    assert isinstance(scan.__self__, json.JSONDecoder)
    monkeypatch.setattr(plainjson, "_scan", scan)
    monkeypatch.setattr(plainjson, "_encode", encode)
    value = {"a": [1, 2.5, None, True, "\u00e9\udc80"], "b": {}}
    assert plainjson.loads(plainjson.dumps(value)) == value
    assert plainjson.dumps(value) == json.dumps(value, separators=(",", ":"))
    for text in ("", "[1] 2", "[NaN]"):
        test_refused(text)
    for refused in (float("nan"), {1}):
        test_not_written(refused)


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="other Pythons have no C code for JSON")
def test_json_is_not_imported(child):
    """Entries are read, and the record of a process written, without it."""
    done = child.run(
        """
        import sys
        from kcl.cache.entry import Entry
        from kcl.inspect.history import records
        from kcl.cache.key import Key
        key = Key([("a", "b")])
        blob = bytes.fromhex(sys.argv[1])
        assert Entry.unpack(blob, key).metadata == {"of": [1, 2.5, "x"]}
        records.put(records.store(), {}, {}, {}, [], [])
        print("json" in sys.modules)
        """,
        packed(),
    )
    assert done.stdout.strip() == "False", done.stderr


def test_damage_where_json_is_not_imported(child):
    """What is no JSON is said to be none there too, and an entry with such a header is damaged."""
    header = b'{"key":[["a","b"]],"metadata":{},"parts":[]'
    start = struct.pack("<8sIQQ", b"kclentry", 2, len(header), 0)
    start += hashlib.sha256(start + header).digest()
    blob = start + hashlib.sha256(start + header).digest() + header
    done = child.run(
        """
        import sys
        from kcl.cache import plainjson
        from kcl.cache.entry import Entry, peek
        from kcl.errors import DamagedEntry
        def refused(kind, use, *given):
            try:
                use(*given)
            except kind:
                return True
        blob = bytes.fromhex(sys.argv[1])
        texts = ['{"a" 1}', '"x', '{', '[1 2]', '', '[NaN]', chr(34) + chr(92) + 'ud8"']
        print([refused(ValueError, plainjson.loads, text) for text in texts])
        print([refused(DamagedEntry, use, *given) for use, *given in ((Entry.unpack, blob), (peek, blob, len(blob)))])
        print("json" in sys.modules and sys.version_info < (3, 12))
        """,
        blob.hex(),
    )
    assert done.stdout.splitlines() == [str([True] * 7), str([True] * 2), "False"], done.stderr


def packed() -> str:
    """Return an entry, in hex: packing it imports json."""
    from kcl.cache.entry import Entry
    from kcl.cache.key import Key

    return Entry(Key([("a", "b")]), {"of": [1, 2.5, "x"]}, {"binary": b"1"}).pack().hex()
