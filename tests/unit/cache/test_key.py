"""kcl.cache.key: encoding, digest and difference of keys."""

import copy
import hashlib
import pickle

import pytest
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
    def test_grammar(self):
        """The bytes are the count, then every name and value behind its length; the digest is their SHA-256 in hex."""
        key = Key([("ab", "c")])
        assert key.encode() == b"\1\0\0\0\2\0\0\0ab\1\0\0\0c"
        assert key.digest == hashlib.sha256(key.encode()).hexdigest()

    @given(keys, keys)
    def test_equal_exactly_if_the_encodings_are(self, one, other):
        assert (one.encode() == other.encode()) == (one == other)

    def test_only_texts(self):
        for value in (1, b"x", None):
            with pytest.raises(TypeError, match="texts only"):
                Key([("name", value)]).encode()  # type: ignore[list-item]


class TestEquality:
    def test_pairs_and_parts_are_equal(self):
        assert Key([("a", "b")]) == Key([Part("a", "b")])
        assert hash(Key([("a", "b")])) == hash(Key([Part("a", "b")]))

    def test_copy_and_pickle(self):
        key = Key([("a", "b")])
        assert copy.copy(key) == key == pickle.loads(pickle.dumps(key))

    def test_the_repr_shows_the_start_of_the_digest_and_shortened_values(self):
        key = Key([("islpy", "2025.2"), ("code", "f" * 64)])
        assert repr(key).startswith(f"<Key {key.digest[:12]}: islpy='2025.2', code='fff")
        assert "f" * 41 not in repr(key)


class TestDiff:
    def test_changed_added_removed(self):
        """Changed and removed parts come in this key's order, then the added ones."""
        before = Key([("gone", "1"), ("same", "s"), ("islpy", "2025.2.4")])
        after = Key([("new", "n"), ("islpy", "2025.2.5"), ("same", "s")])
        assert before.diff(after) == [
            Difference("gone", "1", None),
            Difference("islpy", "2025.2.4", "2025.2.5"),
            Difference("new", None, "n"),
        ]

    def test_parts_of_one_name_are_compared_occurrence_by_occurrence(self):
        before, after = (Key([("inc", value) for value in values]) for values in ("12", "134"))
        assert before.diff(after) == [Difference("inc", "2", "3"), Difference("inc", None, "4")]

    def test_keys_that_differ_in_the_order_of_their_parts_say_so(self):
        parts = [("a", "1"), ("b", "2")]
        assert Key(parts).diff(Key(parts[::-1])) == [Difference("(order)", "a, b", "b, a")]

    @given(similar_keys, similar_keys)
    def test_empty_exactly_for_equal_keys(self, one, other):
        assert (one.diff(other) == []) == (one == other)

    @given(similar_keys, similar_keys)
    def test_the_other_direction_is_mirrored(self, one, other):
        mirrored = [Difference(name, after, before) for name, before, after in other.diff(one)]
        assert sorted(one.diff(other), key=repr) == sorted(mirrored, key=repr)
