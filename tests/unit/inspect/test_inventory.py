"""kcl.inspect.inventory: what lies in the layers, by headers alone."""

import os
import pathlib

import pytest
from commands import flip

from kcl import option
from kcl.base import settings
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.stores import address
from kcl.cache.stores.directory import Directory
from kcl.cache.stores.sqlite import Database, Rows
from kcl.inspect import inventory


def entry(kernel: str, **metadata) -> Entry:
    about = {"kernel": kernel, "created": 1000, "seconds": 0.5}
    device = {"platform": {"name": "a platform"}, "device": {"name": "a device"}}
    key = Key([Part("source", kernel)])
    return Entry(key, {**about, **device, **metadata}, {"binary": b"1234"})


def code(kernel: str) -> list[Entry]:
    """Return the rows of generated code: base, code."""
    direct = [Part("code", kernel), Part("parameter n", "1")]
    about = {"kernel": kernel, "created": 1000, "seconds": 2.0}
    base = Entry(Key(direct), about, {"reached.json": b"{}"})
    key = Key([*direct, Part("row", "special"), Part("argument x", "<f4")])
    return [base, Entry(key, {**about, "function": "invoke"}, {"source.cl": b"// code"})]


@pytest.fixture
def stores(tmp_path):
    """Return the stores of both layers: programs, rows."""
    option.cache_dir(tmp_path / "root")
    binaries = Directory(os.path.join(settings.folder("pyopencl"), "kcl-binary-v1"))
    return binaries, Rows(settings.folder("pytools"))


def fill(stores, *kernels):
    binaries, rows = stores
    for kernel in kernels:
        made = entry(kernel)
        binaries.put(address(made.key.digest, "a device", kernel), made.pack())
        for row in code(kernel):
            rows.put(row.key.digest, row.pack())


class TestSummaries:
    def test_nothing(self, tmp_path):
        option.cache_dir(tmp_path / "root")
        assert list(inventory.entries()) == found("axpy") == []
        assert not (tmp_path / "root").exists()

    def test_both_layers(self, stores):
        """A program and the row that holds code are listed with what their headers say; all rows for who asks for them."""
        fill(stores, "axpy")
        generated, program = inventory.entries()
        for listed in (generated, program):
            (alone,) = inventory.entries(listed.layer)
            assert alone.address == listed.address
        facts = (generated.layer, generated.kind, generated.kernel, generated.seconds)
        assert facts == ("generator", "code", "axpy", 2.0)
        facts = (program.layer, program.kind, program.device, program.platform)
        assert facts == ("binary", "binary", "a device", "a platform")
        file = os.path.join(stores[0].location, program.address)
        assert (program.place, program.size) == (file, os.path.getsize(file))
        # As the entry says, wherever its file was copied.
        assert generated.built == program.built == 1000.0
        listed = {row.kind: row for row in inventory.entries("generator", all_rows=True)}
        base, whole = code("axpy")
        assert listed.keys() == {"base", "code"}
        assert listed["base"].key == base.key
        assert (listed["code"].key, listed["code"].metadata) == (whole.key, whole.metadata)

    def test_directory_of_rows(self, stores):
        """Where the generator layer keeps a directory instead of a database, its entries are listed as well."""
        fill(stores, "axpy")
        row, folder = code("elsewhere")[-1], settings.folder("pytools")
        Directory(os.path.join(folder, "kcl-generated-v1")).put(row.key.digest, row.pack())
        # The rows of another Python version are listed too.
        os.rename(stores[1].location, stores[1].location.replace(".sqlite", "-other.sqlite"))
        listed = {entry.kernel: entry for entry in inventory.entries("generator")}
        assert listed.keys() == {"axpy", "elsewhere"}
        assert listed["elsewhere"].read([]) == row

    def test_long_header(self, stores):
        """A header that is longer than what is read at once is read whole, in a file and in a row."""
        long, row = entry("axpy", text="x" * 20_000), code("sum")[-1]
        stores[0].put(address(long.key.digest, "a device", "axpy"), long.pack())
        row.metadata["text"] = "é" * 20_000
        stores[1].put(row.key.digest, row.pack())
        assert [len(listed.metadata["text"]) for listed in inventory.entries()] == [20_000, 20_000]


