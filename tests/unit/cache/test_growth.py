"""kcl.cache.growth: how many bytes came since somebody measured."""

import os

import pytest

from kcl.cache import growth, places


def stamp():
    return places.own(places.SPACE)


class TestEstimate:
    def test_never_measured(self):
        """Nobody has measured: there is no estimate, with bytes published or without."""
        assert growth.estimate() is None
        growth.add(10)
        growth.write()
        assert growth.estimate() is None

    def test_since(self):
        """The bytes of a measurement, and of each process that published since."""
        growth.measured(1000)
        for size in (10, 20):
            growth.add(size)
            growth.write()
        assert growth.estimate() == 1030
        growth.measured(5)
        assert growth.estimate() == 5

    def test_nothing_published(self):
        """A process that published nothing writes nothing."""
        growth.write()
        assert not os.path.exists(places.own())

    @pytest.mark.parametrize("text", [b"", b"garbage", b"1.0 5\n2\n", b"\0" * 10, b"5\n" + b"1\n" * 40_000])
    def test_damaged(self, text):
        """A file of any other form, or a long one, is no estimate."""
        growth.measured(0)
        with open(stamp(), "wb") as stream:
            stream.write(text)
        assert growth.estimate() is None

    def test_no_file(self, tmp_path):
        """A FIFO, a link or a directory in its place neither waits nor is followed."""
        growth.measured(0)
        target = tmp_path / "target"
        target.write_bytes(b"5\n")
        for plant in (os.mkfifo, os.mkdir, lambda path: os.symlink(target, path)):
            os.path.isdir(stamp()) and not os.path.islink(stamp()) and os.rmdir(stamp())
            os.path.lexists(stamp()) and os.unlink(stamp())
            plant(stamp())
            growth.add(1)
            growth.write()
            assert growth.estimate() is None
        assert target.read_bytes() == b"5\n"


def test_at_exit(child):
    """A process that published writes its line as it ends."""
    child.run("from kcl.cache import growth; growth.measured(1); growth.add(41)")
    assert (child.cache / "kcl" / "space").read_text() == "1\n41\n"
