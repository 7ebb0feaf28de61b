"""Records of calls: a mutation is named by exactly the lines that it should be named by."""

from __future__ import annotations

import json
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcl.inspect.explain import calls
from kcl.inspect.explain.record import parsed, unlike

LOOPS = "'{[i]: 0<=i<n}'"
FUNCTIONS = ("split_iname", "tag_inames", "add_prefetch", "prioritize_loops")


def record(*listed, result=None, beside=()):
    """Return a record of (function, arguments); call N stands in line 10*N of driver.py."""
    described = [
        {"function": function, "place": f"driver.py:{10 * number}", "arguments": [list(pair) for pair in arguments]}
        for number, (function, arguments) in enumerate(listed, 1)
    ]
    return {"calls": described, "result": result or len(listed), "beside": [list(pair) for pair in beside]}


def differences(before, after):
    """Return what is said of two records as they are written."""
    return calls.differences(parsed(before), parsed(after))


def made(*statements, loops=LOOPS):
    """Return a call of make_kernel."""
    return "make_kernel", [("domains", loops), ("instructions", repr("\n".join(statements)))]


def split(kernel, length, **more):
    """Return a call of split_iname on the result of another call."""
    arguments = [("kernel", f"call {kernel}"), ("split_iname", "'i'"), ("inner_length", str(length))]
    return "split_iname", [*arguments, *more.items()]


def tagged(kernel, tag="l.0"):
    """Return a call of tag_inames on the result of another call."""
    return "tag_inames", [("kernel", f"call {kernel}"), ("iname_to_tag", repr({"i_inner": tag}))]


BEFORE = record(made("a[i] = 1", "b[i] = 2"), split(1, 16), tagged(2))


class TestArguments:
    def test_value(self):
        """A changed value is named with its call, the place of that in this run, and both values."""
        after = record(made("a[i] = 1", "b[i] = 2"), split(1, 32), tagged(2))
        assert differences(BEFORE, after) == ["call 2 (driver.py:20), split_iname: inner_length 16 -> 32"]

    def test_several(self):
        """All arguments of a call that differ stand in its line."""
        after = record(made("a[i] = 1", "b[i] = 2"), split(1, 32, outer_tag="'g.0'"), tagged(2))
        assert differences(BEFORE, after) == [
            "call 2 (driver.py:20), split_iname: inner_length 16 -> 32, outer_tag added: 'g.0'"
        ]

    def test_gone(self):
        """An argument that is no longer given is named."""
        before = record(made("a[i] = 1"), split(1, 16, outer_tag="'g.0'"))
        after = record(made("a[i] = 1"), split(1, 16))
        assert differences(before, after) == ["call 2 (driver.py:20), split_iname: outer_tag is gone"]

    def test_order(self):
        """Arguments that only moved are named as such."""
        function, arguments = split(1, 16)
        after = record(made("a[i] = 1", "b[i] = 2"), (function, arguments[::-1]), tagged(2))
        assert differences(BEFORE, after) == ["call 2 (driver.py:20), split_iname: arguments in another order"]

    def test_unnamed(self):
        """An argument without a name is named by its number; dtypes by their own names."""
        before, after = (record(("f", [("2", f"dtype('<f{size}')")])) for size in (4, 8))
        assert differences(before, after) == ["call 1 (driver.py:10), f: argument 2 float32 -> float64"]

    def test_arrays(self):
        """The argument of a kernel is named."""
        before, after = (record(("GlobalArg", [("name", "'x'"), ("dtype", f"dtype('<f{size}')")])) for size in (8, 4))
        assert differences(before, after) == ["call 1 (driver.py:10), GlobalArg 'x': dtype float64 -> float32"]
        assert differences(before, record()) == ["call 1, GlobalArg 'x' is gone"]

    def test_by_position(self):
        """An argument that is the same, but is passed by name now, is named."""
        before, after = record(split(1, 16)), record(split(1, 16))
        before["calls"][0]["positional"], after["calls"][0]["positional"] = 3, 2
        assert differences(before, after) == ["call 1 (driver.py:10), split_iname: inner_length passed by name"]
        assert differences(after, before) == ["call 1 (driver.py:10), split_iname: inner_length passed by position"]

    @pytest.mark.parametrize(
        ("before", "after", "said"),
        [
            (f"sha256 {'1' * 64}", f"sha256 {'2' * 64}", "x changed"),
            (
                "'" + 90 * "a" + "1'",
                "'" + 90 * "a" + "2'",
                f"x '{16 * 'a'}...{38 * 'a'}1' -> '{16 * 'a'}...{38 * 'a'}2'",
            ),
            (
                f"{50 * 'a'}1{50 * 'a'}",
                f"{50 * 'a'}2{50 * 'a'}",
                f"x ...{20 * 'a'}1{33 * 'a'}... -> ...{20 * 'a'}2{33 * 'a'}...",
            ),
            ("(2018, 1)", "(2018, 2)", "x (2018, 1) -> (2018, 2)"),
            ("('i', 'j')", "('i', 'k')", "x ('i', 'j') -> ('i', 'k')"),
            ("{'a': 1}", "frozenset", "x {'a': 1} -> frozenset"),
            ("call me", "call 9", "x call me -> call 9"),
        ],
    )
    def test_values(self, before, after, said):
        """Long values show both ends, or where they part; digests show nothing."""
        found = differences(record(("f", [("x", before)])), record(("f", [("x", after)])))
        assert found == [f"call 1 (driver.py:10), f: {said}"]


