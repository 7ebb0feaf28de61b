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
        every = kcl.entries()
        names = {one.kernel for one in every}
        assert {one.layer for one in kcl.entries("binary")} == {"binary"}
        assert len(kcl.entries("binary")) + len(kcl.entries("generator")) == len(every)
        chosen = {one.kernel for one in kcl.entries(kernel="f*")}
        assert chosen == {name for name in names if name.startswith("f")}
        (device,) = {one.device for one in kcl.entries("binary")}
        assert kcl.entries(device=device[2:9].upper()) == kcl.entries("binary")
        assert kcl.entries(device="no such device") == []
        words = r"'binaries' is no layer.*: take one of generator, binary"
        with pytest.raises(ValueError, match=words):
            kcl.entries("binaries")

    def test_in_a_notebook(self):
        entries = kcl.entries()
        shown = entries._repr_html_()
        assert shown.count("<tr>") == len(entries) + 1
        for one in entries:
            assert f">{one.key}</td>" in shown
            assert f">{one.kernel}</td>" in shown


def test_unreadable(tmp_path):
    option.cache_dir(tmp_path)
    place = address("0" * 64, "device", "bad")
    Directory(tmp_path / "pyopencl" / "kcl-binary-v1").put(place, b"no entry")
    with pytest.warns(CacheWarning, match=f"kcl cannot read .*{place}"):
        assert kcl.entries() == []
