"""kcl.drivers.pocl.traces: directories are overwritten wherever LLVM wrote them, and nothing else is."""

import pytest

from kcl.drivers.pocl.traces import are_left, overwritten, without_directories

DIRECTORY = "/home/me/.cache/pocl/kcache"


def bits(text, width, shift):
    """Return characters of a width after some bits, between bytes full of ones."""
    value = sum(ord(character) << width * number for number, character in enumerate(text)) << shift
    size = shift + width * len(text)
    ones = (1 << shift) - 1 | ((1 << -size % 8) - 1) << size
    return b"\xff" * 3 + (value | ones).to_bytes((size + 7) // 8, "little") + b"\xff" * 3


@pytest.mark.parametrize("width", [7, 8])
@pytest.mark.parametrize("shift", range(8))
def test_overwritten(width, shift):
    """The directory becomes as many hyphens; the bits around it and the file's name stay."""
    before, after = (
        bits(f"{name}/tempfile_aB3.cl", width, shift) for name in (DIRECTORY, "-" * len(DIRECTORY))
    )
    blob = b"a" + before + b"\0" + before
    assert are_left(blob)
    assert overwritten(blob, [f"{DIRECTORY}/", ""]) == b"a" + after + b"\0" + after
    assert not are_left(overwritten(blob, [DIRECTORY]))


def test_a_directory_of_any_name_is_overwritten_where_it_stands_in_bytes():
    blob = f"{'/home/José'}/tempfile_aB3.cl".encode()
    assert overwritten(blob, ["/home/José"]) == b"-" * 11 + b"/tempfile_aB3.cl"


def test_other_text():
    """The directory without the temporary file is the program's own, and an unknown directory stays, and is seen."""
    blob = f"{DIRECTORY}/table.h /other/tempfile_aB3.cl".encode()
    assert overwritten(blob, [DIRECTORY]) == blob
    assert are_left(blob)
    assert not are_left(f"{DIRECTORY}/table.h".encode())


def test_a_log_names_the_temporary_file_alone():
    log = "warning: {0}tempfile_aB3.cl:1:2: said\nnote: '{0}tempfile_aB3.cl' /a/part.h:1"
    assert without_directories(log.format(f"{DIRECTORY}/").encode()) == log.format("").encode()