class TestShown:
    """Expressions are compared in ordinary notation, which stands beside their texts."""

    def said(self, *texts, shown=("u[i] + 1.25*u[i + 1]", "u[i] + 1.5*u[i + 1]")):
        """Return what differs between records of one expression each, a third text being that of both."""
        described = []
        for text, notation in zip(texts, shown, strict=True):
            arguments = [("assignee", "'v[i]'"), ("expression", text)]
            described.append({**record(("Assignment", arguments)), "shown": {text: notation} if notation else {}})
        return differences(*described)

    def test_notation(self):
        """The notation of both is shown."""
        texts = [f"pymbolic.primitives.Sum(children=sha256 {digit * 64},) with {'3' * 64}" for digit in "12"]
        head = "call 1 (driver.py:10), Assignment: expression"
        assert self.said(*texts) == [f"{head} u[i] + 1.25*u[i + 1] -> u[i] + 1.5*u[i + 1]"]
        long = [" + ".join([f"a{i}*u[i + {i}]" for i in range(30)] + [str(last)]) for last in (1, 2)]
        assert self.said(*texts, shown=(f"{long[0]} + u", f"{long[1]} + u"))[0].endswith(
            "a28*u[i + 28] + a29*u[i + 29] + 1 + u -> a0*u[i + 0] + a1*... + a28*u[i + 28] + a29*u[i + 29] + 2 + u"
        )

    def test_without(self):
        """Where the notation does not differ the texts are shown, and for an older record, which has none."""
        texts = [f"pymbolic.primitives.Variable(name={name!r}) with {'3' * 64}" for name in "uv"]
        assert "'u') -> pymbolic.primitives.Variable(name='v')" in self.said(*texts, shown=("u", "u"))[0]
        assert "'u') -> v" in self.said(*texts, shown=("", "v"))[0]


