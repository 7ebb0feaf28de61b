"""kcl.cache.key: encoding, digest and difference of keys."""

import copy
import hashlib
import pickle

import pytest
from harness import Child
from hypothesis import given
from hypothesis import strategies as st

from kcl.cache.key import Key, Part
from kcl.cache.phrases import Difference

# lone surrogates included: file names and string parameters may hold them
texts = st.text(st.characters(exclude_categories=()), max_size=12)
keys = st.lists(st.tuples(texts, texts), max_size=8).map(Key)
# few names and values, so that names repeat and keys resemble each other
similar_keys = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), max_size=5).map(
    Key
)


class TestEncoding:
    def test_grammar(self) -> None:
        """The bytes are the count, then every name and value behind its length."""
        assert Key([("ab", "c")]).encode() == b"\1\0\0\0\2\0\0\0ab\1\0\0\0c"

    def test_digest_is_sha256_of_encoding(self) -> None:
        """The digest is the SHA-256 of the encoding in hex."""
        key = Key([("islpy", "2025.2.5")])
        assert key.digest == hashlib.sha256(key.encode()).hexdigest()

    @given(keys, keys)
    def test_injective(self, one: Key, other: Key) -> None:
        """Two keys have the same encoding exactly when they are equal."""
        assert (one.encode() == other.encode()) == (one == other)

    def test_only_texts(self) -> None:
        """A number or bytes in a key raise TypeError when it is encoded."""
        for value in (1, b"x", None):
            with pytest.raises(TypeError, match="texts only"):
                Key([("name", value)]).encode()  # type: ignore[list-item]

    def test_same_digest_in_other_processes(self, child: Child) -> None:
        """The digest depends neither on the hash seed nor on the working directory."""
        code = "from kcl.cache.key import Key; print(Key([('a', 'ü'), ('b', '\\ud800')]).digest)"
        runs = [
            child.python("-c", code, cwd=directory, PYTHONHASHSEED=seed)
            for seed, directory in (("0", "/"), ("1", child.directory))
        ]
        assert runs[0].stdout == runs[1].stdout != ""


class TestEquality:
    def test_pairs_and_parts_are_equal(self) -> None:
        """A key made of pairs equals one made of parts, and hashes alike."""
        assert Key([("a", "b")]) == Key([Part("a", "b")])
        assert hash(Key([("a", "b")])) == hash(Key([Part("a", "b")]))

    def test_copy_and_pickle(self) -> None:
        """Keys can be copied and sent to other processes."""
        key = Key([("a", "b")])
        assert copy.copy(key) == key == pickle.loads(pickle.dumps(key))

    def test_repr(self) -> None:
        """The repr shows the start of the digest and shortened values."""
        key = Key([("islpy", "2025.2"), ("code", "f" * 64)])
        assert repr(key).startswith(f"<Key {key.digest[:12]}: islpy='2025.2', code='fff")
        assert "f" * 41 not in repr(key)


class TestDiff:
    def test_changed_added_removed(self) -> None:
        """Changed and removed parts come in this key's order, then the added ones."""
        before = Key([("gone", "1"), ("same", "s"), ("islpy", "2025.2.4")])
        after = Key([("new", "n"), ("islpy", "2025.2.5"), ("same", "s")])
        assert before.diff(after) == [
            Difference("gone", "1", None),
            Difference("islpy", "2025.2.4", "2025.2.5"),
            Difference("new", None, "n"),
        ]

    def test_repeated_names(self) -> None:
        """Parts of one name are compared occurrence by occurrence."""
        before, after = (
            Key([("inc", "1"), ("inc", "2")]),
            Key([("inc", "1"), ("inc", "3"), ("inc", "4")]),
        )
        assert before.diff(after) == [Difference("inc", "2", "3"), Difference("inc", None, "4")]

    def test_order_only(self) -> None:
        """Keys that differ in the order of their parts say so."""
        before, after = Key([("a", "1"), ("b", "2")]), Key([("b", "2"), ("a", "1")])
        assert before.diff(after) == [Difference("(order)", "a, b", "b, a")]

    @given(similar_keys, similar_keys)
    def test_empty_exactly_for_equal_keys(self, one: Key, other: Key) -> None:
        """Nothing differs exactly when the keys are equal."""
        assert (one.diff(other) == []) == (one == other)

    @given(similar_keys, similar_keys)
    def test_mirrored(self, one: Key, other: Key) -> None:
        """The difference in the other direction has before and after swapped."""
        mirrored = [Difference(name, after, before) for name, before, after in other.diff(one)]
        assert sorted(one.diff(other), key=repr) == sorted(mirrored, key=repr)
