"""Dumps: every stage of a kernel as a file, in the folder of a program that `kcl unpack` writes too.

    <directory>/<device>/<kernel>/<key digest>/
        key.json options.txt source.cl build.log invoker.py rebuild.py     of the entry, and of what launches it
        unit.txt scheduled.txt                                             loopy's unit, as returned and as scheduled
        program.bin, and the files in it: program.bc, <kernel>-<size>.so   if the entry is complete

`KCL_DUMP` names the directory. The folder is written when a program is loaded or built; the texts of its code have been
kept for it before.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from kcl import drivers
from kcl.base import process, settings
from kcl.cache.faults import warn_once
from kcl.cache.stores import make_safe
from kcl.inspect.inventory import read_options

if TYPE_CHECKING:
    from kcl.cache.entry import Entry
    from kcl.code import Code

# The folder of generated code that no program was made of.
_ANY = "any-device"
_FILES = {
    "source.cl": "source.cl",
    "build.log": "build.log",
    "binary": "program.bin",
    "invoker.py": "invoker.py",
}

REBUILD = '''\
#!/usr/bin/env python3
"""Build this program again from its source, with pyopencl alone, and write the binary to rebuilt.bin.

    python rebuild.py [OPTION...]

Each OPTION is one more for the compiler: -I DIRECTORY if the source includes headers, which are not kept here.
"""

import json
import pathlib
import sys
import time

import pyopencl as cl

here = pathlib.Path(__file__).resolve().parent
wanted = json.loads((here / "key.json").read_text())["metadata"]
names = wanted["platform"]["name"], wanted["device"]["name"]
devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
device = next((device for device in devices if (device.platform.name, device.name) == names), None)
if device is None:
    sys.exit(f"there is no device {names[1]} of {names[0]} here; found: {[device.name for device in devices]}")
source = (here / "source.cl").read_bytes().decode("utf-8", "surrogatepass")
options = (here / "options.txt").read_text().splitlines() + sys.argv[1:]

started = time.perf_counter()
program = cl.Program(cl.Context([device]), source).build(options=options, cache_dir=False)
seconds = time.perf_counter() - started
(binary,) = program.get_info(cl.program_info.BINARIES)
(here / "rebuilt.bin").write_bytes(binary)
print(f"{program.kernel_names}: built for {device.name} in {seconds:.2f} s; {len(binary)} bytes in rebuilt.bin")
'''


class SeenTexts(process.LockedState):
    """The texts of the code that was seen, by the digest of its OpenCL C."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, dict[str, str]] = {}


_state = process.own(SeenTexts)


def note(source_digest: str, texts: Mapping[str, str]) -> None:
    """Keep texts for the folders of the programs with this OpenCL C."""
    state = _state()
    with state.lock:
        # loopy colours the text of its units: the escape sequences go.
        plain = {name: re.sub(r"\x1b\[[0-9;]*m", "", text) for name, text in texts.items()}
        state.texts.setdefault(source_digest, {}).update(plain)


def note_code(code: Code) -> None:
    """Keep the invoker of code."""
    note(code.text.source_digest, {"invoker.py": code.invoker.source})


def program(source_digest: str, address: str, entry: Entry) -> None:
    """Write the folder of a program that was loaded or built; a fault is one warning."""
    directory, state = settings.read().dump, _state()
    with state.lock:
        texts = dict(state.texts.get(source_digest, {}))
    try:
        beside = {name: text.encode("utf-8", "surrogateescape") for name, text in texts.items()}
        # The caller has checked that the directory is set.
        write(find_folder(directory or "", address, entry), collect_files(address, entry, beside))
    # A dump is a help for the user: no fault of it may stop a launch.
    except Exception as error:
        warn_once("dump", f"kcl goes on without KCL_DUMP={directory}: {error}")


def find_folder(directory: str, address: str, entry: Entry) -> str:
    """Return the folder of an entry."""
    return os.path.join(
        directory,
        address.partition("/")[0] if _is_program(address) else _ANY,
        make_safe(str(entry.metadata.get("kernel", "")), 80) or "_",
        entry.key.digest,
    )


def collect_files(address: str, entry: Entry, beside: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of an entry by name; `beside` are those of the code that launches it."""
    own = {name: entry.parts[part] for part, name in _FILES.items() if part in entry.parts}
    key = {
        "digest": entry.key.digest,
        "address": address,
        "key": entry.key.parts,
        "metadata": entry.metadata,
    }
    options = "".join(f"{option}\n" for option in read_options(entry))
    contents = {
        **beside,
        **own,
        "key.json": json.dumps(key, indent=2).encode(),
        "options.txt": options.encode("utf-8", "surrogateescape"),
    }
    if _is_program(address):
        contents["rebuild.py"] = REBUILD.encode()
        contents |= _collect_own_files(entry.parts.get("binary", b""))
    return contents


def _is_program(address: str) -> bool:
    """Return True for the address of a program, which begins with the folder of its device."""
    return "/" in address


def _collect_own_files(binary: bytes) -> dict[str, bytes]:
    """Return the files in a binary: bitcode, and native code by kernel and local size."""
    files: dict[str, bytes] = {}
    # A damaged binary is dumped as it is, without the files in it.
    with suppress(ValueError):
        for path, content in drivers.own_files(binary).items():
            *folders, name = path.strip("/").split("/")
            files[f"{'-'.join(folders)}.so" if len(folders) > 1 else name] = content
    return files


def write(folder: str, contents: Mapping[str, bytes]) -> bool:
    """Write the files of a folder, all or none; False if it is there."""
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    # Of processes that dump the same entry at once, one makes the folder and writes.
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return False
    try:
        for name, content in contents.items():
            with open(os.path.join(folder, name), "xb") as stream:
                stream.write(content)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return True
