"""kcl.bundle.contents: what a bundle takes from the layers, and what it brings into them."""

import pytest

from kcl.bundle import contents
from kcl.bundle.format import write
from kcl.bundle.info import CacheInfo
from kcl.cache import layers
from kcl.cache.entry import Entry
from kcl.cache.key import Key, Part
from kcl.cache.stores import address
from kcl.inspect import purge


def row(number: int, **metadata) -> Entry:
    about = {"front_end": "loopy", **metadata}
    return Entry(Key([Part("number", str(number))]), about, {"source.cl": b"kernel"})


def program(number: int, binary: bytes = b"code", **metadata) -> Entry:
    key = Key([Part("options", ""), Part("number", str(number))])
    return Entry(key, {"kernel": "k", "complete": True, **metadata}, {"binary": binary})


ROW = {"sizes": [8], "dtypes": {}, "variant": "", "level": 1, "day": "1"}  # of a table of choices


def place(entry: Entry) -> str:
    return address(entry.key.digest, "pocl-znver3", "k")


def bundle(*records: tuple[str, str, Entry]) -> bytes:
    return write([(kind, at, entry.pack(in_pieces=False)) for kind, at, entry in records])


class TestUsed:
    def test_gone(self):
        """An entry that was used and is gone is left out; a program whose entry never came is named."""
        layers.generator().publish(row(1).key.digest, row(1))
        layers.generator().delete(row(1).key.digest)
        layers.binary().look_up(place(program(1)), program(1).key)
        info, words = CacheInfo(), "it is not complete: run kcl flush, then save again"
        assert contents.collect_used(info) == {}
        assert info.left_out == [(program(1).key.digest, words)]

    @pytest.mark.parametrize(
        ("parts", "words"),
        [
            ([("options", "-cl-fast-relaxed-math -g")], "debug information"),
            ([("options", "'-gline-tables-only' -DA")], "debug information"),
            ([("options", ""), ("variable POCL_EXTRA_BUILD_FLAGS", "-g")], "debug information"),
            ([("options", ""), ("header paths", "1" * 64)], "__FILE__"),
            ([("options", "-DG=-1")], ""),
            ([("options", "-cl-mad-enable")], ""),
            ([("options", "-DNAME='x -y'")], ""),
        ],
    )
    def test_stays_at_home(self, parts, words):
        """A program that names directories of its builder stays at home, and the report says why; others travel."""
        entry, entries, info = Entry(Key(parts), {}, {"binary": b"code"}), {}, CacheInfo()
        contents.add(entries, "binary", place(entry), entry, info)
        assert bool(entries) is not bool(words)
        assert [digest for digest, _reason in info.left_out] == [entry.key.digest] * bool(words)
        assert all(words in reason for _digest, reason in info.left_out)

    def test_too_large(self, monkeypatch):
        monkeypatch.setattr(contents, "ENTRY_LIMIT", 1000)
        entries = [program(1), program(2, binary=bytes(1000))]
        info = CacheInfo()
        contents.pack({("binary", place(one)): one for one in entries}, info)
        assert info.binary_artifacts == [program(1).key.digest]
        assert [digest for digest, _reason in info.left_out] == [entries[1].key.digest]


