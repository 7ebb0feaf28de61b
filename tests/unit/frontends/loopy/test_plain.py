"""kcl.frontends.loopy.plain: texts of values that hold nothing else."""

from kcl.frontends.loopy.plain import LONG, in_bytes, name_of


def test_long_bytes():
    """Long bytes count by their digest, short ones as they are."""
    assert in_bytes(b"ab") == "b'ab'"
    assert len(in_bytes(bytes(LONG))) < 100
    assert in_bytes(bytes(LONG)) != in_bytes(bytes(LONG + 1))


def test_names():
    """What is no identifier is quoted, so that it ends where it ends."""
    assert (name_of("width"), name_of("a b"), name_of(3)) == ("width", "'a b'", "3")
