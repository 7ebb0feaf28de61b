"""Records: digests, the order of their chains, what they are described as, what changed since the call."""

import sys
import threading
import types

import numpy as np
import pytest

from kcl.errors import UnknownInput
from kcl.frontends.loopy import description, unmade
from kcl.frontends.loopy.moment import Moment
from kcl.frontends.loopy.record import CallSite, Record, ordered


def place(file, line):
    """Return the place of the only statement of some code."""
    code = compile("\n" * (line - 1) + "pass", file, "exec")
    return CallSite(types.SimpleNamespace(f_code=code, f_lasti=len(code.co_code) - 2, f_globals={}))


PLACE = place("/somewhere/driver.py", 7)
LONG = 1500


def call(function="make_kernel", *arguments, skips=None, **keywords):
    return Record(function, arguments, keywords, Moment(skips=skips), PLACE)


def unit(record):
    """Return the unit that stands for what a record gives."""
    return unmade.new(record)


def chain(length, root=None):
    """Return the last record of a chain of transformations."""
    last = root or call("make_kernel", "{[i]: 0<=i<n}", "a[i] = 1")
    for number in range(length):
        last = call("prioritize_loops", unit(last), f"i{number}")
    return last


class Listing:
    """Carries a record out as a list of the functions that led to it; keeps what was carried out."""

    def __init__(self):
        self.carried = []

    def __call__(self, record, arguments, keywords):
        self.carried.append(record)
        before = [item for value in arguments if isinstance(value, list) for item in value]
        return [*before, record.function, *keywords]


@pytest.fixture
def listing():
    return Listing()


class TestDigest:
    def test_every_part_of_a_call_counts(self):
        """Function, arguments, their names, their grouping and what loopy reads from the environment all decide."""
        calls = [
            *(call("f", 1, 2), call("g", 1, 2), call("f", 1), call("f", 1, 2, 3)),
            *(call("f", (1, 2)), call("f", [1, 2]), call("f", 1, b=2), call("f", 1, c=2)),
            *(call("f", 1, "b", 2), call("f", 1, b=2, c=2), call("f", 1, 2, skips="1")),
            call("f", "1", "2"),
        ]
        assert len({one.digest for one in calls}) == len(calls)

    def test_neither_the_place_nor_the_order_of_keywords_counts(self):
        one = Record("f", (1,), {"a": 1, "b": 2}, Moment(), PLACE)
        other = Record("f", (1,), {"b": 2, "a": 1}, Moment(), place("/elsewhere.py", 9))
        assert one.digest == other.digest

    def test_a_record_counts_by_its_digest(self):
        """What led to a unit counts; which object stands for it does not; a string that looks like it is no unit."""
        one, same, other = (call("make_kernel", text) for text in "aab")
        assert call("f", unit(one)).digest == call("f", unit(same)).digest
        others = [unit(other), f"<{one.digest}>", [unit(one)], [f"<{one.digest}>"]]
        assert len({call("f", value).digest for value in (unit(one), *others)}) == 5

    def test_containers_are_those_of_the_call(self):
        held = [1, {"a": [2]}]
        one = call("f", held)
        held[1]["a"].append(3)
        held.append(4)
        assert one.arguments == ([1, {"a": [2]}],)
        assert call("f", held).digest != one.digest

    def test_without_a_text(self):
        with open(__file__) as stream, pytest.raises(UnknownInput):
            call("f", stream)