class TestStore:
    def test_entries(self):
        """Entries are published in the layer of their kind, and count as used."""
        code, binary = row(1), program(1)
        entries = {("generator", code.key.digest): code, ("binary", place(binary)): binary}
        info = contents.load(bundle(*[(*at, entry) for at, entry in entries.items()]))
        assert info.artifacts == {"binary": [binary.key.digest], "generator": [code.key.digest]}
        assert contents.collect_used(CacheInfo()) == entries
        layers.reset()
        assert layers.binary().read(place(binary)) == binary

    def test_wrong_address(self):
        """An entry at a wrong address or of another layer is refused, one of an unknown kind is counted; others come."""
        entries = [("generator", at, row(1)) for at in (row(2).key.digest, "../../etc/passwd", "x")]
        info = contents.load(bundle(*entries, ("generator", row(3).key.digest, row(3))))
        assert info.generator_artifacts == [row(3).key.digest]
        assert len(info.refused) == 3
        assert not any(layers.generator().read(one.key.digest) for one in (row(1), row(2)))
        wrong = ("binary", place(row(1)), row(1)), ("generator", place(program(1)), program(1))
        info = contents.load(bundle(*wrong))
        assert info.empty()
        refused = [f"this is no entry of the {layer} layer" for layer in ("binary", "generator")]
        assert sorted(reason for _digest, reason in info.refused) == refused
        data = write([("readings", "anything", b"?"), ("readings", "else", b""), *()])
        info = contents.load(data)
        assert (info.skipped, info.refused, info.empty()) == ({"readings": 2}, [], True)

    def test_strange_metadata(self):
        """Metadata of any form is no fault: it decides nothing before a look-up."""
        layers.binary().publish(place(program(1)), program(1, specialisations={"k": ["1"]}))
        for number, sizes in enumerate((7, {"k": 7}, {"k": [{}, []]}, [])):
            strange = program(1, specialisations=sizes, proven=[], complete="yes", unit=["../.."])
            rows = [row(number, unit=7, proven=7), row(10 + number, unit="../../x")]
            records = [("generator", one.key.digest, one) for one in rows]
            info = contents.load(bundle(("binary", place(strange), strange), *records))
            assert (info.refused, len(info.generator_artifacts)) == ([], 2)
        assert len(contents.collect_used(CacheInfo())) == 9

    @pytest.mark.parametrize(
        ("variable", "stored"),
        [
            ("KCL_NO_CACHE", []),
            ("LOOPY_NO_CACHE", ["binary", "opencl"]),
            ("PYOPENCL_NO_CACHE", ["loopy"]),
        ],
    )
    def test_layer_that_is_off(self, monkeypatch, variable, stored):
        """What belongs to a layer that is off is not stored; the report names the switch."""
        monkeypatch.setenv(variable, "1")
        rows = {"loopy": row(1), "opencl": row(2, front_end="opencl")}
        records = [("generator", place(one), one) for one in rows.values()]
        info = contents.load(bundle(*records, ("binary", place(program(1)), program(1))))
        named = {one.key.digest: name for name, one in {**rows, "binary": program(1)}.items()}
        found = [named[digest] for digests in info.artifacts.values() for digest in digests]
        assert sorted(found) == stored
        assert all(variable in reason for _digest, reason in info.left_out)
        assert len(info.left_out) == 3 - len(stored)

    @pytest.mark.parametrize(
        ("before", "came", "signers"),
        [
            (None, row(1), ["b"]),  # a new entry
            (row(1), row(1), None),  # one that was made here
            (row(1, signers=["a"]), row(1), ["a", "b"]),  # one that came under another key
            (row(1, signers=["b"]), row(1), ["b"]),
            (row(1, proven={"a": []}), row(1, proven={"b": []}), ["b"]),  # one that was joined
            (row(1, signers=["a"], rows=[ROW]), row(1, rows=[{**ROW, "day": "2"}]), ["a", "b"]),
            (None, row(1, signers=["a", 7]), ["b"]),  # what the entry says itself
            (row(1, signers={"a": 7}), row(1), {"a": 7}),  # what no kcl has written
        ],
    )
    def test_signer(self, before, came, signers):
        """An entry that comes in a pack names all keys under which it, or a part of it, came."""
        place = ("generator", row(1).key.digest)
        if before is not None:
            layers.generator().publish(place[1], before)
        contents.load(bundle((*place, came)), signer="b")
        assert layers.generator().read(place[1]).metadata.get("signers") == signers
        layers.reset()
        signed = isinstance(signers, list)
        places = {(entry.layer, entry.address): ids for entry, ids in purge.list_signed([])}
        assert places == ({place: signers} if signed else {})
        removal = purge.carry_out(signer="b")
        assert (sum(len(item.addresses) for item in removal.items), removal.refusals) == (
            signed,
            [],
        )
        assert (layers.generator().read(place[1]) is None) == signed


def sized(*sizes, **metadata) -> Entry:
    return program(1, specialisations={"k": [*sizes]}, **metadata)


class TestImprove:
    @pytest.mark.parametrize(
        ("before", "new", "is_better"),
        [
            (row(1), row(1, created=2), False),
            (sized("8-1-1", created=1), sized("8-1-1", created=2), False),
            (sized("8-1-1"), sized("8-1-1", "4-1-1"), True),
            (sized("8-1-1"), program(1, specialisations={"k": ["8-1-1"], "l": ["8-1-1"]}), True),
            (sized("8-1-1", "4-1-1"), sized("8-1-1"), False),
            (sized("8-1-1"), sized("2-1-1"), False),
            (program(1, complete=False), program(1), True),
            (program(1), sized("8-1-1", complete=False), False),
        ],
    )
    def test_programs(self, before, new, is_better):
        """An entry stays beside one with the same code, less or other code; one with more, or complete, is better."""
        assert contents.improve(before, new) is (new if is_better else None)

    def test_proofs(self):
        before, new = row(1, proven={"a": [], "b": []}), row(1, proven={"b": [], "c": []})
        joined = contents.improve(before, new)
        assert joined is not None
        assert joined.metadata["proven"].keys() == {"a", "b", "c"}
        assert contents.improve(joined, new) is None
