"""Code that is read in tests of readings, and what came of it."""

from __future__ import annotations

import types

from kcl.record.callables import code, readings, scan

SOURCE = """
def recipe(n, m=2):
    import math
    def inner(x=math.pi):
        return lambda: getattr(json, "dumps")(x, n)
    def helper(a):
        return [item + OFFSET for item in a if item in {1, 2.5, "x"}]
    return helper([n * m, -0.0, 1j, b"z", None, ..., ("a", 7)]), inner
"""


def compiled(source: str = SOURCE, name: str = "recipe", file: str = "recipe.py") -> types.CodeType:
    """Return the code of a function in a text."""
    module = compile(source, file, "exec", dont_inherit=True)
    return next(item for item in module.co_consts if isinstance(item, types.CodeType) and item.co_name == name)


def told(found):
    """Return all that references say, so that two can be compared."""
    chains = [
        (one.root, one.name, one.level, one.attributes, id(one.code), one.unit, one.line, one.dotted)
        for one in found.chains
    ]
    return chains, found.mentions, found.stored


def count(monkeypatch):
    """Return the list that grows by a name whenever a code object is read."""
    read = []
    for module, name in ((code, "digest"), (scan, "references")):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda one, name=name, original=original: read.append(name) or original(one))
    return read


def clear(monkeypatch):
    """Begin without a reading that is remembered."""
    for name in ("before", "now", "_places", "_references"):
        monkeypatch.setattr(readings, name, {})
