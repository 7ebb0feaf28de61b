"""kcl.build.entries: what is stored of a program beside its binary."""

from __future__ import annotations

from kcl import drivers
from kcl.build.entries import entry_of
from kcl.build.stage import Build, _log
from kcl.code import ProgramText

TEXT = ProgramText("add", "kernel void add(global float *x) {} // \ud800", ("-DA=1",), ("add",))


def described(context):
    """Return the entry of the text on a context."""
    driver = drivers.of(context)
    (slot,) = Build(context, driver).slots(TEXT)
    return slot, entry_of(TEXT, slot, "a log", 0.5, driver)


def test_facts(context):
    """The entry has the key of its slot, source and log as bytes, and says for which device it is."""
    slot, entry = described(context)
    device = context.devices[0]
    assert entry.key == slot.key
    assert entry.parts == {"source.cl": TEXT.source.encode("utf-8", "surrogatepass"), "build.log": b"a log"}
    assert entry.metadata["device"] == {"name": device.name, "driver": device.driver_version}
    assert (entry.metadata["kernels"], entry.metadata["seconds"]) == (["add"], 0.5)


def test_log_names_no_directory(context, tmp_path):
    """The log names no place of an include directory; a later run reads its own there."""
    text = TEXT._replace(options=(f"-I{tmp_path}",))
    driver = drivers.of(context)
    (slot,) = Build(context, driver).slots(text)
    log = f"Options: -I{tmp_path} -Iother\n{tmp_path}/seven.h:2:2: warning"
    entry = entry_of(text, slot, log, 0.5, driver)
    assert entry.parts["build.log"].decode() == "Options: -I<include 0> -Iother\n<include 0>/seven.h:2:2: warning"
    assert _log(entry, slot) == log
