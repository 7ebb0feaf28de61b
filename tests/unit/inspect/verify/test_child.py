"""kcl.inspect.verify.child: programs launched from source and from binary, and what is said of each."""

from __future__ import annotations

import json

import numpy as np
import pyopencl as cl
import pytest

import kcl
from kcl import option
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.stores.directory import Directory
from kcl.drivers.pocl import client
from kcl.inspect.verify import child
from kcl.inspect.verify.rebuilding import BINARY, DIFFERENT, FINE, SOURCE, UNCOMPARED

pytestmark = pytest.mark.one_platform

WAYS = (SOURCE, BINARY)
CODE = "kernel void f(global const float *x, global float *y) { size_t i = get_global_id(0); y[i] = 2 * x[i]; }"


@kcl.kernel
def doubled(code=CODE):
    """y = 2*x."""
    arguments = [kcl.Array("x", "float32", "(4,)"), kcl.Array("y", "float32", "(4,)", "out")]
    return kcl.Source(code, entry="f", arguments=arguments, global_size="(4,)")


@pytest.fixture
def launched(context):
    """Launch a recipe, and return the address of its new program and that of its row."""

    def launch(code=CODE):
        rows, programs = layers.generator(), Directory(layers.binary().place)
        before = {*rows.disk.scan()}, {*programs.scan()}
        kernel = doubled(code)
        kernel(cl.CommandQueue(context), x=np.ones(4, np.float32))
        assert kcl.flush(60)
        assert client.idle(option.folder("kcl"), 60)
        (address,) = {*programs.scan()} - before[1]
        new = [rows.read(one) for one in {*rows.disk.scan()} - before[0]]
        (row,) = [entry.key.digest for entry in new if "function" in entry.metadata]
        return address, row

    return launch


def said(folder, *tasks, start=0):
    """Do tasks from source, then from binary: the outcomes of each way."""
    (folder / "tasks.json").write_text(json.dumps([[*task, ""] for task in tasks]))
    for way in WAYS:
        child.main(way, str(folder), str(start))
    logs = [(folder / f"{way}.log").read_text().splitlines() for way in WAYS]
    return [[tuple(json.loads(line)) for line in log] for log in logs]


def change(address, **fields):
    """Replace parts of a stored program."""
    programs = Directory(layers.binary().place)
    entry = Entry.unpack(programs.get(address))
    programs.put(address, Entry(entry.key, {**entry.metadata, **fields.pop("about", {})}, entry.parts | fields).pack())
    return entry


def test_fine(launched, tmp_path):
    """A program that computes what its source does is fine both ways."""
    assert said(tmp_path, launched()) == [[(FINE, "")]] * 2


def test_different(launched, tmp_path):
    """A binary of another source is told by what it computes."""
    task, (other, _row) = launched(), launched(CODE.replace("2 *", "3 *"))
    change(task[0], binary=Entry.unpack(Directory(layers.binary().place).get(other)).parts["binary"])
    source, binary = said(tmp_path, task)
    assert source == [(FINE, "")]
    assert binary[0][0] == DIFFERENT
    assert "it computes something else than its source" in binary[0][1]


def test_not_comparable(launched, tmp_path):
    """An entry that cannot be read, or whose device is not here, is no verdict on the binary, and says why."""
    task = launched()
    device = {**change(task[0]).metadata["device"], "name": "another"}
    change(task[0], about={"device": device})
    source, binary = said(tmp_path, task, ("f" * 64, task[1]))
    assert source[0] == (UNCOMPARED, "its device is not here")
    assert source[1][0] == UNCOMPARED
    assert source[1][1].startswith("its entries cannot be read: ")
    assert binary == [(UNCOMPARED, "")] * 2  # nothing was kept to compare with


def test_from_a_number_on(launched, tmp_path):
    """After a task that ended the process the next process goes on behind it."""
    task = launched()
    source, _binary = said(tmp_path, ("f" * 64, task[1]), task, start=1)
    assert source == [(FINE, "")]