class TestReached:
    """What an object of the user leads to is compared part by part."""

    def said(self, before, after, name="Limiter", beside=((), ())):
        """Return what differs between records of one callable that leads to other parts, and has other attributes."""
        described = []
        for digit, (parts, attribute), facts in zip("12", (before, after), beside, strict=True):
            text = f"class {name}(order={attribute}) with {digit * 64}"
            one = record(("register_callable", [("callable_", text)]), beside=facts)
            described.append({**one, "reached": {digit * 64: parts}} if parts is not None else one)
        return differences(*described)

    def test_value(self):
        """A global and a helper are named as in the key of a pure recipe."""
        before = [["code preamble", "1" * 64], ["global LIMIT in preamble", "0.75"]]
        after = [["code preamble", "2" * 64], ["global LIMIT in preamble", "0.5"]]
        assert self.said((before, 2), (after, 2)) == [
            "call 1 (driver.py:10), register_callable: callable_: "
            "helper `preamble` changed, global LIMIT in `preamble`: 0.75 -> 0.5"
        ]

    def test_attribute_too(self):
        """Attributes of the object that differ stand before that."""
        parts = [[["global LIMIT in preamble", value]] for value in ("0.75", "0.5")]
        assert self.said((parts[0], 2), (parts[1], 4)) == [
            "call 1 (driver.py:10), register_callable: "
            "callable_ class Limiter(order=2) -> class Limiter(order=4), "
            "callable_: global LIMIT in `preamble`: 0.75 -> 0.5"
        ]

    def test_earlier_format(self):
        """Against a record that does not hold the parts it is said that something differs."""
        parts = [["global LIMIT in preamble", "0.5"]]
        assert self.said((None, 2), (parts, 2)) == ["call 1 (driver.py:10), register_callable: callable_ changed"]

    def test_beside(self):
        """A distribution that is told beside the calls is not told again; another Python digests code otherwise."""
        for name in ("distribution loopy", "python"):
            facts = [[(name, f"{number} {'1' * 64}")] for number in (1, 2)]
            before, after = ([["code preamble", digit * 64], *facts[0]] for digit in "12")
            parts = (before, 2), ([*after[:1], *map(list, facts[1])], 2)
            (line, _beside) = self.said(*parts, beside=facts)
            told = "callable_: helper `preamble` changed" if name != "python" else "callable_ changed"
            assert line == f"call 1 (driver.py:10), register_callable: {told}"


class TestStatements:
    def test_changed(self):
        """A changed statement is named by its number among the lines that are not blank, and shown."""
        before = record(("make_kernel", [("instructions", repr("\n  a[i] = 1\n\n  b[i] = 2\n"))]))
        after = record(("make_kernel", [("instructions", repr("a[i] = 1\nb[i] = 3"))]))
        assert differences(before, after) == [
            "call 1 (driver.py:10), make_kernel: statement 2 changed",
            "  - b[i] = 2",
            "  + b[i] = 3",
        ]

    def test_long_lines(self):
        """Of two long lines the part that differs is shown."""
        line = "kernel void f(" + "global float const *x, " * 8
        texts = [repr(f"{line}{kind} n, int m)") for kind in ("int", "long")]
        before, after = (record(("kcl.Source", [("code", text)])) for text in texts)
        assert differences(before, after)[1:] == [
            "  - ... float const *x, global float const *x, int n, int m)",
            "  + ... float const *x, global float const *x, long n, int m)",
        ]

    def test_list(self):
        """The elements of a list count as the lines of a text do; domains likewise."""
        before = record(("make_kernel", [("domains", "['[n] -> {[i]}', '{[j]}']")]))
        after = record(("make_kernel", [("domains", "['[n] -> {[i]}', '{[k]}', '{[l]}']")]))
        assert differences(before, after) == [
            "call 1 (driver.py:10), make_kernel: domain 2 changed, domain 3 inserted",
            "  - {[j]}",
            "  + {[k]}",
            "  + {[l]}",
        ]

    def test_gone(self):
        """Statements that are gone have the numbers that they had."""
        before, after = record(made("a", "b", "c", "d")), record(made("a", "d"))
        assert differences(before, after)[0] == "call 1 (driver.py:10), make_kernel: statements 2 to 3 are gone"

    def test_layout(self):
        """Another layout of the same statements is said to be that."""
        before = record(made("a", "b"))
        after = record(made("  a", "", "  b"))
        assert differences(before, after) == [
            "call 1 (driver.py:10), make_kernel: instructions: the same statements, written in another way"
        ]

    def test_many(self):
        """Of many changed statements a few are shown, and the rest is counted."""
        before, after = (record(made(*(f"{name}[{i}] = {i}" for i in range(20)))) for name in "ab")
        lines = differences(before, after)
        assert lines[0] == "call 1 (driver.py:10), make_kernel: statements 1 to 20 changed"
        assert (len(lines), lines[-1]) == (10, "  ... 32 more lines")

    def test_source(self):
        """Lines of OpenCL C have the numbers that a compiler gives them."""
        before, after = (record(("kcl.Source", [("code", repr(f"\n\nint f;\nint {name};"))])) for name in "gh")
        assert differences(before, after) == [
            "call 1 (driver.py:10), kcl.Source: line 4 of code changed",
            "  - int g;",
            "  + int h;",
        ]


