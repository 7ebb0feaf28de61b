"""kcl.choices.tuning.views: what the commands say of the choices that were measured."""

import json
import os
import re

import numpy as np
import pyopencl as cl
import pytest
from commands import run
from elementwise import elementwise
from measured import measured

import kcl
from kcl.base import process
from kcl.cache.entry import Entry
from kcl.cache.stores.directory import Directory
from kcl.choices.tuning import views
from kcl.choices.tuning.table import ChoiceTable, Row
from kcl.handle import chooser_of

pytestmark = pytest.mark.one_platform


@kcl.kernel(sizes={"n": "x.shape[0]"}, space=kcl.space(value=[1, 2, 3]))
def chosen(value=1):
    return elementwise("chosen", f"x[i] = {value};", np.int32, x="inout")


DAY = "2026-11-26"


def row(size, value, **fields):
    end = {"versions": "loopy 2025.2", "seconds": 2e-6, "gigabytes": 4.0, **fields}
    return Row((size,), {"value": value}, 0.5, 1, 2, 3, 0.01, DAY, **end)


def fact(size, value, outcome="ok", level=1, detail=""):
    ratio, end = (0.5 if outcome == "ok" else None), {"outcome": outcome, "detail": detail}
    return Row((size,), {"value": value}, ratio, level, 0, 0, 0.0, DAY, **end)


@pytest.fixture
def table(queue):
    """The table of `chosen` on this device, with a row and three outcomes, and its program in the cache."""
    kernel = chosen()
    found, given = chooser_of(kernel).table(queue), {"x": np.empty(1, np.int32)}
    stored = row(4, 2, program=chosen(value=2).key(queue)["binary"].digest)
    found.put(measured(kernel, queue, stored, given))
    found.put_facts([fact(4, 2), fact(4, 3, "crashes", detail="signal 11"), fact(4, 1, level=2)])
    chooser_of(kernel).forget()
    assert filled(kernel, queue, 4) == 2
    assert filled(kernel, queue, 9) == 1
    kcl.flush()
    return found


def filled(kernel, queue, size):
    _event, (x,) = kernel(queue, x=np.zeros(size, np.int32))
    (value,) = set(x.tolist())
    return value


def explained(queue, size):
    return chosen().explain(queue, x=np.zeros(size, np.int32)).splitlines()[-1]


class TestWords:
    def test_outcomes(self):
        """The winner has a mark; a ratio has three digits, and its noise if that makes it doubtful."""
        won = row(4, 2)._replace(ratio=0.51234)
        doubtful = row(4, 3)._replace(ratio=0.97, noise=0.05, seconds=1.23456e-3)
        found = [doubtful, won, fact(4, 1, "crashes", detail="SIGABRT")]
        lines = [" ".join(line.split()) for line in views.outcomes(["n"], found, [won])]
        assert lines[1:] == [
            "* n=4 value=2 ok 0.512 2 us, 4 GB/s 2026-11-26",
            "n=4 value=3 ok 0.97 +-5% 1230 us, 4 GB/s 2026-11-26",
            "n=4 value=1 crashes 2026-11-26 SIGABRT",
        ]


class TestCommands:
    def test_show(self, table):
        output = run("show", "chosen", "--tuning").output
        lines = [" ".join(line.split()) for line in output.splitlines()]
        assert lines[0].startswith("chosen on ")
        words = "n=4 value=2 0.5 2 us, 4 GB/s 1 2 of 3 2026-11-26 measured with loopy 2025.2"
        assert lines[2] == words
        assert "n=4 value=3 crashes 2026-11-26 signal 11" in lines
        (found,) = json.loads(run("show", "chosen", "--tuning", "--json").output)
        assert found["key"] == table.key.digest
        assert found["rows"][0]["choice"] == {"value": 2}
        code = kcl.entries("generator")
        (key,) = {one.key for one in code if one.parameters == {"value": "2"}}
        assert "1 size measured: kcl show chosen --tuning" in run("show", key).output

    def test_page(self, table, tmp_path):
        """`kcl show KERNEL --tuning --html` draws the choices, the fastest first: time, noise, verdict, and what runs."""
        table.put_facts([fact(4, 1)._replace(ratio=1.0, noise=0.25)])
        path = tmp_path / "page.html"
        assert run("show", "chosen", "--tuning", "--html", str(path)).output == f"written: {path}\n"
        text = path.read_text(encoding="utf-8")
        kinds = re.findall(r'<code>n=4: value=(\d)</code> <b class="(.*?)">', text)
        # The row is of a call's dtypes, the outcomes of the fixture are of none.
        assert kinds == [("2", "now"), ("2", "ok"), ("1", "ok"), ("3", "crashes")]
        assert "width: calc(100% * 1.000 * (1 - 0.250) / 1.25)" in text
        assert re.search(r"\b1(\.0+)? \+-25%", text)
        assert "signal 11" in text
        assert "<script" not in text
        assert run("show", "chosen", "--html", "-").output.startswith("<!doctype html>")

    def test_show_of_nothing(self):
        assert "kcl tune DRIVER" in run("show", "chosen", "--tuning", code=1).output

    def test_status(self, table, monkeypatch):
        """`kcl status` and `kcl ls` show the table as the entry of a layer, with its file, and say if it is off."""

        def shown():
            rows = json.loads(run("status", "--json").output)["layers"]
            return {row["layer"]: row for row in rows}

        row = shown()["tuning"]
        assert (row["on"], row["entries"]) == (True, 1)
        (entry,) = json.loads(run("ls", "--layer", "tuning", "--json").output)
        assert (entry["kernel"], entry["key"]) == ("chosen", table.key.digest)
        assert os.path.exists(os.path.join(row["directory"], table.address))
        monkeypatch.setenv("KCL_NO_CACHE", "tuning")
        assert (shown()["tuning"]["on"], shown()["generator"]["on"]) == (False, True)

    @pytest.mark.usefixtures("table")
    def test_explain(self):
        said = " ".join(run("explain", "chosen").output.split())
        served = "value=2, measured at n=4"
        assert f"tuning of chosen: n = 4: {served}, takes 0.5 of the time of the default" in said
        default = "n = 9: the default value=1: no row is within a factor of two; the nearest is"
        assert f"{default} {served}" in said
        assert "tuning of" not in run("explain", "another", code=1).output

    def test_unpack(self, table, tmp_path):
        run("unpack", str(tmp_path / "tree"))
        folder = tmp_path / "tree" / "recipes" / "chosen" / table.key.digest
        program = folder / "programs" / "0"
        assert (folder / "dispatch_table.txt").read_text() == "n=4 -> 0  value=2\n"
        assert "crashes" in (folder / "summary-1.txt").read_text()
        assert "value=1" in (folder / "summary-2.txt").read_text()
        assert "= 2;" in (program / "source.cl").read_text()
        assert not os.path.isabs(os.readlink(program))
        table.put(row(8, 3))
        run("unpack", str(tmp_path / "tree"))
        text = (folder / "dispatch_table.txt").read_text()
        assert text.splitlines() == ["n=4 -> 0  value=2", "n=8 -> 1  value=3"]
        assert os.listdir(folder / "programs") == ["0"]

    def test_purge(self, table, queue, tmp_path):
        assert table.rows
        kcl.purge()
        assert not (tmp_path / "cache" / "kcl" / "tuning").exists()
        assert explained(queue, 4).endswith("the default value=1: nothing is measured")


