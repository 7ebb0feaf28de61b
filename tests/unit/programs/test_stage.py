"""kcl.programs.stage: programs from source or binary, found, made, and of several devices."""

import hashlib
import os
import pathlib
import struct
import uuid

import numpy as np
import pyopencl as cl
import pytest
from program_texts import ADD, INCLUDING, build_on, generated, key, outcomes

from kcl.base import settings
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.faults import CacheWarning
from kcl.cache.lead import Lead
from kcl.cache.stores.directory import Directory
from kcl.drivers.pocl import client
from kcl.programs import compilation
from kcl.programs import driver as devices
from kcl.programs.stage import BuildRequest


def built_by(build, text):
    """Return the program of a text: found, or built now."""
    with Lead("add") as lead:
        return build.program(
            BuildRequest(text), hashlib.sha256(repr(text).encode()).hexdigest(), lead
        )


def computed(built):
    """Launch on ones."""
    context = built.build.context
    queue, result = cl.CommandQueue(context), np.ones(4, np.float32)
    buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=result)
    cl.Kernel(built.program, "add")(queue, (4,), (4,), buffer)
    cl.enqueue_copy(queue, result, buffer)
    return result.tolist()


def fill(context, made):
    """Build, launch, and wait until the entry is in the binary layer."""
    built = built_by(build_on(context), made)
    result = computed(built)
    if built.unfinished is not None:
        built.unfinished.note_launches(made.kernels)
    assert client.idle(settings.folder("kcl"), 60)
    layers.reset()
    return result