class TestCalls:
    def test_inserted(self):
        """A new call is named; the calls whose references it renumbers are not."""
        after = record(made("a[i] = 1", "b[i] = 2"), split(1, 16), split(2, 4), tagged(3))
        assert differences(BEFORE, after) == ["call 3 (driver.py:30), split_iname inserted"]

    def test_gone(self):
        """A call that is gone has the number that it had."""
        after = record(made("a[i] = 1", "b[i] = 2"), tagged(1))
        assert differences(BEFORE, after) == ["call 2, split_iname is gone"]

    def test_moved(self):
        """A call that stands elsewhere in the chain is named alone."""
        after = record(made("a[i] = 1", "b[i] = 2"), tagged(1), split(2, 16))
        assert differences(BEFORE, after) == ["call 2 (driver.py:20), tag_inames moved: it was call 3"]

    def test_exchanged(self):
        """A call of another function stands for one that is gone and one that is inserted."""
        after = record(made("a[i] = 1", "b[i] = 2"), ("rename_iname", [("kernel", "call 1")]), tagged(2))
        assert differences(BEFORE, after) == [
            "call 2, split_iname is gone",
            "call 2 (driver.py:20), rename_iname inserted",
        ]

    def test_result(self):
        """Another result of the same calls is named."""
        after = {**BEFORE, "result": 2}
        assert differences(BEFORE, after) == ["the result is call 2, split_iname, no longer call 3"]

    def test_reference(self):
        """A call that takes the result of another call is named, with the numbers of this run."""
        before = record(made("a"), made("b"), split(1, 16), split(2, 8), ("merge", [("kernels", "[call 3, call 4]")]))
        after = record(made("a"), made("b"), split(1, 16), split(2, 8), ("merge", [("kernels", "[call 3, call 2]")]))
        assert differences(before, after) == [
            "call 5 (driver.py:50), merge: kernels [call 3, call 4] -> [call 3, call 2]"
        ]

    def test_no_reference(self):
        """A value whose text is the word of a reference is none."""
        before, after = (record(made("a[i] = 1"), ("f", [("value", text)])) for text in ("call 1", "call"))
        assert differences(before, after) == ["call 2 (driver.py:20), f: value call 1 -> call"]

    def test_order_of_chains(self):
        """The order in which independent chains were written is no difference, nor are their numbers."""
        before = record(made("a"), split(1, 4), made("b"), split(3, 4), ("merge", [("kernels", "[call 2, call 4]")]))
        after = record(made("b"), made("a"), split(2, 4), split(1, 4), ("merge", [("kernels", "[call 3, call 4]")]))
        assert differences(before, after) == []

    def test_no_place(self):
        """A call of which the place is not known is named without one."""
        before, after = ({"calls": [{"function": "f", "arguments": [["x", x]]}], "result": 1} for x in "12")
        assert differences(before, after) == ["call 1, f: x 1 -> 2"]

    def test_place(self):
        """Another place is no difference."""
        after = json.loads(json.dumps(BEFORE).replace("driver.py:", "other.py:1"))
        assert differences(BEFORE, after) == []


class TestBeside:
    def test_words(self):
        """What stands beside the calls is told in the words of keys."""
        one, other = f"2025.2 {'1' * 64}", f"2025.2.1 {'2' * 64}"
        before = {**BEFORE, "beside": [["distribution loopy", one], ["python", "3.11"]]}
        after = {**BEFORE, "beside": [["distribution loopy", other], ["python", "3.12"]]}
        assert differences(before, after) == [
            "loopy 2025.2 -> 2025.2.1",
            "Python: 3.11 -> 3.12",
        ]


