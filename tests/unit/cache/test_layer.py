"""kcl.cache.layer: stores in their order, and what happens when one fails."""

import functools
import signal
import threading

import numpy as np
import pyopencl as cl
import pytest

import kcl
from kcl.base import settings
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.faults import CacheWarning
from kcl.cache.key import Key, Part
from kcl.cache.layer import Answer, Layer, Memory
from kcl.cache.stores.directory import Directory
from kcl.errors import CacheFault

KEY = Key([Part("number", "1")])
ENTRY = Entry(KEY, {"kernel": "one"}, {"text": b"1"})


def layer(*stores):
    """Return a layer of these stores, which keeps nothing in memory of what it reads."""
    return Layer("numbers", {}, list(stores), settings.read(), keeps_read=False)


@pytest.fixture
def directories(tmp_path):
    """Two directories."""
    return [Directory(tmp_path / name) for name in ("near", "far")]


class TestStores:
    def test_written_to_the_first_writable(self, directories, tmp_path):
        """An entry is published to the first store that is writable, and removed from every such store."""
        site = Directory(tmp_path / "site")
        site.put(KEY.digest, ENTRY.pack())
        directories[1].put(KEY.digest, ENTRY.pack())
        site.writable = False
        stores = [site, *directories]
        found = layer(*stores)
        found.publish(KEY.digest, ENTRY)
        assert [list(store.scan()) for store in stores] == [[KEY.digest]] * 3
        found.delete(KEY.digest)
        assert [list(store.scan()) for store in stores] == [[KEY.digest], [], []]

    @pytest.mark.faults
    def test_damaged_where_nothing_is_written(self, tmp_path):
        """A damaged entry of a store that is not writable is a miss with a warning that names it, and stays."""
        site = Directory(tmp_path / "site")
        site.put(KEY.digest, b"torn")
        site.writable = False
        words = f"site/{KEY.digest} is left out.*tell the owner of the site"
        with pytest.warns(CacheWarning, match=words):
            assert layer(site).look_up(KEY.digest, KEY).outcome == "miss"
        assert list(site.scan()) == [KEY.digest]

    def test_read_from_the_first_that_has_it(self, directories):
        directories[1].put(KEY.digest, ENTRY.pack())
        found = layer(*directories)
        assert found.look_up(KEY.digest, KEY)[:3] == (ENTRY, "hit", "")
        assert found.read(KEY.digest) == ENTRY
        assert found.read("0" * 64) is None

    @pytest.mark.faults
    def test_one_that_cannot_be_used(self, directories, tmp_path):
        """A store whose directory is refused drops out with one warning; the others go on."""
        (tmp_path / "near").mkdir(mode=0o777)
        (tmp_path / "near").chmod(0o777)
        found = layer(*directories)
        with pytest.warns(CacheWarning, match="goes on without"):
            found.publish(KEY.digest, ENTRY)
        assert found.stores == directories[1:]
        found.publish(KEY.digest, ENTRY)
        found.memory.clear()
        assert found.look_up(KEY.digest, KEY).outcome == "hit"

    def test_memory_alone(self):
        """A layer without a store keeps what is published, as long as it lives or until it is deleted."""
        found = Layer("numbers", {}, [], settings.read(), place="nowhere")
        found.publish(KEY.digest, ENTRY)
        assert found.look_up(KEY.digest, KEY).outcome == "hit"
        found.delete(KEY.digest)
        assert found.look_up(KEY.digest, KEY).outcome == "miss"


def test_the_oldest_of_many_go(monkeypatch):
    monkeypatch.setattr("kcl.cache.layer._KEPT", 3)
    memory = Memory()
    for number in "12345":
        memory.put(number, Answer(ENTRY, "hit", "", 1))
    assert list(memory) == ["3", "4", "5"]


class Full(Directory):
    """A directory on a device that is full and cannot be read."""

    def get(self, address):
        raise OSError(5, "Input/output error", address)

    def put(self, address, _blob):
        raise OSError(28, "No space left on device", address)


class Slow(Directory):
    """A directory in which a signal comes."""

    def get(self, address):
        signal.raise_signal(signal.SIGUSR1)
        return super().get(address)


