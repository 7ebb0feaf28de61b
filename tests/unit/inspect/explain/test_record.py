"""kcl.inspect.explain.record: records as entries hold them, and how far two of them are apart."""

from __future__ import annotations

import json

import pytest

from kcl.inspect.explain import calls
from kcl.inspect.explain.record import is_akin, is_elsewhere, named, parsed, pieces, read, referenced, unlike
from kcl.inspect.explain.record import written as rewritten


def written(*listed, beside=(), file="driver.py"):
    """Return a record of (function, arguments) as it is written; call N stands in line 10*N."""
    described = [
        {"function": function, "place": f"{file}:{10 * number}", "arguments": [list(pair) for pair in arguments]}
        for number, (function, arguments) in enumerate(listed, 1)
    ]
    return {"calls": described, "result": len(listed), "beside": list(beside)}


def record(*listed, **more):
    """Return a record of (function, arguments)."""
    return parsed(written(*listed, **more))


def made():
    """Return a call of make_kernel."""
    return "make_kernel", [("instructions", "'a[i] = 1'")]


def split(kernel, length):
    """Return a call of split_iname on the result of another call."""
    return "split_iname", [("kernel", f"call {kernel}"), ("split_iname", "'i'"), ("inner_length", str(length))]


BEFORE = record(made(), split(1, 16))
NUMBERED = record(made(), ("split_iname", [("1", "call 1"), ("2", "'i'"), ("inner_length", "8")]))


def test_references():
    """References to earlier calls are found, not those to later ones nor what stands in quotes."""
    assert referenced("call 1", 3) == (0,)
    assert referenced("[call 2, call 1]", 3) == (1, 0)
    assert referenced("'call 1'", 3) == referenced('"call 1"', 3) == referenced("call 3", 3) == ()


def test_written():
    """A reference is replaced, and a text that looks like one stays."""
    assert rewritten("(call 1, 'call 1')", 2, lambda index: f"<{index}>") == "(<0>, 'call 1')"


def test_pieces():
    """A short argument is one piece, a long one is compared by its lines and items."""
    assert list(pieces("a", "1, 2")) == [("a", "1, 2")]
    assert len(list(pieces("a", ", ".join(map(str, range(30)))))) == 30


class TestNamed:
    def test_by_position(self):
        """Numbered arguments take the names that the other record has for these positions."""
        found = named(NUMBERED, BEFORE)
        assert [name for name, _text in found.calls[1].arguments] == ["kernel", "split_iname", "inner_length"]
        assert calls.differences(record(made(), split(1, 16)), found) == [
            "call 2 (driver.py:20), split_iname: inner_length 16 -> 8"
        ]

    def test_unsure(self):
        """A position keeps its number where the calls of the other record do not agree, or the name is taken."""
        other = record(made(), split(1, 8), ("split_iname", [("kernel", "call 2"), ("inner_length", "4")]))
        numbered = record(made(), ("split_iname", [("1", "call 1"), ("2", "'i'"), ("3", "8")]))
        found = named(numbered, other)
        assert [name for name, _text in found.calls[1].arguments] == ["kernel", "2", "inner_length"]
        taken = record(made(), ("split_iname", [("1", "call 1"), ("kernel", "call 1")]))
        assert named(taken, other) == taken

    def test_nothing_numbered(self):
        """A record whose arguments have names is returned as it is."""
        assert named(BEFORE, NUMBERED) is BEFORE


class TestRead:
    def test_record(self):
        """A record comes back as it was written."""
        described = written(made(), split(1, 16), beside=[["python", "3.11"]])
        found = read(json.dumps(described).encode())
        assert found == parsed(described)
        assert (found.result, found.beside, found.calls[1].place) == (1, {"python": "3.11"}, "driver.py:20")

    @pytest.mark.parametrize(
        "part", [None, b"", b"{", b"[]", b"{}", b'{"calls": [{}]}', b'{"calls": 1}', b'{"calls": [], "beside": [1]}']
    )
    def test_none(self, part):
        """What is no record is None."""
        assert read(part) is None


class TestDistance:
    def test_unlike(self):
        """An argument that differs counts on both sides, and so does a fact beside the calls."""
        assert unlike(BEFORE, BEFORE) == 0
        assert unlike(BEFORE, record(made(), split(1, 32))) == 2
        assert unlike(BEFORE, record(made(), split(1, 16), beside=[["python", "3.11"]])) == 1

    def test_files(self):
        """Records of other files are those of another program; a record without calls is nowhere."""
        other = record(made(), split(1, 16), file="other.py")
        assert is_elsewhere(BEFORE, other)
        assert not is_elsewhere(BEFORE, record())
        assert is_akin(BEFORE, record(made(), split(1, 32)))
        assert not is_akin(BEFORE, other)