class Made:
    """A random record, in which references are indices until it is written."""

    def __init__(self, draw, alike=False):
        self.count = 0
        self.alike = alike
        self.calls = [self.kernel(draw)]
        for _ in range(draw(st.integers(0, 10))):
            self.calls.append(self.kernel(draw) if draw(st.integers(0, 4)) == 0 else self.step(draw, len(self.calls)))
        self.result = len(self.calls) - 1

    def text(self, draw):
        """Return the text of a value, which no other one has unless values may be alike."""
        self.count += 1
        return repr(draw(st.sampled_from("ab")) if self.alike else f"v{self.count}")

    def kernel(self, draw):
        """Return a call that refers to no other."""
        statements = [f"a[{self.text(draw)}] = 1" for _ in range(draw(st.integers(1, 4)))]
        return ["make_kernel", {"domains": LOOPS, "instructions": statements, "name": self.text(draw)}]

    def step(self, draw, before):
        """Return a call that refers to earlier ones."""
        indices = st.integers(max(0, before - 3), before - 1)
        arguments = {"kernel": [draw(indices)]}
        if draw(st.integers(0, 4)) == 0:
            arguments["others"] = draw(st.lists(indices, min_size=1, max_size=2))
        for name in draw(st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, unique=True)):
            arguments[name] = self.text(draw)
        return [draw(st.sampled_from(FUNCTIONS)), arguments]

    def written(self):
        """Return the record."""
        listed = [(function, [(n, _written(n, v)) for n, v in given.items()]) for function, given in self.calls]
        return record(*listed, result=self.result + 1)

    def renumber(self, number):
        """Pass all references through a function."""
        for _function, arguments in self.calls:
            for name in ("kernel", "others"):
                if name in arguments:
                    arguments[name] = [number(index) for index in arguments[name]]
        self.result = number(self.result)


def _written(name, value):
    if name == "instructions":
        return repr("\n".join(value))
    if isinstance(value, str):
        return value
    return f"call {value[0] + 1}" if name == "kernel" else f"[{', '.join(f'call {index + 1}' for index in value)}]"


_unique = st.composite(Made)()
_alike = st.composite(lambda draw: Made(draw, alike=True))()


def change(draw, found):
    """Change one argument; returns what is to be said."""
    index = draw(st.integers(0, len(found.calls) - 1))
    function, given = found.calls[index]
    name = draw(st.sampled_from(sorted(set(given) & {"name", "x", "y", "z"})))
    old, given[name] = given[name], "'another'"
    return [f"call {index + 1} (driver.py:{10 * index + 10}), {function}: {name} {old} -> 'another'"]


def restate(draw, found):
    """Change one statement."""
    index = draw(st.sampled_from([i for i, call in enumerate(found.calls) if call[0] == "make_kernel"]))
    statements = found.calls[index][1]["instructions"]
    place = draw(st.integers(0, len(statements) - 1))
    old, statements[place] = statements[place], "b[i] = 2"
    head = f"call {index + 1} (driver.py:{10 * index + 10}), make_kernel"
    return [f"{head}: statement {place + 1} changed", f"  - {old}", "  + b[i] = 2"]


def insert(draw, found):
    """Insert a call behind another; all that took the result of that take the new one's."""
    behind = draw(st.integers(0, len(found.calls) - 1))
    place = draw(st.integers(behind + 1, len(found.calls)))
    takers = [
        index
        for index, (_f, given) in enumerate(found.calls)
        if behind in [*given.get("kernel", ()), *given.get("others", ())]
    ]
    place = min([place, *takers])
    new = [draw(st.sampled_from(FUNCTIONS)), {"kernel": [behind], "x": "'new'"}]
    found.renumber(lambda index: place if index == behind else index + (index >= place))
    found.calls.insert(place, new)
    return [f"call {place + 1} (driver.py:{10 * place + 10}), {new[0]} inserted"]


