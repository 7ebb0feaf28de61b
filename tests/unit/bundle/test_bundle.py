"""kcl.bundle: save, load, and the file that a program keeps."""

import os
import stat
import threading
import warnings
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from elementwise import one_array

import kcl
from kcl.base import process
from kcl.bundle.format import MAGIC, write
from kcl.cache.entry import Entry
from kcl.cache.key import Key


@kcl.kernel
def tripled(factor=3):
    return one_array("tripled", f"x[i] *= {factor};")


def launch(queue, factor=3):
    looks = {}
    remove = kcl.add_hook(lambda event: looks.setdefault(event.layer, event.outcome))
    x = np.ones(4, np.float32)
    tripled(factor)(queue, x=x)
    queue.finish()
    remove()
    assert x.tolist() == [factor] * 4
    return looks


@contextmanager
def one_warning(words):
    """Expect one warning of kcl in a block; compilers warn, too."""
    with pytest.warns(kcl.CacheWarning, match=words) as caught:
        yield
    assert sum(issubclass(warning.category, kcl.CacheWarning) for warning in caught) == 1


HITS = {"generator": "hit", "binary": "hit"}


@pytest.fixture
def elsewhere(tmp_path):
    """Return a function that moves to a new, empty cache."""

    def move(name="elsewhere"):
        kcl.option.cache_dir(str(tmp_path / name))

    return move


@pytest.fixture
def saved(queue):
    launch(queue)
    return kcl.save_artifacts()[0]


@pytest.mark.slow_platforms
class TestSaveAndLoad:
    def test_hit_elsewhere(self, queue, saved, elsewhere):
        """What this process made is saved as bytes, and hits in another cache that loaded them."""
        elsewhere()
        assert launch(queue) == {"generator": "miss", "binary": "miss"}
        elsewhere("third")
        info, again = kcl.load_artifacts(memoryview(saved)), kcl.load_artifacts(bytearray(saved))
        assert info.artifacts == again.artifacts
        assert (info.bytes, info.unusable, info.refused) == (len(saved), [], [])
        assert len(info.binary_artifacts) == 1
        assert info.seconds > 0
        assert launch(queue) == HITS

    def test_nothing(self, queue):
        """Without a launch the bundle is empty; the functions with the names of torch return None where torch's do."""
        data, info = kcl.save_artifacts()
        assert info.empty()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert kcl.load_artifacts(data).empty()
        launch(queue)
        data, info = kcl.save_cache_artifacts()
        assert (data, info.empty()) == (kcl.save_artifacts()[0], False)
        assert kcl.load_cache_artifacts(data).artifacts == info.artifacts
        process.reset()
        assert kcl.save_cache_artifacts() is None
        assert kcl.load_cache_artifacts(write([])) is None

    def test_twice(self, queue, saved, elsewhere):
        assert kcl.save_artifacts()[0] == saved
        elsewhere()
        kcl.load_artifacts(saved)
        assert kcl.save_artifacts()[0] == saved
        launch(queue)
        assert kcl.save_artifacts()[0] == saved

    def test_only_what_was_used(self, queue, elsewhere):
        """A later process saves what it used, not the whole cache."""
        launch(queue)
        launch(queue, 5)
        both, _info = kcl.save_artifacts()
        elsewhere()
        kcl.load_artifacts(both)
        process.reset()
        elsewhere()
        launch(queue, 5)
        info = kcl.save_artifacts()[1]
        assert (len(info.binary_artifacts), len(kcl.entries("binary"))) == (1, 2)
        launch(queue)
        assert kcl.save_artifacts()[0] == both  # whatever the order was

    def test_debug_information_stays_at_home(self, queue):
        """A program with debug information is not saved, and the report names the reason; its code is."""
        options = {"direction": "out", "build_options": ["-g"]}

        @kcl.kernel
        def one():
            return one_array("one", "x[i] = 1;", **options)

        one()(queue)
        info = kcl.save_artifacts()[1]
        assert info.binary_artifacts == []
        words = "its debug information (-g) names directories of this machine"
        assert [reason for _digest, reason in info.left_out] == [words]
        assert info.generator_artifacts

    def test_in_the_middle(self, queue, saved, elsewhere):
        """A bundle may be loaded in the middle of a run, from several threads at once."""
        elsewhere()
        launch(queue, 7)
        threads = [threading.Thread(target=kcl.load_artifacts, args=(saved,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert launch(queue, 9)
        for thread in threads:
            thread.join()
        assert launch(queue) == HITS


def flipped(data):
    return data[:100] + bytes([data[100] ^ 1]) + data[101:]


@pytest.mark.one_platform
class TestBadInput:
    @pytest.mark.faults
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda _data: b"", "no bundle of kcl.*save it or copy it again"),
            (lambda data: data[:-5], "the digest over the bundle does not fit"),
            (flipped, "the digest over the bundle does not fit"),
            (lambda data: data[:8] + b"\2" + data[9:], "format 2.*install a later kcl"),
        ],
        ids=["empty", "cut", "flipped", "later"],
    )
    def test_one_warning(self, saved, change, words, monkeypatch):
        """Bytes that are no bundle are one warning with the cure, and the report names it; strict, an error."""
        with one_warning(words):
            info, _again = [kcl.load_artifacts(change(saved)) for _turn in range(2)]
        assert info.empty()
        assert info.refused[0][0] == "bundle"
        monkeypatch.setenv("KCL_STRICT", "fault")
        with pytest.raises(kcl.CacheFault, match=words.partition(".*")[0]):
            kcl.load_artifacts(change(saved))

    @pytest.mark.faults
    def test_part_of_a_bundle(self):
        good, bad = (Entry(Key([("n", name)]), {}, {}) for name in ("good", "bad"))
        records = [("generator", good.key.digest, one.pack()) for one in (good, bad)]
        with pytest.warns(kcl.CacheWarning, match="1 refused, first .*another key"):
            info = kcl.load_artifacts(write(records))
        assert (len(info.refused), info.generator_artifacts) == (1, [good.key.digest])

    @pytest.mark.faults
    def test_other_file(self, tmp_path):
        """A file that cannot be read raises what `open` raises; of one that is no bundle only the first bytes are read."""
        with pytest.raises(FileNotFoundError):
            kcl.load_artifacts(tmp_path / "nothing")
        with pytest.raises(IsADirectoryError):
            kcl.load_artifacts(tmp_path)
        with pytest.warns(kcl.CacheWarning, match="no bundle"):
            assert kcl.load_artifacts("/dev/zero").empty()

    @pytest.mark.faults
    def test_unusable_cache(self, queue, saved, tmp_path):
        """In a cache that cannot be written the entries stay in memory for this process, with one warning."""
        (tmp_path / "file").write_text("")
        kcl.option.cache_dir(str(tmp_path / "file" / "cache"))
        with pytest.warns(kcl.CacheWarning):
            assert not kcl.load_artifacts(saved).empty()
        assert launch(queue) == HITS