class TestBundles:
    def test_saved_and_loaded(self, table, queue, monkeypatch, tmp_path):
        data, info = kcl.save_artifacts()
        assert table.key.digest in info.artifacts["tuning"]
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
        process.reset()
        assert explained(queue, 4).endswith("nothing is measured")
        assert kcl.load_artifacts(data).unusable == []
        process.reset()
        kernel = chosen()
        monkeypatch.setenv("KCL_STRICT", "hit")
        assert filled(kernel, cl.CommandQueue(queue.context), 4) == 2

    def test_both_have_rows(self, table, monkeypatch, tmp_path):
        """What is there stays, and gets the rows of other sizes, of a higher level, and of a later day."""
        table.put(row(8, 3, dtypes={"x": "<i4"}))
        data, _info = kcl.save_artifacts()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
        process.reset()
        other = ChoiceTable(table.key, table.about)
        other.put(row(4, 1, dtypes={"x": "<i4"})._replace(level=2))
        other.put(row(8, 1, dtypes={"x": "<i4"})._replace(day="2020-01-01"))
        other.put(row(16, 1))
        kcl.load_artifacts(data)
        rows = ChoiceTable(table.key, table.about).refresh().rows
        assert {row.sizes[0]: row.choice["value"] for row in rows} == {4: 1, 8: 3, 16: 1}

    def test_save(self, table, monkeypatch, tmp_path):
        file = tmp_path / "saved.kclb"
        choices = {(): True, ("chos*",): True, ("--layer", "binary"): False}
        for arguments, is_kept in choices.items():
            run("save", str(file), *arguments)
            tables = kcl.load_artifacts(file).artifacts.get("tuning", [])
            assert (table.key.digest in tables) is is_kept
        run("save", str(file), "another", code=1)
        run("save", str(file))
        monkeypatch.setenv("KCL_NO_CACHE", "tuning")
        process.reset()
        assert "tuning" not in kcl.load_artifacts(file).artifacts

    def test_another_device(self, table, queue, monkeypatch):
        """What was measured for another device is not used, and `Kernel.explain` and the report of a bundle say so."""
        data, _info = kcl.save_artifacts()
        monkeypatch.setenv("POCL_WORK_GROUP_METHOD", "loops")
        process.reset()
        said = explained(cl.CommandQueue(queue.context), 4)
        words = "the default value=1: nothing is measured; a table was measured for another case: "
        assert words in said
        assert "POCL_WORK_GROUP_METHOD" in said
        unusable = dict(kcl.load_artifacts(data).unusable)
        assert "POCL_WORK_GROUP_METHOD" in unusable[table.key.digest]

    def test_foreign(self, table, tmp_path):
        place = f"table-{table.key.digest}"
        store = Directory(os.path.join(os.environ["XDG_CACHE_HOME"], "kcl", "tuning"))
        device = {"rows": 3, "kernel": ["chosen"], "device": 4}
        for metadata in (device, {"names": 4, "rows": [{}]}, {}):
            store.put(place, Entry(table.key, metadata, {}).pack())
            assert not [one for one in views.tables() if one.rows]
            run("status")
            run("unpack", str(tmp_path / "tree"))
            assert kcl.load_artifacts(kcl.save_artifacts()[0]).refused == []