def delete(draw, found):
    """Take a call out; all that took its result take that of the call before."""
    indices = [i for i, call in enumerate(found.calls) if "kernel" in call[1]]
    if not indices:
        return []
    place = draw(st.sampled_from(indices))
    function, given = found.calls.pop(place)
    target = given["kernel"][0]
    found.renumber(lambda index: target if index == place else index - (index > place))
    return [f"call {place + 1}, {function} is gone"]


def refer(draw, found):
    """Let one call take the result of another call."""
    indices = [i for i, call in enumerate(found.calls) if "kernel" in call[1] and i > 1]
    if not indices:
        return []
    place = draw(st.sampled_from(indices))
    function, given = found.calls[place]
    old = given["kernel"][0]
    new = given["kernel"][0] = draw(st.integers(0, place - 1).filter(lambda index: index != old))
    return [f"call {place + 1} (driver.py:{10 * place + 10}), {function}: kernel call {old + 1} -> call {new + 1}"]


MUTATIONS = [change, restate, insert, delete, refer]


class TestAnyRecord:
    @settings(deadline=None)
    @given(_alike)
    def test_same(self, found):
        """A record does not differ from itself."""
        assert differences(found.written(), found.written()) == []
        assert unlike(parsed(found.written()), parsed(found.written())) == 0

    @pytest.mark.parametrize("mutation", MUTATIONS)
    @settings(deadline=None)
    @given(st.data())
    def test_one_mutation(self, mutation, data):
        """One mutation is named, where it is, and nothing else."""
        found = data.draw(_unique)
        before = found.written()
        said = mutation(data.draw, found)
        assert differences(before, found.written()) == said

    @pytest.mark.parametrize("mutation", [change, restate, insert, delete])
    @settings(deadline=None)
    @given(st.data())
    def test_among_alike(self, mutation, data):
        """Where calls are alike one of those is named; one that is connected in another way may be named beside it."""
        found = data.draw(_alike)
        before = found.written()
        said = [line.split(", ")[1:] for line in mutation(data.draw, found)]
        lines = [line.split(", ")[1:] for line in differences(before, found.written())]
        assert all(line in lines for line in said)
        if mutation in (change, restate):
            assert lines == said

    @settings(deadline=None)
    @given(_unique, st.randoms(use_true_random=False))
    def test_any_order(self, found, shuffle):
        """Any order of the list in which no call stands before what it refers to means the same."""
        before = found.written()
        order, left = [], list(range(len(found.calls)))
        while left:
            ready = [i for i in left if not set(_references(found.calls[i])) & set(left)]
            order.append(shuffle.choice(ready))
            left.remove(order[-1])
        found.renumber(order.index)
        found.calls = [found.calls[index] for index in order]
        assert differences(before, found.written()) == []

    @settings(deadline=None)
    @given(_alike, _alike)
    def test_unlike(self, one, other):
        """Something is said of any two records that are not the same, and nothing where their distance is 0."""
        before, after = one.written(), other.written()
        lines = differences(before, after)
        if unlike(parsed(before), parsed(after)):
            assert lines
        if before == after:
            assert lines == []


def _references(call):
    return [*call[1].get("kernel", ()), *call[1].get("others", ())]


class TestCost:
    @pytest.mark.parametrize("functions", [("split_iname",), FUNCTIONS])
    def test_unrelated(self, functions):
        """Two long records that have nothing in common are compared at once: 20 ms; a bad alignment takes minutes."""
        one, other = _long(1, functions), _long(2, functions)
        seconds = []
        for _ in range(5):
            start = time.process_time()
            assert len(differences(one, other)) > 100
            seconds.append(time.process_time() - start)
        assert min(seconds) < 1


def _long(seed, functions):
    draw = random.Random(seed)
    listed = [made("a")]
    for number in range(1, 200):
        values = [(name, repr(draw.random())) for name in ("x", "y", "z")]
        listed.append((draw.choice(functions), [("kernel", f"call {number}"), *values]))
    return record(*listed)
