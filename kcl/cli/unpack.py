"""`kcl unpack`: the entries as a tree of readable files, with a script that builds each program again."""

from __future__ import annotations

import json
import os

import click

from kcl.base import settings
from kcl.cache.entry import Entry
from kcl.cache.stores.base import safe
from kcl.cli import output
from kcl.cli.ls import complain
from kcl.errors import CacheFault
from kcl.inspect import inventory
from kcl.inspect.inventory import Fault, ListedEntry

_ANY = "any-device"  # the folder of generated code without a program
_FILES = {"source.cl": "source.cl", "build.log": "build.log", "binary": "program.bin", "invoker.py": "invoker.py"}

REBUILD = '''\
#!/usr/bin/env python3
"""Build this program again from its source, with pyopencl alone, and write the binary to rebuilt.bin.

    python rebuild.py [OPTION...]

Each OPTION is one more for the compiler: -I DIRECTORY where the source includes headers, which are not kept here.
"""

import json
import pathlib
import sys
import time

import pyopencl as cl

here = pathlib.Path(__file__).resolve().parent
described = json.loads((here / "key.json").read_text())
wanted = described["metadata"]
names = wanted["platform"]["name"], wanted["device"]["name"]
devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
device = next((device for device in devices if (device.platform.name, device.name) == names), None)
if device is None:
    sys.exit(f"there is no device {names[1]} of {names[0]} here; found: {[one.name for one in devices]}")
source = (here / "source.cl").read_bytes().decode("utf-8", "surrogatepass")
options = (here / "options.txt").read_text().splitlines() + sys.argv[1:]
headers = [name.partition(" ")[2] for name, _digest in described["key"] if name.startswith("header ")]
if headers and not any(option.startswith("-I") for option in options):
    sys.exit(f"the source includes {', '.join(headers)}: say where that lies, as in  python rebuild.py -I DIRECTORY")

started = time.perf_counter()
program = cl.Program(cl.Context([device]), source).build(options=options, cache_dir=False)
seconds = time.perf_counter() - started
(binary,) = program.get_info(cl.program_info.BINARIES)
(here / "rebuilt.bin").write_bytes(binary)
print(f"{program.kernel_names}: built for {device.name} in {seconds:.2f} s; {len(binary)} bytes in rebuilt.bin")
'''


@click.command()
@click.argument("directory", type=click.Path(file_okay=False))
@click.option("--kernel", help="Only the kernel of this name.")
def unpack(directory: str, kernel: str | None) -> None:
    """Write every entry to files below DIRECTORY, as device/kernel/key.

    Beside a program: source.cl, options.txt, build.log, key.json, program.bin, the invoker.py that launches it, and
    rebuild.py, which builds it again with pyopencl alone. What is there already is left as it is.

    Exits with 0; with 1 where an entry is damaged, or a file cannot be written.
    """
    os.makedirs(directory, exist_ok=True)
    faults: list[Fault] = []
    found: list[tuple[ListedEntry, Entry]] = []
    for one in inventory.entries(faults=faults):
        if kernel in (None, one.kernel):
            try:
                found.append((one, one.read()))
            except (KeyError, CacheFault, OSError, ValueError) as error:
                faults.append(Fault(one.layer, one.address, str(error)))
    invokers = {inventory.launched(entry): entry for one, entry in found if one.layer == settings.GENERATOR}
    programs = {inventory.launched(entry) for one, entry in found if one.layer == settings.BINARY}
    written = there = 0
    for one, entry in found:
        is_program, launched = one.layer == settings.BINARY, inventory.launched(entry)
        if not is_program and launched in programs:
            continue  # its invoker lies beside the program
        device = one.address.partition("/")[0] if is_program else _ANY
        folder = os.path.join(directory, device, safe(one.kernel, 80) or "_", one.digest)
        if os.path.lexists(folder):
            there += 1
            continue
        try:
            os.makedirs(folder)
            for name, content in _files(one, entry, invokers.get(launched, entry)).items():
                with open(os.path.join(folder, name), "xb") as stream:
                    stream.write(content)
            written += 1
        except OSError as error:
            faults.append(Fault(one.layer, one.address, f"cannot be written: {error}"))
    output.say(f"{written} folders written to {directory}" + (f", {there} were there" if there else ""))
    complain(faults)
    raise SystemExit(output.FOUND if faults else output.FINE)


def _files(one: ListedEntry, entry: Entry, beside: Entry) -> dict[str, bytes]:
    """Return the files of an entry by name; `beside` is the generated code that launches it."""
    key = {"digest": one.digest, "key": entry.key.parts, "metadata": entry.metadata}
    options = [option for option in entry.metadata.get("options", ()) if isinstance(option, str)]
    parts = {**beside.parts, **entry.parts}
    found = {name: parts[part] for part, name in _FILES.items() if part in parts}
    found["key.json"] = json.dumps(key, indent=2).encode()
    found["options.txt"] = "".join(f"{option}\n" for option in options).encode("utf-8", "surrogateescape")
    if one.layer == settings.BINARY:
        found["rebuild.py"] = REBUILD.encode()
    return found
