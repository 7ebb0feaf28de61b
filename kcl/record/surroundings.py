"""The parts of a generator key that all programs of an installation share, and their values here.

kcl, Python and the distributions decide whether an entry that was made elsewhere can hit here. All other parts belong
to a program, and any program may ask for them.
"""

from __future__ import annotations

import sys

from kcl.cache.key import Key, Part
from kcl.record import beside, distributions


def compared(key: Key) -> tuple[Key, Key]:
    """Return the shared parts of a key, and the same parts with their values here."""
    here = {
        "python": distributions.INTERPRETER,
        "optimize": str(sys.flags.optimize),
        "argument checks": "",
        **{part.name: part.value for part in (*beside.parts(True), *beside.switches())},
    }
    before, now = [], []
    for part in key.parts:
        name = part.name
        is_distribution = name.startswith("distribution ")
        found = distributions.here(name.partition(" ")[2]) if is_distribution else here.get(name)
        before += [] if found is None else [part]
        now += [Part(name, found)] if found else []
    if "optimize" in dict(before):  # loopy generates
        now += [part for part in beside.switches() if part not in now]
    return Key(before), Key(now)