@pytest.mark.one_platform
class TestArtifacts:
    def test_file(self, queue, elsewhere, tmp_path):
        """The file is made by the first run, and a run elsewhere that finds it hits and leaves it as it is."""
        file = tmp_path / "app.kclb"
        with kcl.artifacts(file) as info:
            launch(queue)
        assert info.empty()
        status = file.stat()
        assert stat.S_IMODE(status.st_mode) & 0o022 == 0
        elsewhere()
        with kcl.artifacts(file) as info:
            assert not info.empty()
            assert launch(queue) == HITS
        assert (file.stat().st_ino, file.stat().st_mtime_ns) == (status.st_ino, status.st_mtime_ns)

    def test_grows(self, queue, elsewhere, tmp_path):
        """The file keeps what it held and gets what a run adds; an error in the block does not lose that."""
        file = tmp_path / "app.kclb"
        with kcl.artifacts(file):
            launch(queue)
        process.reset()
        elsewhere()
        with suppress(ZeroDivisionError), kcl.artifacts(file):
            launch(queue, 5)
            raise ZeroDivisionError
        elsewhere("third")
        assert len(kcl.load_artifacts(file).binary_artifacts) == 2

    def test_working_directory(self, queue, tmp_path, monkeypatch):
        """A relative path is that of the beginning of the block. A run that uses nothing makes no file."""
        monkeypatch.chdir(tmp_path)
        with kcl.artifacts("app.kclb"):
            pass
        assert not (tmp_path / "app.kclb").exists()
        os.mkdir("other")
        with kcl.artifacts("app.kclb"):
            launch(queue)
            monkeypatch.chdir("other")
        assert (tmp_path / "app.kclb").exists()
        assert os.listdir(tmp_path / "other") == []

    @pytest.mark.faults
    def test_loose_file(self, queue, saved, tmp_path):
        """A file that others can write and a place that cannot be written are left alone, with one warning."""
        file = tmp_path / "app.kclb"
        file.write_bytes(saved)
        file.chmod(0o666)
        process.reset()
        with one_warning("leaves .* alone.*others can write it.*name a file that"):
            with kcl.artifacts(file) as info:
                launch(queue, 5)
        assert info.empty()
        assert file.read_bytes() == saved
        with one_warning("leaves .* alone"):
            with kcl.artifacts(tmp_path / "nowhere" / "app.kclb"):
                launch(queue)

    @pytest.mark.faults
    def test_damaged_and_later(self, queue, saved, tmp_path):
        damaged, later = tmp_path / "damaged.kclb", tmp_path / "later.kclb"
        damaged.write_bytes(flipped(saved))
        later.write_bytes(MAGIC + b"\2" + bytes(60))
        for file in (damaged, later):
            with pytest.warns(kcl.CacheWarning):
                with kcl.artifacts(file):
                    launch(queue)
        assert not kcl.load_artifacts(damaged).empty()
        assert later.read_bytes() == MAGIC + b"\2" + bytes(60)
