"""kcl.frontends.pytato.graph: the digest of a graph, with a small language of arrays that lies beside this test."""

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest

from kcl.errors import RecipeError, UnknownInput
from kcl.frontends.pytato.graph import digest


def of(value):
    return digest(value).digest


def test_equal_graphs_have_one_digest_and_their_data_in_order(pt):
    def graph(data):
        x = pt.make_placeholder("x", 4)
        return pt.make_dict_of_named_arrays({"a": pt.Sum((x, data)), "b": pt.Scaled(x, 2.0)})

    first, second = np.zeros(4), np.ones(4)
    found = [digest(graph(pt.make_data_wrapper(one))) for one in (first, second)]
    assert found[0].digest == found[1].digest
    assert [found[0].data[0] is first, found[1].data[0] is second] == [True, True]


SCALARS = [
    *(kind(1) for kind in (bool, int, float, complex, str, np.bool_)),
    *(kind(1) for kind in (np.int32, np.int64, np.float32, np.float64)),
    *(None, 0.0, -0.0, 0, False, float("nan"), -float("nan"), float("inf"), b"1", (1,), [1], 2**70),
]


def test_scalars_count_by_type_and_value(pt):
    x = pt.make_placeholder("x", 4)
    found = [of(pt.Scaled(x, one)) for one in SCALARS]
    assert len({*found}) == len(SCALARS)


def variants(pt):
    """Graphs of which no two are equal."""
    x, y = pt.make_placeholder("x", 4), pt.make_placeholder("y", 4)
    a, b = np.zeros(8), np.zeros(8)
    data, other = pt.make_data_wrapper(a), pt.make_data_wrapper(b)
    tag, axis = frozenset({"t"}), (pt.Axis(frozenset({"t"})),)
    yield pt.Sum((x, y))
    yield pt.Sum((y, x))
    yield pt.Sum((x, x))
    yield pt.Sum((x, pt.make_placeholder("x", 4)))
    yield pt.Sum((x,))
    yield pt.Sum([x, y])
    yield pt.Sum((pt.Sum((x,)), y))
    yield pt.Sum((x, y), tags=tag)
    yield pt.Sum((x, y), axes=axis)
    yield pt.Sum((x, pt.make_placeholder("y", 5)))
    yield pt.Sum((x, pt.make_placeholder("y", 4, np.float32)))
    yield pt.Sum((x, pt.make_placeholder("y", 4, np.dtype(np.float64).newbyteorder())))
    yield pt.Sum((data, data))
    yield pt.Sum((data, other))
    yield pt.Sum((data, pt.make_data_wrapper(a)))
    yield pt.Sum((data, pt.make_data_wrapper(a[:])))
    yield pt.Sum((data, pt.make_data_wrapper(b.astype(np.float32))))
    yield pt.Sum((data, pt.make_data_wrapper(np.zeros(16)[::2])))
    yield pt.Sum((data, x))
    yield pt.Sum((x, data))
    yield pt.make_dict_of_named_arrays({"a": x, "b": y})
    yield pt.make_dict_of_named_arrays({"b": y, "a": x})
    yield pt.make_dict_of_named_arrays({"a": y, "b": x})
    yield pt.make_dict_of_named_arrays({"a": x})
    yield x, y
    yield x, type(x).__mro__[1]
    yield x, pt.Axis


def test_any_difference_of_a_graph_changes_its_digest(pt):
    found = [of(one) for one in variants(pt)]
    assert len({*found}) == len(found)


def test_a_graph_without_its_data_counts_as_before_and_holds_none_of_them(pt):
    def facts(one):
        return one.shape, one.dtype, one.strides, isinstance(one, np.ndarray)

    def released(graph):
        whole = digest(graph)
        bare = whole.without_data()
        assert bare.digest == digest(bare.root).digest == whole.digest
        assert bare.parts == whole.parts
        assert [*map(facts, bare.data)] == [*map(facts, whole.data)]
        return bare.data, [weakref.ref(one) for one in whole.data]

    for stand_ins, data in [released(graph) for graph in variants(pt)]:
        gc.collect()
        assert [one() for one in data] == [None] * len(data)
        for one in stand_ins:
            assert one.dtype in (np.float64, np.float32)
            with pytest.raises(RecipeError, match="asks for 'strides' of data"):
                one.strides  # noqa: B018


