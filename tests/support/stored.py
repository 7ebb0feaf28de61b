"""Entries of made-up kernels, published in the layers of this process."""

import os
import time

from kcl.cache import layers, places
from kcl.cache.entry import Entry
from kcl.cache.key import Key
from kcl.cache.stores import address

DAY = 86400.0


def put(kernel, size=99, days=0.0, layer="binary", special=False, number=0, **metadata):
    """Store an entry that was made so many days ago; return its address. A base row leads to a `special` row."""
    parts = [("kernel", kernel), ("number", str(number)), ("program", metadata.get("program", ""))]
    key = Key([*parts, *([("row", "special")] if special else ())])
    about = {"kernel": kernel, "created": time.time() - DAY * days, "seconds": 1.0, **metadata}
    if layer == "generator":
        place = address(key.digest)
        layers.generator().publish(place, Entry(key, about, {"invoker.py": os.urandom(size)}))
        return place
    place = address(key.digest, "device", kernel)
    layers.binary().publish(place, Entry(key, about, {"binary": os.urandom(size)}))
    os.utime(os.path.join(places.binaries(), place), (about["created"], about["created"]))
    return place