class TestChains:
    def test_inputs_come_first(self, listing):
        """Records are carried out in the order of their calls, each once."""
        last, functions = chain(3), ["make_kernel", *["prioritize_loops"] * 3]
        assert last.made(listing) == last.made(listing) == functions
        assert [one.function for one in listing.carried] == functions

    def test_long_chains(self, listing):
        """A chain longer than Python's stack is digested, made, described and let go of."""
        assert sys.getrecursionlimit() < LONG
        last = chain(LONG)
        assert not last.changed()
        described = description.listing(last)
        assert described["result"] == LONG + 1
        assert described["calls"][-1]["arguments"][0][1] == f"call {LONG}"
        last.made(listing)
        assert len(listing.carried) == LONG + 1

    def test_diamonds(self, listing):
        """A root that two chains share is one call, and is carried out once; equal calls are described once."""
        root = call("make_kernel", "a")
        left, right, again = (
            call("rename_iname", unit(one), "i", name)
            for one, name in ((root, "j"), (root, "k"), (call("make_kernel", "a"), "j"))
        )
        units = [unit(one) for one in (left, right, again, left)]
        both = call("fuse_kernels", units, suffixes=["_l", "_r"])
        described = description.listing(both)
        functions = ["make_kernel", "rename_iname", "rename_iname", "fuse_kernels"]
        assert [one["function"] for one in described["calls"]] == functions
        assert described["calls"][3]["arguments"][0][1] == "[call 2, call 3, call 2, call 2]"
        both.made(listing)
        counts = [listing.carried.count(one) for one in (root, left, right, again, both)]
        assert counts == [1] * 5
        assert listing.carried[-1] is both

    def test_deep_diamonds(self):
        """A chain in which every record is used twice takes no time of the power of its length."""
        last = call("make_kernel", "a")
        for _ in range(300):
            last = call("fuse_kernels", [unit(last), unit(last)])
        assert len(ordered(last, lambda one: one.inputs)) == 301
        assert description.listing(last)["result"] == 301
        assert not last.changed()

    def test_an_error_is_raised_again(self):
        def failing(record, *_given):
            raise ValueError(record.function)

        one = call("f", 1)
        for _ in range(2):
            with pytest.raises(ValueError, match="f"):
                one.made(failing)
        assert not one.is_made


class TestChanged:
    @pytest.mark.parametrize(
        ("thing", "change", "spoils"),
        [
            (np.zeros(8), lambda array: array.fill(1), False),
            (["a"], lambda held: held.append("b"), True),
            ({"a": ["b"]}, lambda held: held["a"].clear(), True),
        ],
    )
    def test_arrays_and_objects(self, thing, change, spoils):
        """What loopy keeps by reference and was changed after the call is noticed, further up the chain, too."""
        root = call("make_kernel", [thing])
        root.wait(keeps_arguments=True)
        last = chain(3, root)
        assert not last.changed()
        change(thing)
        assert root.changed()
        assert last.changed()
        assert last.is_spoiled() is spoils

    def test_back_to_what_it_was(self):
        array = np.zeros(8)
        one = call("f", array)
        one.wait(keeps_arguments=True)
        array += 1
        array -= 1
        assert not one.changed()

    def test_exposed_in_between(self):
        """A program that gets parts of an input while a record makes itself known finds the record, and it counts."""
        found = []

        class Exposing(list):
            def append(self, link):
                super().append(link)
                thread = threading.Thread(target=lambda: found.extend(root.expose()))
                thread.start()
                thread.join()

        root = chain(1)
        root.dependents = Exposing()
        last = call("split_iname", unit(root))
        assert found[:2] == [root, last]
        assert last.exposed
        assert last.changed()

    def test_exposed_before(self):
        """A record whose input was exposed after its arguments were taken counts as one that was exposed."""

        class Late(list):
            def append(self, link):
                root.exposed = True
                super().append(link)

        root = chain(1)
        root.dependents = Late()
        assert call("split_iname", unit(root)).exposed

    def test_plain_values_cannot_change(self):
        assert call("f", 1, "a", [2, {"b": (3,)}], np.float32, {4}).rechecked == []

    def test_an_attribute_without_a_text(self):
        """An object that gets one after the call has changed; nothing is raised."""
        given = type("Text", (str,), {})("a[i] = 1")
        record = call("make_kernel", "{[i]: 0<=i<n}", given)
        assert not record.changed()
        given.stream = iter([1])
        assert record.changed()


def test_what_stands_for_a_thing_is_exchanged_wherever_it_stands(listing):
    one, array, seen = call("make_kernel", "a"), np.zeros(2), []
    last = call("f", [unit(one), (unit(one),), {"a": unit(one)}, {1, 2}, array])

    def carry_out(record, arguments, _keywords):
        seen.append(arguments)
        return listing(record, (), {})

    last.made(carry_out)
    (found,) = seen[-1]
    made = ["make_kernel"]
    assert found[:4] == [made, (made,), {"a": made}, {1, 2}]
    assert found[4] is array
