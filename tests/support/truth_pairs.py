"""Take the text of one callable under two versions of its project, or before and after something is done to it.

Reads rows from stdin as JSON, forks a child for each version, and writes for each row both texts and results.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import pathlib
import py_compile
import shutil
import sys
import tempfile

import numpy

from kcl.errors import UnknownInput
from kcl.record.callables.walker import walked


def main() -> None:
    print(json.dumps({name: forked(row) for name, row in json.load(sys.stdin).items()}))


def forked(row: dict) -> list:
    """Return [key, result] of both versions."""
    form = row.get("form", "folder")
    if "change" in row:
        return in_child(lambda: changed(load(row["files"], form), row["change"]))
    return [in_child(lambda: keyed(load(row["files"], form))), in_child(lambda: keyed(load(row["other"], form)))]


def in_child(function):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as stream:
            stream.write(json.dumps(function()))
            stream.flush()
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    os.wait()
    return json.loads(text)


def load(files: dict[str, str], form: str):
    """Import a project that is a folder, an archive, or a folder of compiled files but for its main module."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=os.getcwd())) / "root"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if form == "archive":
        folder = pathlib.Path(shutil.make_archive(str(folder), "zip", folder))
    for path in [*folder.rglob("*.py")] if form == "compiled" else ():
        if path.name != "main.py":
            py_compile.compile(str(path), cfile=f"{path}c")
            path.unlink()
    sys.path.insert(0, str(folder))
    return importlib.import_module("main")


def changed(module, change: str) -> list:
    """Key, run, key again what nothing was done to, change, and key."""
    keyed(module)
    before = keyed(module)
    exec(change, {"m": module, "np": numpy, "sys": sys})
    return [before, keyed(module)]


def keyed(module) -> list:
    arguments = getattr(module, "ARGUMENTS", {})
    try:
        key = walked(functools.partial(module.recipe, **arguments)).digest
    except UnknownInput as error:
        key = f"refused: {error}"
    try:
        result = repr(module.recipe(**arguments))
    except Exception as error:
        result = repr(error)
    return [key, result]


if __name__ == "__main__":
    main()
