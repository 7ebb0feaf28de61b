"""kcl.inspect.catalogue: the entries as values, as `kcl ls` lists them."""

import json

import pytest
from commands import run

import kcl
from kcl import option
from kcl.cache.faults import CacheWarning
from kcl.cache.stores import address
from kcl.cache.stores.directory import Directory


@pytest.mark.one_platform
@pytest.mark.usefixtures("cache")
class TestEntries:
    def test_as_listed(self):
        """The API and the command say the same of the same entries, in the same order."""
        listed = json.loads(run("ls", "--json").stdout)
        entries = [entry._asdict() for entry in kcl.entries()]
        assert entries == [{**row, "partners": tuple(row["partners"])} for row in listed]

    def test_chosen(self):
        """Layer, kernel and device narrow the list."""
        every = kcl.entries()
        names = {one.kernel for one in every}
        assert {one.layer for one in kcl.entries("binary")} == {"binary"}
        assert len(kcl.entries("binary")) + len(kcl.entries("generator")) == len(every)
        assert {one.kernel for one in kcl.entries(kernel="f*")} == {
            name for name in names if name.startswith("f")
        }
        (device,) = {one.device for one in kcl.entries("binary")}
        assert kcl.entries(device=device[2:9].upper()) == kcl.entries("binary")
        assert kcl.entries(device="no such device") == []

    def test_in_a_notebook(self):
        """A notebook shows the entries as a table with a line for each."""
        shown = kcl.entries()._repr_html_()
        assert shown.count("<tr>") == len(kcl.entries()) + 1
        assert all(
            f">{one.key}</td>" in shown and f">{one.kernel}</td>" in shown for one in kcl.entries()
        )

    def test_unknown_layer(self):
        """A layer that there is not is named, with those that there are."""
        with pytest.raises(
            ValueError, match=r"'binaries' is no layer.*: take one of generator, binary"
        ):
            kcl.entries("binaries")


def test_unreadable(tmp_path):
    """What cannot be read is left out, with a warning that names it."""
    option.cache_dir(tmp_path)
    place = address("0" * 64, "device", "bad")
    Directory(tmp_path / "pyopencl" / "kcl-binary-v1").put(place, b"no entry")
    with pytest.warns(CacheWarning, match=f"kcl cannot read .*{place}"):
        assert kcl.entries() == []
