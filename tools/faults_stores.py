"""Rows of the matrix that need no OpenCL: entries, stores and layers in this process, and crowds of processes.

Each row is a function that prepares a folder and returns the case: number and dice -> what came of it. An outcome that
begins with a word of `BAD` is a failure.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import time
import warnings
from collections import Counter
from collections.abc import Callable

from faults_rows import BAD

from kcl.base import process
from kcl.cache import entry as entries
from kcl.cache import layers, places
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.layer import Layer
from kcl.cache.lead import Lead
from kcl.cache.stores import address
from kcl.cache.stores.directory import TEMPORARY_AGE, Directory
from kcl.cache.stores.sqlite import Rows
from kcl.errors import CacheFault, DamagedEntry

Case = Callable[[int, random.Random], "str | Counter[str]"]
_REFUSALS = (OSError, sqlite3.Error, CacheFault)
LAST_SECONDS = 600.0  # of an operation that takes a millisecond alone: no load makes it stuck


def made(number: int, size: int = 2000) -> Entry:
    """Return the entry of a number; its parts follow from its key."""
    key = Key([Part("source", f"kernel {number}"), Part("device", "none"), Part("options", "")])
    dice = random.Random(number)
    parts = {"source.cl": b"kernel void f(){}\n" * (size // 20), "binary": dice.randbytes(size)}
    return Entry(key, {"kernel": f"k{number}", "seconds": 0.5, "created": 1.0}, parts)


def address_of(entry: Entry) -> str:
    """Return where an entry lies."""
    return address(entry.key.digest, "device", "kernel")


def fresh(folder: pathlib.Path) -> Layer:
    """Return the binary layer of a folder, with nothing in memory."""
    os.environ["KCL_CACHE_DIR"] = str(folder)
    process.reset()
    warnings.simplefilter("ignore")
    return layers.binary()


def forked(work: Callable[[], str], seconds: float = 60.0) -> str:
    """Return what a forked process says, or the signal that ended it; one that takes too long is stuck."""
    pid, reader = begun(work)
    return ended(pid, reader, seconds)


def begun(work: Callable[[], str]) -> tuple[int, int]:
    """Fork a process; returns its id, and the descriptor that its word comes through."""
    import atexit

    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    try:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 2)
        try:
            word = work()
        except BaseException as error:
            word = f"exception: {error!r}"
        atexit._run_exitfuncs()
        os.write(writer, word.encode()[:4000])
    finally:
        os._exit(0)


def ended(pid: int, reader: int, seconds: float) -> str:
    """Wait for a forked process; see `forked`."""
    end, status = time.monotonic() + seconds, 0
    while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(reader)
            return f"stuck: for {seconds:g} seconds"
        time.sleep(0.002)
    status = os.waitpid(pid, 0)[1]
    with os.fdopen(reader, "rb") as stream:
        word = stream.read().decode()
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return word or "exception: a process said nothing"


# Entries


def bits(_folder: pathlib.Path) -> Case:
    """Flip every bit of a small entry, then bits of a large one by chance."""
    small, large = made(1, 60), made(2, 30_000)
    whole = small.pack(), large.pack()

    def case(index: int, dice: random.Random) -> str:
        entry, blob = (small, whole[0]) if index < 8 * len(whole[0]) else (large, whole[1])
        place = index if entry is small else dice.randrange(8 * len(blob))
        return _refused(entry, flipped(blob, place))

    return case


def flipped(blob: bytes, bit: int) -> bytes:
    """Return the bytes with one bit flipped."""
    damaged = bytearray(blob)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def _refused(entry: Entry, blob: bytes) -> str:
    try:
        Entry.unpack(blob, entry.key)
    except DamagedEntry:
        return "rejected"
    return "wrong: accepted"


def lengths(folder: pathlib.Path) -> Case:
    """Cut, extend, zero and swap the files of entries: the layer counts an error, and hits once replaced."""
    one, two = made(1), made(2)
    blob, other = one.pack(), two.pack()

    def case(index: int, dice: random.Random) -> str:
        kinds = [lambda: blob[: index % len(blob)], lambda: blob + dice.randbytes(1 + index % 64)]
        kinds += [lambda: _zeroed(blob, dice), lambda: other]
        kind = 0 if index < len(blob) else 1 + index % 3
        return replaced(fresh(folder / "cache"), one, kinds[kind]())

    return case


def _zeroed(blob: bytes, dice: random.Random) -> bytes:
    place = dice.randrange(len(blob) - 600)
    return blob[:place] + bytes(512) + blob[place + 512 :]


def wrong_payload(folder: pathlib.Path) -> Case:
    """Copy the entry of another key to the place of an entry."""

    def case(index: int, dice: random.Random) -> str:
        return replaced(
            fresh(folder / "cache"), made(index), made(index + 1 + dice.randrange(100)).pack()
        )

    return case


def other_device(folder: pathlib.Path) -> Case:
    """Edit each part of the key that an entry holds: another device, driver, processor, option or source."""
    one = made(1)

    def case(index: int, dice: random.Random) -> str:
        parts = list(one.key.parts)
        place = index % len(parts)
        edited = parts[place].value + dice.choice(["x", " ", "0", "\n"])
        parts[place] = Part(parts[place].name, edited)
        return replaced(
            fresh(folder / "cache"), one, Entry(Key(parts), one.metadata, one.parts).pack()
        )

    return case


def replaced(layer: Layer, entry: Entry, blob: bytes) -> str:
    """Put bad bytes in the place of an entry: one error is counted, nothing is returned, and the next look-up hits."""
    where, store = address_of(entry), layer.stores[0]
    store.put(where, blob)
    found = layer.look_up(where, entry.key)
    if found.entry is not None or found.outcome != "error":
        return f"wrong: {found.outcome}"
    if store.get(where) is not None:
        return "wrong: left in its place"
    layer.publish(where, entry)
    layer.memory.pop(where, None)
    again = layer.look_up(where, entry.key)
    return "rejected, replaced" if again.entry == entry else f"wrong: then {again.outcome}"


def corpus() -> list[bytes]:
    """Return what the fuzzer begins with: an entry of each shape that the format knows."""
    key = made(1).key
    shapes = [
        Entry(key, {}, {}),
        Entry(key, {}, {"binary": b""}),
        Entry(key, {"kernel": "k"}, {"binary": b"\0" * 100}),
        Entry(key, {"seconds": 1.5, "text": "ä\ud800"}, {"source.cl": b"x" * 9000}),
        Entry(
            key,
            {"deep": [[[[[{}]]]]]},
            {"a": b"1", "b": b"2" * 5000, "c": random.Random(1).randbytes(4000)},
        ),
        Entry(Key([]), {}, {"big": bytes(200_000)}),
        *(made(number, 400) for number in range(4)),
    ]
    return [shape.pack() for shape in shapes]


def fuzz(_folder: pathlib.Path) -> Case:
    """Mutate entries, in half of the cases with digests made to fit, and read them in each of the four ways."""
    kept, key = corpus(), made(1).key
    unread = DamagedEntry

    def case(_index: int, dice: random.Random) -> str:
        blob = mutated(dice.choice(kept), dice)
        if fits := dice.random() < 0.5:
            blob = _signed(blob, dice)
        said = []
        for read in (
            lambda: Entry.unpack(blob),
            lambda: Entry.unpack(blob, key),
            lambda: entries.header_end(blob),
            lambda: entries.key_from(entries.peek(blob, len(blob))[0]),
        ):
            try:
                read()
                said.append("read")
            except unread:
                said.append("rejected")
        if not fits and said[0] == "read" and blob not in kept:
            return "wrong: accepted"
        return said[0]

    return case


_NUMBERS = (0, 1, 255, 1 << 31, (1 << 63) - 1, (1 << 64) - 1)
_TEXTS = (b"[", b"{", b"]", b'"', b"\\ud800", b"1e999", b"-1", b"NaN", b"null", b",")


def mutated(blob: bytes, dice: random.Random) -> bytes:
    """Return the bytes after one to four changes."""
    found = bytearray(blob)
    for _ in range(dice.randrange(1, 5)):
        place, length = dice.randrange(len(found) + 1), dice.choice([1, 2, 4, 8, 64])
        kind = dice.randrange(6)
        if kind == 0 and found:
            found[place % len(found)] ^= 1 << dice.randrange(8)
        elif kind == 1:
            found[place : place + length] = dice.randbytes(length)
        elif kind == 2:
            del found[place : place + length]
        elif kind == 3:
            found[place:place] = found[place : place + length]
        elif kind == 4:
            found[place : place + 8] = dice.choice(_NUMBERS).to_bytes(8, "little")
        else:
            found[place:place] = dice.choice(_TEXTS)
    return bytes(found)


def _signed(blob: bytes, dice: random.Random) -> bytes:
    """Make lengths and digests fit, so that a mutation of the header reaches what parses it."""
    body = blob[entries.FIXED_SIZE :]
    end = blob.find(b'"parts":')
    length = (
        min(max(blob.find(b"]]", end) + 3 - entries.FIXED_SIZE, 0), len(body))
        if end > 0
        else len(body)
    )
    if dice.random() < 0.1:
        length = dice.randrange(len(body) + 1)
    lengths = b"kclentry" + entries.FORMAT.to_bytes(4, "little")
    lengths += length.to_bytes(8, "little") + (len(body) - length).to_bytes(8, "little")
    start = lengths + hashlib.sha256(lengths + body[:length]).digest()
    return start + hashlib.sha256(start + body).digest() + body


# The database


def database(folder: pathlib.Path) -> Case:
    """Flip, cut, overwrite and delete the file of the rows, open or not: rows are right or missing, then it works."""
    store = Rows(folder / "whole")
    kept = [made(number, 1500) for number in range(5)]
    for entry in kept:
        store.put(entry.key.digest, entry.pack())
    whole = pathlib.Path(store.location).read_bytes()

    def case(index: int, dice: random.Random) -> str:
        store = Rows(folder / str(index))
        path = pathlib.Path(store.location)
        path.parent.mkdir(0o700)
        path.write_bytes(whole)
        path.chmod(0o600)
        if dice.random() < 0.5:  # open while it happens
            store.get(kept[0].key.digest)
        damage(path, whole, dice)
        said = {_row(store, entry) for entry in kept}
        for entry in kept:
            _put(store, entry)
        again = Rows(path.parent)
        for entry in kept:
            _put(again, entry)
        said_then = {_row(again, entry) for entry in kept}
        shutil.rmtree(folder / str(index))
        if "wrong" in said | said_then:
            return "wrong"
        if said_then != {"right"}:  # the index of the table is damaged, and SQLite does not tell
            return "missed again"
        return "rows right" if said == {"right"} else "rebuilt"

    return case


def damage(path: pathlib.Path, whole: bytes, dice: random.Random) -> None:
    """Do something to a file that a user, a disk or another program may have done."""
    kind = dice.randrange(6)
    if kind == 0:
        found = bytearray(whole)
        for _ in range(dice.choice([1, 10, 100])):
            found[dice.randrange(len(found))] ^= 1 << dice.randrange(8)
        path.write_bytes(found)
    elif kind == 1:
        os.truncate(path, dice.randrange(len(whole)))
    elif kind == 2:
        path.write_bytes(dice.randbytes(dice.randrange(1, 20_000)))
    elif kind == 3:
        path.unlink()
    elif kind == 4:
        place = 512 * dice.randrange(len(whole) // 512)
        path.write_bytes(whole[:place] + bytes(4096) + whole[place + 4096 :])
    else:
        path.write_bytes(whole + dice.randbytes(dice.randrange(1, 9000)))


def _row(store: Rows, entry: Entry) -> str:
    """Read a row as a layer does: a damaged one is deleted."""
    where = entry.key.digest
    try:
        blob = store.get(where)
        if blob is None:
            return "missing"
        return "right" if Entry.unpack(blob, entry.key) == entry else "wrong"
    except _REFUSALS:
        with contextlib.suppress(*_REFUSALS):
            store.delete(where)
        return "refused"


def _put(store: Rows, entry: Entry) -> None:
    try:
        store.put(entry.key.digest, entry.pack())
    except _REFUSALS:
        pass


# Crowds


class Crowd:
    """Processes that get, put, delete and sweep the same entries, each counting what it does in shared memory."""

    KEYS = 50

    def __init__(self, folder: pathlib.Path, seed: int, number: int, rows: bool) -> None:
        self.folder, self.seed, self.rows = folder, seed, rows
        self.shared = mmap.mmap(-1, 8 * (number + 2))
        self.over = mmap.mmap(-1, 1)
        self.kept = [made(key, 300) for key in range(self.KEYS)]
        self.blobs = [entry.pack() for entry in self.kept]
        self.pids = [self.start(place) for place in range(number)]

    def start(self, place: int) -> int:
        """Start the process of a place, which works until the end, or until it is killed."""
        pid = os.fork()
        if pid:
            return pid
        try:
            self.work(place)
        except BaseException:
            self.add(len(self.pids_all()) - 1)
        os._exit(1)

    def pids_all(self) -> range:
        """Return the places of the shared numbers: one a process, then wrong ones, then exceptions."""
        return range(len(self.shared) // 8)

    def work(self, place: int) -> None:
        """Get mostly; put, delete and look around in between."""
        dice = random.Random(f"{self.seed} {os.getpid()}")
        store = Rows(self.folder) if self.rows else Directory(self.folder)
        while not self.over[0]:
            key = dice.randrange(self.KEYS)
            where, chance = (
                address_of(self.kept[key]) if not self.rows else self.kept[key].key.digest,
                dice.random(),
            )
            try:
                if chance < 0.12:
                    store.put(where, self.blobs[key])
                elif chance < 0.14:
                    store.delete(where)
                elif chance < 0.141 and not self.rows:
                    sum(1 for _ in store.scan())
                    store._sweep()
                else:
                    self.check(store.get(where), key)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):  # a busy database is a miss
                    raise
            self.add(place)

    def check(self, blob: bytes | None, key: int) -> None:
        """Count what is neither missing nor what was put."""
        if blob is not None and Entry.unpack(blob, self.kept[key].key) != self.kept[key]:
            self.add(len(self.pids_all()) - 2)

    def add(self, place: int) -> None:
        """Count one."""
        self.shared[8 * place : 8 * place + 8] = (self.at(place) + 1).to_bytes(8, "little")

    def at(self, place: int) -> int:
        """Return the count of a place; a number that is being written counts as it is."""
        return int.from_bytes(self.shared[8 * place : 8 * place + 8], "little")

    def kill(self, place: int) -> None:
        """Kill a process and start another one in its place."""
        os.kill(self.pids[place], signal.SIGKILL)
        os.waitpid(self.pids[place], 0)
        self.pids[place] = self.start(place)

    def end(self) -> Counter[str]:
        """Let each process end its operation; returns what they counted, and how many were stuck or died."""
        self.over[0] = 1
        until = time.monotonic() + LAST_SECONDS
        waiting, found = set(self.pids), Counter[str]()
        while waiting and time.monotonic() < until:
            time.sleep(0.01)
            for pid, status in [os.waitpid(pid, os.WNOHANG) for pid in waiting]:
                waiting.discard(pid)
                if os.WIFSIGNALED(status):
                    found[f"signal {os.WTERMSIG(status)}"] += 1
        for pid in waiting:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        *done, wrong, raised = [self.at(place) for place in self.pids_all()]
        found.update(operations=sum(done), wrong=wrong, exception=raised, stuck=len(waiting))
        return +found


def kills(folder: pathlib.Path) -> Case:
    """Kill one of 64 processes every 20 ms, 100 times; what they leave is swept, and what is there is right."""

    def case(index: int, dice: random.Random) -> Counter[str]:
        rows = index % 5 == 4
        place = folder / str(index)
        crowd = Crowd(place, index, 64, rows)
        for _ in range(100):
            time.sleep(0.02)
            crowd.kill(dice.randrange(64))
        found = crowd.end() + Counter({"kills": 100})
        if not rows:
            found += _swept(place)
        shutil.rmtree(place)
        return found

    return case


def _swept(folder: pathlib.Path) -> Counter[str]:
    """Let what was left grow old, and put once: nothing of it stays."""
    left = [path for path in folder.rglob("*") if path.name.startswith(places.TEMPORARY)]
    for path in left:
        os.utime(path, (time.time() - 2 * TEMPORARY_AGE,) * 2)
    Directory(folder).put(address_of(made(1)), made(1).pack())
    stayed = sum(path.exists() for path in left)
    return Counter({"leftovers swept": len(left) - stayed, "leak: leftovers": stayed})


def crowds(folder: pathlib.Path) -> Case:
    """64 processes get, put, delete and sweep 50 entries at once until there were 20,000 operations."""

    def case(index: int, _dice: random.Random) -> Counter[str]:
        place = folder / str(index)
        crowd = Crowd(place, index, 64, index % 10 == 9)
        until = time.monotonic() + 120
        while sum(map(crowd.at, range(64))) < 20_000 and time.monotonic() < until:
            time.sleep(0.02)
        found = crowd.end()
        shutil.rmtree(place)
        return found

    return case


def stops(folder: pathlib.Path) -> Case:
    """Stop the holder inside of a put, of a lead and of a transaction: another process loses a bounded time."""

    def case(index: int, _dice: random.Random) -> str:
        place = folder / str(index)
        kind = ("put", "lead", "transaction")[index % 3]
        pid, reader = begun(lambda: _holding(kind, place))
        while not os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT):
            time.sleep(0.005)
        try:
            said = forked(lambda: _beside(kind, place))
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(reader)
        if said.startswith(BAD):
            return said
        return f"went on, {kind}" if float(said) < 3.0 else f"stuck: {kind}, {said} s"

    return case


def _holding(kind: str, folder: pathlib.Path) -> str:
    layer, one = fresh(folder), made(1)
    if kind == "lead":
        with Lead("k") as lead:
            lead.take(layer, one.key.digest)
            os.kill(os.getpid(), signal.SIGSTOP)
    elif kind == "put":
        os.write = lambda *_: os.kill(os.getpid(), signal.SIGSTOP) or 0  # type: ignore[assignment,return-value]
        layer.publish(address_of(one), one)
    else:
        store = Rows(folder)
        store.put(one.key.digest, one.pack())
        with sqlite3.connect(store.location, isolation_level=None) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            os.kill(os.getpid(), signal.SIGSTOP)
    return "let go"


def _beside(kind: str, folder: pathlib.Path) -> str:
    """Return the seconds that the same thing takes beside the one that is stopped."""
    layer, one = fresh(folder), made(1)
    begin = time.monotonic()
    if kind == "lead":
        with Lead("k") as lead:
            lead.take(layer, one.key.digest)
    elif kind == "put":
        layer.publish(address_of(one), one)
        layer.memory.pop(address_of(one), None)
        if layer.look_up(address_of(one), one.key).entry != one:
            return "wrong: not put"
    else:
        store = Rows(folder)
        _row(store, one)
        _put(store, one)
    return f"{time.monotonic() - begin:.2f}"


# The system


def power(folder: pathlib.Path) -> Case:
    """Shut a mounted ext4 down while entries and rows are written, mount it again: right or missing, never wrong."""
    image, at = folder / "disk.img", folder / "mounted"
    at.mkdir(mode=0o700)
    with open(image, "wb") as stream:
        stream.truncate(64 << 20)
    if subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], capture_output=True).returncode:
        raise Unavailable("no mkfs.ext4")
    with mounted(["-o", "loop", str(image)], at):
        os.mkdir(at / "cache", 0o700)

    def case(_index: int, dice: random.Random) -> Counter[str]:
        with mounted(["-o", "loop", str(image)], at):
            crowd = Crowd(at / "cache" / "files", dice.randrange(1 << 30), 2, False)
            rows = Crowd(at / "cache" / "rows", dice.randrange(1 << 30), 2, True)
            time.sleep(0.05 + 0.3 * dice.random())
            _shut_down(at)
            for one in (*crowd.pids, *rows.pids):
                os.kill(one, signal.SIGKILL)
                os.waitpid(one, 0)
        with mounted(["-o", "loop", str(image)], at):
            return _left(at / "cache", crowd.kept)

    return case


def _shut_down(at: pathlib.Path) -> None:
    descriptor = os.open(at, os.O_RDONLY)
    try:
        fcntl.ioctl(
            descriptor, 0x8004587D, (2).to_bytes(4, "little")
        )  # EXT4_IOC_SHUTDOWN, the log is not flushed
    finally:
        os.close(descriptor)


def _left(folder: pathlib.Path, kept: list[Entry]) -> Counter[str]:
    """Read all after a loss of power, and put all again."""
    found: Counter[str] = Counter({"cycles": 1})
    files, rows = Directory(folder / "files"), Rows(folder / "rows")
    for entry in kept:
        try:
            blob = files.get(address_of(entry))
            whole = blob is None or Entry.unpack(blob, entry.key) == entry
            found["lost" if blob is None else "right" if whole else "wrong"] += 1
        except DamagedEntry:
            found["rejected"] += 1
        files.put(address_of(entry), entry.pack())
        found["wrong"] += _row(rows, entry) == "wrong"
        _put(rows, entry)
    if {_row(Rows(folder / "rows"), entry) for entry in kept} != {"right"}:
        found["cycles with rows missed again"] += 1  # as in `database`
    return +found


class Unavailable(Exception):
    """What a row needs and this machine lacks."""


class mounted:
    """Mount something for the length of a block."""

    def __init__(self, what: list[str], at: pathlib.Path) -> None:
        self.command, self.at = ["mount", *what, str(at)], at

    def __enter__(self) -> None:
        done = subprocess.run(self.command, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"cannot mount: {done.stderr.strip()}")

    def __exit__(self, *_: object) -> None:
        if subprocess.run(["umount", str(self.at)], capture_output=True).returncode:
            subprocess.run(["umount", "-l", str(self.at)], check=True)


def clocks(folder: pathlib.Path) -> Case:
    """Set the times of files and the clock to 1970, ten years on, or anything: what is within the bounds stays."""
    from kcl.inspect import purge, space

    real = time.time
    layer = fresh(folder / "cache")
    kept = [made(number, 300) for number in range(20)]

    def case(_index: int, dice: random.Random) -> str:
        for entry in kept:
            layer.publish(address_of(entry), entry)
            moment = dice.choice([0.0, real() + 10 * 365 * 86400.0, real() - dice.randrange(10**9)])
            os.utime(os.path.join(layer.place, address_of(entry)), (moment, moment))
        jump = dice.choice([-real(), 10 * 365 * 86400.0, -86400.0, dice.uniform(-1e9, 1e9)])
        time.time = lambda: real() + jump  # type: ignore[assignment]
        try:
            purge.remove(space.choose(10**9)[0], "a fault")
            left = sum(layer.stores[0].get(address_of(entry)) is not None for entry in kept)
        finally:
            time.time = real
        return "nothing went" if left == 20 else f"wrong: {20 - left} of 20 evicted"

    return case
