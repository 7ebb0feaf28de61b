"""The budget of lines: what each room of the house may hold, and what a warm start may import of it.

A number is only lowered, except by an issue that brings a room. Run as a program, this module prints both tables.
"""

import collections

import warm_modules
from house import modules

# Lines of the files of a room; the files in the root are one room.
ROOMS = {
    "root": 1403,
    "base": 1975,
    "launch": 1292,
    "caches": 858,
    "cache": 2487,
    "record": 4824,
    "generate": 2192,
    "build": 1418,
    "drivers": 1928,
    "bundle": 554,
    "remote": 955,
    "sized": 431,
    "tuning": 2060,
    "inspect": 2896,
    "workers": 255,
    "integrations": 969,
    "cli": 2078,
}
# Modules of kcl that a warm start of drivers with recipes of both front ends imports on PoCL, and their lines.
WARM_MODULES = 65
WARM_LINES = 11140


def lines():
    """Return the lines of each room."""
    found = collections.Counter()
    for path, name in modules():
        found[name.partition(".")[0] if "." in name or path.name == "__init__.py" else "root"] += _lines(path)
    found["root"] += found.pop("__init__", 0)
    return dict(found)


def warm():
    """Return the number of modules that a warm start imports, and their lines."""
    names = {*warm_modules.MODULES, *warm_modules.POCL}
    paths = [path for path, name in modules() if f"kcl.{name}" in names or (name == "__init__" and "kcl" in names)]
    return len(names), sum(map(_lines, paths))


def _lines(path):
    return path.read_text(encoding="utf-8").count("\n")


def table():
    """Return both tables as lines of text."""
    found, (number, read) = lines(), warm()
    rows = [(name, found.get(name, 0), most) for name, most in ROOMS.items()]
    rows.append(("sum", sum(found.values()), sum(ROOMS.values())))
    rows += [("modules of a warm start", number, WARM_MODULES), ("lines of a warm start", read, WARM_LINES)]
    return ["lines of kcl                now  budget", *(f"{name:<24}{now:7}{most:8}" for name, now, most in rows)]


if __name__ == "__main__":
    print(*table(), sep="\n")