class TestFaults:
    @pytest.mark.faults
    def test_others_go_on(self, directories, tmp_path):
        """A fault of one store is said, and the next one is read; the store is tried again next time."""
        full = Full(tmp_path / "full")
        directories[1].put(KEY.digest, ENTRY.pack())
        found = layer(full, directories[1])
        with pytest.warns(CacheWarning, match="could not write"):
            assert found.publish(KEY.digest, ENTRY) == len(ENTRY.pack())
        found.memory.clear()
        with pytest.warns(CacheWarning, match="could not read"):
            assert found.look_up(KEY.digest, KEY).outcome == "hit"
        assert found.stores == [full, directories[1]]

    @pytest.mark.faults
    def test_alone(self, tmp_path):
        """Where no store answers and one is at fault, the look-up is an error and no miss."""
        with pytest.warns(CacheWarning, match="could not read"):
            entry, outcome, reason, *_ = layer(Full(tmp_path / "full")).look_up(KEY.digest, KEY)
        assert (entry, outcome) == (None, "error")
        assert "Input/output error" in reason

    def test_strict(self, directories, tmp_path, monkeypatch):
        """KCL_STRICT=fault raises what would be said once."""
        monkeypatch.setenv("KCL_STRICT", "fault")
        (tmp_path / "near").write_text("no directory")
        with pytest.raises(CacheFault):
            layer(directories[0]).publish(KEY.digest, ENTRY)

    @pytest.mark.parametrize(
        "form",
        [
            *("function", "method", "any", "replaced", "deleted", "keywords", "partial"),
            *("object", "replaced any"),
        ],
    )
    def test_of_a_handler(self, tmp_path, form):
        """What a handler of a signal raises is the program's, such as a time-out, and no fault of a store."""

        def expire(_number, _frame):
            raise TimeoutError("the program's")

        class Alarm:
            def ring(self, number, frame):
                expire(number, frame)

            def any(*_given, words="the program's"):
                raise TimeoutError(words)

            def __call__(self, *_given):
                raise TimeoutError("the program's")

            def deleted(self, number, frame):
                del number, frame
                raise TimeoutError("the program's")

        def replaced(_number, _frame):
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            raise TimeoutError("the program's")

        def replaced_any(*_given):
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            raise TimeoutError("the program's")

        def keywords(*_given, words="the program's"):
            raise TimeoutError(words)

        alarm = Alarm()
        handler = {
            "function": expire,
            "method": alarm.ring,
            "any": alarm.any,
            "replaced": replaced,
            "deleted": alarm.deleted,
            "keywords": keywords,
            "object": alarm,
            "replaced any": replaced_any,
            "partial": functools.partial(functools.partial(alarm.deleted)),
        }[form]
        before = signal.signal(signal.SIGUSR1, handler)
        try:
            with pytest.raises(TimeoutError, match="the program's"):
                layer(Slow(tmp_path / "slow")).look_up(KEY.digest, KEY)
        finally:
            signal.signal(signal.SIGUSR1, before)

    @pytest.mark.faults
    def test_of_another_key(self, directories):
        """An entry at the place of another key is damage: it is set aside and not found again."""
        other = Key([Part("number", "2")])
        directories[0].put(other.digest, ENTRY.pack())
        found = layer(directories[0])
        with pytest.warns(CacheWarning, match="set a damaged entry"):
            assert found.look_up(other.digest, other).outcome == "error"
        assert found.look_up(other.digest, other).outcome == "miss"


class TestDisabled:
    """`kcl.disabled` switches layers off in a block."""

    def test_block(self):
        """Only the named layer is off, and only in the block and in its thread; blocks add up; all are off by default."""
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append(layers.binary().off()))
        with kcl.disabled("binary"):
            off = [bool(layers.layer(name).off()) for name in settings.LAYERS]
            assert off == [False, True, False]
            with kcl.disabled("generator"):
                assert layers.generator().off() == layers.binary().off() == "kcl.disabled()"
            assert not layers.generator().off()
            with kcl.disabled():
                assert all(layers.layer(name).off() for name in settings.LAYERS)
            thread.start()
            thread.join()
        assert not layers.binary().off()
        assert elsewhere == [""]

    def test_unknown(self):
        words = "shapes is no layer: generator, binary, tuning"
        with pytest.raises(ValueError, match=words), kcl.disabled("shapes"):
            raise AssertionError

    @pytest.mark.one_platform
    def test_what_the_block_makes_is_not_stored_and_is_right(self, context):
        queue = cl.CommandQueue(context)
        with kcl.disabled():
            assert launched(queue, 3) == [3] * 4
        assert list(kcl.entries()) == []
        another = cl.Context(context.devices)  # in the first one the program lives
        assert launched(cl.CommandQueue(another), 3) == [3] * 4
        assert [kcl.stats()[layer]["misses"] for layer in settings.LAYERS] == [1, 1, 0]


@kcl.kernel
def scaled(factor):
    """Multiply."""
    text = f"kernel void scaled(global float *x) {{ x[get_global_id(0)] *= {factor}; }}"
    return kcl.Source(
        text, entry="scaled", arguments=[kcl.Array("x", np.float32, 4, "inout")], global_size=4
    )


def launched(queue, factor):
    """Launch a new Kernel of `scaled`."""
    _event, (x,) = scaled(factor)(queue, x=np.ones(4, np.float32))
    return x.tolist()