class TestFaults:
    @pytest.mark.parametrize("blob", [b"", b"garbage", b"kclentry" + bytes(200), None])
    def test_damaged(self, stores, blob):
        """What cannot be read is named with a reason, every time; the others are listed."""
        fill(stores, "axpy", "sum")
        victim = next(found for found in inventory.entries("binary") if found.kernel == "sum")
        path = pathlib.Path(victim.place)
        path.write_bytes(path.read_bytes()[:-1] if blob is None else blob)
        for _ in range(2):
            faults = []
            listed = [*inventory.entries("binary", faults=faults)]
            assert [entry.kernel for entry in listed] == ["axpy"]
            (fault,) = faults
            assert fault.place == victim.place
            assert fault.reason

    def test_damaged_row(self, stores):
        """So is a row; a database that is none is a fault of its layer, and stays as it is."""
        fill(stores, "axpy")
        stores[1].put("ab" * 32, b"garbage")
        faults = []
        assert len(list(inventory.entries("generator", faults=faults))) == 1
        assert [fault.place for fault in faults] == [f"{stores[1].location}: {'ab' * 32}"]
        pathlib.Path(stores[1].location).write_bytes(b"no database at all" * 100)
        faults.clear()
        assert [entry.layer for entry in inventory.entries(faults=faults)] == ["binary"]
        assert [fault.place for fault in faults] == [stores[1].location]
        assert os.path.exists(stores[1].location)

    def test_read(self, stores):
        """An entry is read whole and verified; one that is gone is no fault, a damaged one is."""
        fill(stores, "axpy")
        generated, program = inventory.entries()
        faults = []
        assert program.read(faults) == entry("axpy")
        assert generated.read(faults) == code("axpy")[-1]
        assert faults == []
        flip(program.place, -1)
        assert program.read(faults) is None
        assert [fault.place for fault in faults] == [program.place]
        os.unlink(program.place)
        assert program.read(faults) is None
        assert len(faults) == 1


def found(text):
    return [one.address for one in inventory.find_named(text, [*inventory.entries()])]


def test_find_named(stores):
    """An entry is found by its kernel, its address, the start of its digest, or of the digest of a row that leads to it."""
    fill(stores, "axpy", "sum")
    generated, program = (one for one in inventory.entries() if one.kernel == "sum")
    assert found("sum") == [generated.address, program.address]
    assert found(program.digest[:10]) == found(program.address) == [program.address]
    assert found("nothing") == found("") == []
    base, _code = code("sum")
    assert found(base.key.digest) == found(base.key.digest[:12]) == [generated.address]


class TestMeasure:
    def test_files(self, tmp_path):
        """Everything is looked at, in folders or not; what is being written is no entry."""
        place = Directory(tmp_path / "store")
        assert inventory.measure("binary", [place]) == (0, 0, 0.0, 0.0, "")
        for name in ("a/kernel-1", "b/kernel-2", "b/kernel-3"):
            place.put(f"{name}{'0' * 63}", b"12345")
            os.utime(tmp_path / "store" / f"{name}{'0' * 63}", (1e9, 1e9))
        (tmp_path / "store" / "a" / ".kcl-tmp-1").write_bytes(b"1")
        assert inventory.measure("binary", [place]) == (3, 15, 1e9, 1e9, "")
        place.put("0" * 64, b"12345")
        assert inventory.measure("binary", [place])[:2] == (4, 20)

    def test_code(self, tmp_path):
        """Of the generator layer the rows with code are counted, and all bytes; a damaged file says so."""
        rows, directory = Rows(tmp_path), Directory(tmp_path / "rows")
        part = {"record.json": b'{"source.cl": "function"}'}
        for number in range(3):
            base = Entry(Key([Part("base", str(number))]), {}, part)
            whole = Entry(Key([Part("code", str(number))]), {"function": "f"}, {"source.cl": b"//"})
            for made in (base, whole):
                rows.put(made.key.digest, made.pack())
                directory.put(made.key.digest, made.pack())
        os.utime(rows.location, (1e9, 1e9))
        size = os.path.getsize(rows.location)
        assert inventory.measure("generator", [rows]) == (3, size, 1e9, 1e9, "")
        assert inventory.measure("generator", [directory]).entries == 3
        assert inventory.measure("generator", [rows, directory]).entries == 6
        assert inventory.measure("generator", []) == (0, 0, 0.0, 0.0, "")
        with open(rows.location, "r+b") as stream:
            stream.write(b"garbage" * 100)
        damaged = Database(rows.location)
        measured = inventory.measure("generator", [damaged, directory])
        assert "not a database" in measured.fault
        assert measured.entries == 3
