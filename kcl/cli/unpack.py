"""`kcl unpack`: the entries as a tree of readable files, with a script that builds each program again."""

from __future__ import annotations

import glob
import os

import click

from kcl.base import settings
from kcl.choices.tuning import views
from kcl.cli import output
from kcl.inspect import dump, inventory


@click.command()
@click.argument("directory", type=click.Path(file_okay=False))
@click.option("--kernel", help="Only the kernel of this name.")
def unpack(directory: str, kernel: str | None) -> None:
    """Write every entry to files below DIRECTORY, as device/kernel/key.

    Beside a program: source.cl, options.txt, build.log, key.json, program.bin, the invoker.py that launches it, and
    rebuild.py, which builds it again with pyopencl alone. What was measured for a recipe with a space lies in
    recipes/kernel/key: dispatch_table.txt, summary-LEVEL.txt, and links to the programs of the table by their numbers.
    Any other folder that is there already is left as it is.

    Exits with 0; with 1 if an entry is damaged, or a file cannot be written.
    """
    os.makedirs(directory, exist_ok=True)
    faults: inventory.Faults = []
    pairs = [
        (row, entry)
        for row in inventory.entries(faults=faults)
        if kernel in (None, row.kernel) and (entry := row.read(faults)) is not None
    ]
    invokers = {
        inventory.identify_launch(entry): entry.parts.get("invoker.py")
        for row, entry in pairs
        if row.layer == settings.GENERATOR
    }
    programs = {
        inventory.identify_launch(entry) for row, entry in pairs if row.layer == settings.BINARY
    }
    written = there = 0
    for row, entry in pairs:
        launched = inventory.identify_launch(entry)
        if row.layer != settings.BINARY and launched in programs:
            # The invoker is written into the folder of its program.
            continue
        invoker = invokers.get(launched)
        files = dump.collect_files(row.address, entry, {"invoker.py": invoker} if invoker else {})
        is_new = dump.write(dump.find_folder(directory, row.address, entry), files)
        written, there = written + is_new, there + (not is_new)
    for folder, files, numbered in views.folders(directory, kernel):
        _write_recipe(directory, folder, files, numbered)
        written += 1
    were_there = f", {there} were there" if there else ""
    output.say(f"{written} folders written to {directory}{were_there}")
    output.complain(*faults)
    output.end(bool(faults))


def _write_recipe(
    directory: str, folder: str, files: dict[str, bytes], numbered: dict[int, str]
) -> None:
    """Write the folder of a tuning table, with links to those of its programs that were written."""
    place = os.path.join(folder, "programs")
    os.makedirs(place, mode=0o700, exist_ok=True)
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(content)
    # Only the links of an earlier `kcl unpack` are removed.
    for old in [os.path.join(place, name) for name in os.listdir(place)]:
        if os.path.islink(old):
            os.unlink(old)
    for number, digest in numbered.items():
        paths = glob.glob(os.path.join(glob.escape(directory), "*", "*", digest)) if digest else []
        if paths:
            os.symlink(os.path.relpath(paths[0], place), os.path.join(place, str(number)))
