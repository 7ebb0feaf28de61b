"""The duties of every store, as tests: a class derives from `StoreContract` and defines `make`."""

import hashlib
import os
import stat
import threading

import pytest

from kcl.cache.stores import address


def example(number, folder="", label=""):
    """Return the address number so-and-so."""
    return address(hashlib.sha256(b"%d" % number).hexdigest(), folder, label)


class StoreContract:
    """The contract of `kcl.cache.stores.Store`; `make` returns a new, empty store for a fresh directory."""

    def make(self, tmp_path):
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path):
        """A new, empty store."""
        return self.make(tmp_path)

    def test_names_itself(self, store):
        """A store has a location for display, and says that it is written."""
        assert store.location
        assert store.writable

    def test_missing(self, store, tmp_path):
        """An address without a `put` is missing, deleting it is no error, and nothing of that makes a file."""
        assert store.get(example(1)) is None
        store.delete(example(1, "device", "axpy"))
        assert list(store.scan()) == []
        assert list(tmp_path.rglob("*")) == []

    @pytest.mark.parametrize("blob", [b"", b"\0", b"text", bytes(range(256)) * 1000])
    def test_round_trip(self, store, blob):
        """The same bytes come back, for any content and length."""
        store.put(example(1), blob)
        assert store.get(example(1)) == blob

    def test_replace_and_delete(self, store):
        """A second put replaces the first; a deleted address is gone, and the others stay."""
        store.put(example(1), b"a longer blob")
        store.put(example(1), b"short")
        store.put(example(2), b"two")
        assert store.get(example(1)) == b"short"
        store.delete(example(1))
        assert store.get(example(1)) is None
        assert list(store.scan()) == [example(2)]

    def test_scan(self, store):
        """A scan yields each address as it was put, folder and label included."""
        addresses = {
            example(1),
            example(2, label="axpy"),
            example(3, "pocl cpu", "ax/py"),
            example(4, "pocl cpu"),
        }
        for number, place in enumerate(sorted(addresses)):
            store.put(place, b"%d" % number)
        assert sorted(store.scan()) == sorted(addresses)

    def test_delete_during_scan(self, store):
        """Deleting while scanning is allowed."""
        for number in range(20):
            store.put(example(number, "device"), b"blob")
        for place in store.scan():
            store.delete(place)
        assert list(store.scan()) == []

    @pytest.mark.parametrize(
        "place",
        [
            "",
            "..",
            "/etc/passwd",
            "../" + "0" * 64,
            "a/b/" + "0" * 64,
            "0" * 63,
            "A" * 64,
            "0" * 64 + "\n",
        ],
    )
    def test_malformed_address(self, store, place, tmp_path):
        """An address that was not made by `address` is refused before anything is written."""
        with pytest.raises(ValueError, match="not the address"):
            store.put(place, b"blob")
        assert list(tmp_path.rglob("*")) == []

    def test_threads(self, store):
        """Threads that put and get the same addresses see only whole blobs."""
        failures = []

        def work(number):
            try:
                for turn in range(30):
                    place = example(turn % 3)
                    store.put(place, bytes([number]) * 500)
                    blob = store.get(place)
                    if blob is None or len(blob) != 500 or len(set(blob)) != 1:
                        failures.append(blob)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []


class PersistentContract(StoreContract):
    """The further duties of a store that outlives its process."""

    def test_two_stores_share(self, tmp_path):
        """Two stores on one place see each other's blobs at once."""
        one, other = self.make(tmp_path), self.make(tmp_path)
        assert other.get(example(1)) is None
        one.put(example(1), b"blob")
        assert other.get(example(1)) == b"blob"
        other.put(example(1), b"another")
        assert one.get(example(1)) == b"another"
        other.delete(example(1))
        assert one.get(example(1)) is None

    def test_modes(self, tmp_path):
        """Files are made with mode 0600 and every directory with mode 0700, whatever the umask."""
        previous = os.umask(0)
        try:
            self.make(tmp_path / "made").put(example(1, "device", "axpy"), b"blob")
        finally:
            os.umask(previous)
        places = [tmp_path / "made", *(tmp_path / "made").rglob("*")]
        assert any(place.is_file() for place in places)
        for place in places:
            assert stat.S_IMODE(place.stat().st_mode) == (0o700 if place.is_dir() else 0o600)