def test_bypass(context, tmp_path, monkeypatch):
    """A program whose headers cannot be known is built from source, counted as bypassed, and not stored."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "addend.h").write_text("#define ADDEND 1\n")
    made = generated("#define TEXT(x) #x\n#include TEXT(addend.h)\n" + ADD, (f"-I{tmp_path}",))
    seen = outcomes()
    assert fill(context, made) == [2.0] * 4
    assert seen == ["bypass"]
    assert not list(Directory(layers.binary().place).scan())


def test_headers_digest(context):
    """A program that reads nothing has none, whatever words its comments hold. Where nobody can tell, no two are alike."""
    assert build_on(context).headers_digest(generated("/* include */" + ADD)) == ""
    for line in ("%:include X", "constant char now[] = __TIME__;", "#inc\\\nlude X"):
        made = generated(f"{line}\n{ADD}")
        one, other = (build_on(context).headers_digest(made) for _ in range(2))
        assert one != other != ""


class TestBuilt:
    def test_second_time(self, context):
        """What was built from source comes from the binary layer next time, with the same numbers."""
        seen = outcomes()
        assert fill(context, generated()) == [2.0] * 4
        assert fill(cl.Context(context.devices), generated()) == [2.0] * 4
        assert seen == ["miss", "hit"]

    def test_prepared(self, context, platform_name):
        """The entry of a program without a launch says so: the helper waits for no code of its kernels."""
        built_by(build_on(context), generated()).note_prepared()
        assert client.idle(settings.folder("kcl"), 60)
        store = Directory(layers.binary().place)
        (entry,) = [Entry.unpack(store.get(address)) for address in store.scan()]
        assert entry.metadata.get("launched") == ({} if platform_name == "pocl" else None)

    def test_directory_with_a_blank(self, context, tmp_path, platform_name):
        """The layer is bypassed for a header in a directory with a blank: drivers read the quotes in different ways."""
        folder = tmp_path / "a b"
        folder.mkdir()
        (folder / "addend.h").write_text("#define ADDEND 1\n")
        made = generated(INCLUDING, (f"-I{folder}",))
        if platform_name == "pocl":
            try:
                built_by(build_on(context), made)
            except cl.RuntimeError:  # PoCL 3.0, for one, looks elsewhere; 7.1 finds the header
                return
        seen = outcomes()
        assert fill(cl.Context(context.devices), made) == [2.0] * 4
        assert seen == ["bypass"]

    def test_header_that_changes_meanwhile(self, context, tmp_path, monkeypatch):
        """A header that changes between key and compilation leaves no entry: it would be one of another program."""
        header = tmp_path / "addend.h"
        header.write_text("#define ADDEND 1\n")
        code = generated(INCLUDING, (f"-I{tmp_path}",))
        compile_now = compilation.from_source

        def compile_later(*arguments):
            header.write_text("#define ADDEND 7\n")
            return compile_now(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(compilation, "from_source", compile_later)
            fill(context, code)
        header.write_text("#define ADDEND 1\n")
        assert fill(cl.Context(context.devices), code) == [2.0] * 4

    def test_entry(self, context):
        """An entry says what it is: source, options, log, kernels, device, seconds; and no path."""
        # No PoCL has code of it already.
        made = generated(options=("-DADDEND=1", f"-DRUN={uuid.uuid4().int}"))
        fill(context, made)
        store = Directory(layers.binary().place)
        (address,) = store.scan()
        assert address.partition("/")[2].startswith("add-")
        blob = store.get(address)
        entry = Entry.unpack(blob, key(context, made))
        assert dict(entry.key.parts)["source"] == hashlib.sha256(ADD.encode()).hexdigest()
        assert entry.parts["source.cl"].decode() == ADD
        assert entry.parts["binary"]
        about = entry.metadata
        assert (about["options"], about["kernels"]) == (list(made.options), ["add"])
        assert about["device"]["name"] == context.devices[0].name
        assert about["seconds"] > 0
        assert about["complete"] is True
        header = blob[: len(blob) - sum(map(len, entry.parts.values()))]
        for text in (layers.binary().place, os.path.expanduser("~"), os.path.dirname(__file__)):
            assert text.encode() not in header

    @pytest.mark.faults
    def test_missing_kernel_name(self, context):
        """An entry without a kernel that the generated code needs is a fault: rebuilt from source and replaced."""
        both = ADD + ADD.replace("add", "other")
        narrow, made = generated(), generated(both)
        fill(context, narrow)
        fill(context, made)
        # The program key is the same, since kernel names follow from the source: only a wrong binary can lack one.
        store = Directory(layers.binary().place)
        one, two = (build_on(context).slots(text)[0].address for text in (narrow, made))
        entry, other = Entry.unpack(store.get(one)), Entry.unpack(store.get(two))
        parts = {**other.parts, "binary": entry.parts["binary"]}
        store.put(two, Entry(other.key, other.metadata, parts).pack())
        seen, wide = outcomes(), generated(both, kernels=("add", "other"))
        with pytest.warns(CacheWarning):
            assert fill(cl.Context(context.devices), wide) == [2.0] * 4
        assert fill(cl.Context(context.devices), wide) == [2.0] * 4
        assert seen == ["error", "hit"]

    @pytest.mark.faults
    def test_refused_binary(self, context, platform_name):
        """A binary that the driver refuses, verified though it is, costs one rebuild and is replaced."""
        if platform_name == "pocl":
            pytest.skip("this PoCL crashes on what it cannot read; its entries are verified before")
        fill(context, generated())
        store = Directory(layers.binary().place)
        (address,) = store.scan()
        entry = Entry.unpack(store.get(address))
        parts = {**entry.parts, "binary": b"no binary"}
        store.put(address, Entry(entry.key, entry.metadata, parts).pack())
        seen = outcomes()
        with pytest.warns(CacheWarning, match="goes on"):
            assert fill(cl.Context(context.devices), generated()) == [2.0] * 4
        assert fill(cl.Context(context.devices), generated()) == [2.0] * 4
        assert seen == ["error", "hit"]


DEVICES = """
    import json, sys
    import forbid
    if sys.argv[2] == "forbid":
        forbid.compilation()
    import numpy as np, pyopencl as cl
    import handle_recipes, kcl
    from kcl.base import settings
    from kcl.drivers.pocl import client

    events = []
    kcl.add_hook(lambda event: event.layer == "binary" and events.append([event.outcome, event.key, event.reason]))
    platform = [one for one in cl.get_platforms() if one.name.startswith("Portable")][0]
    names = tuple(sys.argv[1].split()) or ""
    devices = [one for one in platform.get_devices() if one.name.startswith(names)]
    context, kernel, found = cl.Context(devices), handle_recipes.add(), []
    queues = [cl.CommandQueue(context, device) for device in context.devices]
    for queue in queues:
        _event, (out,) = kernel(queue, x=np.zeros(8, np.float32), a=2)
        found.append(out.tolist())
    assert client.idle(settings.folder("kcl"), 60)
    print(json.dumps([found, events]))
