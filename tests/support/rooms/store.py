"""A store in one file: the bytes lie in a `dbm` database, by their addresses."""

import dbm.dumb
import os
import threading

from kcl.cache.stores import digest_of


class Dbm:
    """Bytes in one database below a folder; a process at a time. Thread-safe."""

    name = "dbm"
    writable = True

    def __init__(self, folder) -> None:
        self.location = str(folder)
        self._lock = threading.Lock()

    def get(self, address):
        digest_of(address)  # refuses what is none
        return self._with(lambda data: data.get(address.encode()), None)

    def put(self, address, blob):
        digest_of(address)
        os.makedirs(self.location, mode=0o700, exist_ok=True)
        self._with(lambda data: data.__setitem__(address.encode(), blob), None)

    def delete(self, address):
        digest_of(address)
        self._with(lambda data: data.pop(address.encode(), None), None)

    def scan(self):
        yield from self._with(lambda data: [one.decode() for one in data], [])

    def _with(self, use, otherwise):
        with self._lock:
            if not os.path.isdir(self.location):
                return otherwise
            with dbm.dumb.open(os.path.join(self.location, "entries"), "c") as data:
                return use(data)
