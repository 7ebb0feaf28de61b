"""Commands that run in the process of the test, and in one of their own."""

import os

from click.testing import CliRunner

from kcl import cli
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.inspect import inventory


def run(*arguments, code=0, text=""):
    """Run a command in this process, with a text as its input; return its result, which must end as told."""
    result = CliRunner().invoke(cli.main, list(arguments), input=text)
    assert result.exit_code == code, result.output
    return result


def invoke(*arguments):
    """Run a command in this process and return its result, whatever that is."""
    return CliRunner().invoke(cli.main, [*map(str, arguments)])


def kcl(project, *words, text="", **variables):
    """Run `python -m kcl` beside a project's cache, with a text as its input."""
    return project.child.python("-m", "kcl", *words, cwd=project.folder, stdin=text, **variables)


def program(kernel: str) -> inventory.ListedEntry:
    """Return the program of a kernel."""
    entries = inventory.find_named(kernel, [*inventory.entries()])
    (binary,) = [entry for entry in entries if entry.layer == "binary"]
    return binary


def with_parts(entry: Entry, **values: str) -> Entry:
    """Return an entry whose key has other values of some parts."""
    parts = [(part.name, values.get(part.name, part.value)) for part in entry.key.parts]
    return Entry(Key(parts), entry.metadata, entry.parts)


def flip(path, position):
    """Flip a bit in a file, at a place that is counted from its end if it is negative."""
    with open(path, "r+b") as stream:
        stream.seek(position, os.SEEK_SET if position >= 0 else os.SEEK_END)
        (byte,) = stream.read(1)
        stream.seek(-1, os.SEEK_CUR)
        stream.write(bytes([byte ^ 1]))