"""


UNREADABLE = """
import sys, warnings
import numpy as np, pyopencl as cl
import kcl
from kcl.cache import lead
from kcl.programs import driver
from kcl.generate import miss

class Unreadable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == sys.argv[1]:
            raise OSError(24, "Too many open files", name)

@kcl.kernel
def doubled():
    return kcl.Source("__kernel void doubled(__global float *x) { x[get_global_id(0)] *= 2; }",
        entry="doubled", arguments=[kcl.Array("x", np.float32, "(4,)", "inout")], global_size="(4,)")

sys.meta_path.insert(0, Unreadable)
context = cl.create_some_context(interactive=False)
x = np.ones(4, np.float32)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    doubled()(cl.CommandQueue(context), x=x)
    kcl.flush(1)
warned = [one for one in said if one.category is kcl.cache.faults.CacheWarning]
print(x.tolist(), sys.argv[1] in sys.modules, len(warned))
"""


@pytest.mark.faults
@pytest.mark.parametrize("name", ["client", "asking"])
def test_unreadable_module(child, name):
    """A module of kcl that cannot be read when it is needed is a fault of the cache like any other."""
    done = child.run(UNREADABLE, f"kcl.drivers.pocl.{name}")
    assert done.stdout.split() == ["[2.0,", "2.0,", "2.0,", "2.0]", "False", "1"], done


class TestDevices:
    """Each device of a context has an entry of its own."""

    def test_some_present(self, child, platform_name):
        """Beside one that is there another one alone is made: the next process hits both."""
        if platform_name != "pocl":
            pytest.skip("PoCL alone can be asked for two devices")
        said = []
        for names, mode in ("basic cpu-minimal", ""), ("", ""), ("", "forbid"):
            found, events = child.json(DEVICES, names, mode, POCL_DEVICES="pthread basic")
            assert found == [[2.0] * 8] * (1 if names else 2)
            said.append(sorted(events))
        (alone,), (absent,), (both,) = said
        if alone[1] == absent[1]:
            pytest.skip("this PoCL takes the same binaries for both devices")  # 7.1, for one
        assert (alone[0], absent[0], both[0]) == ("miss", "miss", "hit")

    def test_two_builds_of_one_driver(self, child, device, platform_name, tmp_path):
        """PoCL under the same name and version, its library built anew: a miss, and an entry beside the other's."""
        library = pathlib.Path(devices._library_path(device.platform))
        support = library.parent.parent.parent / "pocl_binary_distribution"
        if platform_name != "pocl" or not support.is_dir():
            pytest.skip("PoCL's wheel alone runs from another place")
        content = library.read_bytes()
        note = content.index(struct.pack("<III", 4, 20, 3) + b"GNU\0") + 16
        build = content[note : note + 20]
        other = tmp_path / "pyopencl" / ".libs" / "libpocl-other.so"
        other.parent.mkdir(parents=True)
        (tmp_path / support.name).symlink_to(support)
        other.write_bytes(content.replace(build, build[::-1], 1))
        (tmp_path / "pocl.icd").write_text(f"{other}\n")
        said = []
        for vendors in {}, {"OCL_ICD_VENDORS": str(tmp_path)}, {}:
            found, events = child.json(DEVICES, "", "", POCL_DEVICES="pthread", **vendors)
            assert found == [[2.0] * 8]
            said += events
        assert [outcome for outcome, _key, _reason in said] == ["miss", "miss", "hit"]
        assert len({key for _outcome, key, _reason in said}) == 2

    def test_devices_that_are_alike_share_one_entry_which_counts_once(self, device):
        try:
            parts = device.create_sub_devices([cl.device_partition_property.EQUALLY, 1])
            assert len(parts) > 1
        except (cl.Error, AssertionError):
            pytest.skip("the device has no parts, or one compute unit")
        seen = outcomes()
        for _ in range(2):
            assert fill(cl.Context(parts), generated()) == [2.0] * 4
        assert seen == ["miss", "hit"]
        assert len(list(Directory(layers.binary().place).scan())) == 1