def test_a_graph_without_its_data_keeps_what_is_shared(pt):
    data = pt.make_data_wrapper(np.zeros(4))
    first, second = pt.Sum((data, data)), pt.make_data_wrapper(data.data)
    made = digest(
        pt.make_dict_of_named_arrays({"a": first, "b": pt.Scaled(first, second)})
    ).without_data()
    outputs = made.root._data
    assert outputs["b"].array is outputs["a"]
    assert outputs["a"].arrays[0] is outputs["a"].arrays[1] is not outputs["b"].factor
    assert outputs["a"].arrays[0].data is outputs["b"].factor.data
    assert data.data is second.data


def test_tags_that_do_not_count_in_equality_make_no_difference(pt):
    x = pt.make_placeholder("x", 4)
    made = pt.Sum((x,), non_equality_tags=frozenset({"made here"}))
    assert of(made) == of(pt.Sum((x,)))


def test_nothing_reads_data(pt):
    class Forbidden(np.ndarray):
        def __getitem__(self, key):
            raise AssertionError("data was read")

    with pytest.raises(UnknownInput, match="data of class"):
        of(pt.make_data_wrapper(np.zeros(4).view(Forbidden)))


def test_what_has_no_text_has_no_digest(pt):
    x = pt.make_placeholder("x", 4)

    class Own(type(x)):
        """A node of the program."""

    class Code:
        def __eq__(self, other):
            return True

        __hash__ = None

    own = Own("x", (4,), x.dtype)
    for value in (own, iter(()), Code(), lambda: 1, np.dtype([("a", int)])):
        with pytest.raises(UnknownInput):
            of(pt.Scaled(x, value))
    with pytest.raises(UnknownInput, match="a set holds a node"):
        of(pt.Scaled(x, frozenset({x})))


def test_what_explains_a_large_graph_is_bounded(pt):
    x = pt.make_placeholder("x", 4)

    def explained(last, terms):
        long = tuple(f"an entry of the tag {number}" for number in range(terms))
        parts = [pt.Scaled(x, 2, tags=(number, *long)) for number in range(terms)]
        return digest(pt.Sum((*parts, pt.Scaled(x, 2, tags=(*long, last))))).parts

    small, large = explained(1, 100), explained(1, 500)
    for parts in (small, large):
        assert 20_000 < sum(len(one.name) + len(one.value) for one in parts) <= 30_000
        assert max(len(one.value) for one in parts) < 1_100
    assert explained(1, 20) != explained(2, 20)
    assert len({one.name for one in explained(1, 20)}) > 1


def test_a_deep_graph_has_a_digest(pt):
    def chain(length):
        found = pt.make_placeholder("x", 4)
        for _ in range(length):
            found = pt.Scaled(found, 1.0)
        return found

    assert of(chain(20_000)) == of(chain(20_000)) != of(chain(20_001))


def test_a_long_value_that_shares_its_parts_takes_linear_time(pt):
    value = ("a", 1.0)
    for _ in range(200):
        value = (value, value)
    x = pt.make_placeholder("x", 4)
    assert of(pt.Scaled(x, value)) != of(pt.Scaled(x, (value, value)))


def test_a_graph_that_shares_nodes_takes_a_line_for_each(pt):
    found = pt.make_placeholder("x", 4)
    for _ in range(200):
        found = pt.Sum((found, found))
    assert of(found)


def test_the_digest_is_the_same_in_every_process(child):
    program = """
        import json, sys
        sys.path.insert(0, sys.argv[1])
        import pytato as pt
        from kcl.frontends.pytato.graph import digest
        axis = pt.Axis(frozenset({"f", "g", "h"}))
        tags = frozenset({"a", "b", "c", ("d", 1), frozenset({1, 2.0, "e"}), axis})
        print(json.dumps(digest(pt.make_placeholder("x", 4, tags=tags)).digest))
        """
    language = str(Path(__file__).parent / "language")
    assert len({child.json(program, language, PYTHONHASHSEED=seed) for seed in "123"}) == 1
