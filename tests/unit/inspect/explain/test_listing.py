"""Listings of records: a mutation is named by exactly the lines that it should be named by."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcl.inspect.explain import listing
from kcl.inspect.explain.listing import is_elsewhere, list_calls, measure_distance, read

LOOPS = "'{[i]: 0<=i<n}'"
FUNCTIONS = ("split_iname", "tag_inames", "add_prefetch", "prioritize_loops")


def record(*listed, beside=(), file="driver.py"):
    """Return a record of (function, arguments); call N stands in line 10*N of a file."""
    described = [
        {"function": function, "place": f"{file}:{10 * number}", "arguments": [*map(list, pairs)]}
        for number, (function, pairs) in enumerate(listed, 1)
    ]
    return {"calls": described, "result": len(listed), "beside": [*map(list, beside)]}


def differences(before, after):
    """Return what is said of two records as they are written."""
    found = listing.find_differences(list_calls(before), list_calls(after))
    return [line for one in found for line in (one.sentence, *(f"  {line}" for line in one.diff))]


def made(*statements, loops=LOOPS):
    return "make_kernel", [("domains", loops), ("instructions", repr("\n".join(statements)))]


def split(kernel, length, **more):
    arguments = [
        ("kernel", f"call {kernel}"),
        ("split_iname", "'i'"),
        ("inner_length", f"{length}"),
    ]
    return "split_iname", [*arguments, *more.items()]


def tagged(kernel, tag="l.0"):
    return "tag_inames", [("kernel", f"call {kernel}"), ("iname_to_tag", repr({"i_inner": tag}))]


BEFORE = record(made("a[i] = 1", "b[i] = 2"), split(1, 16), tagged(2))


class TestLines:
    def test_it(self):
        """A line reads like the call; the previous result is `it`, an argument of a kernel has its name."""
        found = record(
            ("GlobalArg", [("name", "'x'")]),
            made("a"),
            split(2, 4),
            ("merge", [("k", "[call 3, call 2]")]),
        )
        found["calls"][1]["arguments"].append(["kernel_data", "[call 1, '...']"])
        found["calls"][2]["positional"] = 3
        assert [one.line for one in list_calls(found).calls] == [
            "GlobalArg 'x'(name='x')",
            f"make_kernel(domains={LOOPS}, instructions='a', kernel_data=[GlobalArg 'x', '...'])",
            "split_iname(it, 'i', 4)",
            "merge(k=[it, make_kernel])",
        ]

    def test_no_reference(self):
        """A text that looks like a reference is none in quotes, nor where no such call stands before."""
        found = record(made("a"), ("f", [("x", "('call 1', \"call 1\", call 2, call 1)")]))
        assert list_calls(found).calls[1].line == "f(x=('call 1', \"call 1\", call 2, it))"


def of(text, name="x", function="f"):
    """Return a record of one call with one argument."""
    return record((function, [(name, text)]))


def dtyped(size):
    return record(("GlobalArg", [("name", "'x'"), ("dtype", f"dtype('<f{size}')")]))


def merged(last):
    """Return a record of a call that takes the results of two chains."""
    calls = [made("a"), made("b"), split(1, 16), split(2, 8)]
    return record(*calls, ("merge", [("kernels", f"[call 3, call {last}]")]))


def numbered(before):
    """Return a record whose second call has numbers for the names of its arguments, as without loopy."""
    found = json.loads(json.dumps(before))
    for number, argument in enumerate(found["calls"][1]["arguments"], 1):
        argument[0] = str(number)
    return found


def by_position(before):
    """Return a record whose first call has its arguments by position."""
    return {**before, "calls": [{**before["calls"][0], "positional": 3}, *before["calls"][1:]]}


def without_place(text):
    return {"calls": [{"function": "f", "arguments": [["x", text]]}]}


BODY = made("a[i] = 1", "b[i] = 2")
OUTER = record(BODY, split(1, 32, outer_tag="'g.0'"), tagged(2))
HEAD = "call 2 (driver.py:20), split_iname: inner_length"
CALL = "call 1 (driver.py:10)"
F = f"{CALL}, f:"
OTHER_WAY = "split_iname: arguments passed in another way"
LONG = ["c[i] = 'a long statement'", "b[i] = 'another statement that is long'"]
DOMAIN, ARGUMENTS = "[n] -> {[i]: 0 <= i < n}", "global float const *x, "
ENDS = (("-...", "int n, int m)"), ("+...", "long n, int m)"))
LAYOUTS = [[f"{blanks}{name * 30}" for name in "ab"] for blanks in ("", "  ")]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        # all arguments of a call that differ stand in its line
        (BEFORE, OUTER, [f"{HEAD} 16 -> 32, outer_tag added: 'g.0'"]),
        (OUTER, BEFORE, [f"{HEAD} 32 -> 16, outer_tag is gone"]),
        # without a name an argument has that in the other record, else its number
        (*(of(f"dtype('<f{n}')", "2") for n in (4, 8)), [f"{F} argument 2 float32 -> float64"]),
        (BEFORE, numbered(record(BODY, split(1, 32), tagged(2))), [f"{HEAD} 16 -> 32"]),
        # the argument of a kernel has its name
        (dtyped(8), dtyped(4), [f"{CALL}, GlobalArg 'x': dtype float64 -> float32"]),
        (dtyped(8), record(), ["call 1, GlobalArg 'x' is gone"]),
        # equal arguments in another order, or passed by name now
        (
            BEFORE,
            record(BODY, ("split_iname", split(1, 16)[1][::-1]), tagged(2)),
            [f"call 2 (driver.py:20), {OTHER_WAY}"],
        ),
        (by_position(record(split(1, 16))), record(split(1, 16)), [f"{CALL}, {OTHER_WAY}"]),
        # long values show both ends, or where they part; digests show nothing
        (of(f"sha256 {'1' * 64}"), of(f"sha256 {'2' * 64}"), [f"{F} x changed"]),
        (
            *(of(f"{90 * 'a'}{digit}") for digit in "12"),
            [f"{F} x {17 * 'a'}...{39 * 'a'}1 -> {17 * 'a'}...{39 * 'a'}2"],
        ),
        (
            *(of(f"{50 * 'a'}{digit}{50 * 'a'}") for digit in "12"),
            [f"{F} x ...{20 * 'a'}1{33 * 'a'}... -> ...{20 * 'a'}2{33 * 'a'}..."],
        ),
        (of("(2018, 1)"), of("(2018, 2)"), [f"{F} x (2018, 1) -> (2018, 2)"]),
        (of("{'a': 1}"), of("frozenset"), [f"{F} x {{'a': 1}} -> frozenset"]),
        # of a long text or list the lines that changed, of long lines the part; blank ones do not count
        (
            record(made(LONG[0], "a[i] = 1", "", LONG[1])),
            record(made(LONG[0], "a[i] = 2", LONG[1])),
            [f"{CALL}, make_kernel: instructions changed", "  -a[i] = 1", "  +a[i] = 2"],
        ),
        (
            *(of(repr([DOMAIN, f"{DOMAIN} or {n}", "{}"]), "domains") for n in "jk"),
            [f"{F} domains changed", f"  -{DOMAIN} or j", f"  +{DOMAIN} or k"],
        ),
        (
            *(of(repr(f"void f({ARGUMENTS * 8}{n} n, int m)"), "code") for n in ("int", "long")),
            [
                f"{F} code changed",
                *(f"  {sign} float const *x, {ARGUMENTS}{end}" for sign, end in ENDS),
            ],
        ),
        # another layout is said to be that
        (
            *(record(made(*lines)) for lines in LAYOUTS),
            [f"{CALL}, make_kernel: instructions: the same lines, written in another way"],
        ),
        # another function in the place of one, and another result that a call takes
        (
            BEFORE,
            record(BODY, ("rename_iname", [("kernel", "call 1")]), tagged(2)),
            ["call 2, split_iname is gone", "call 2 (driver.py:20), rename_iname inserted"],
        ),
        (
            merged(4),
            merged(2),
            [
                "call 5 (driver.py:50), merge: kernels [split_iname, it] -> [split_iname, make_kernel]"
            ],
        ),
        # another place is no difference; a call without one is named without it
        (BEFORE, json.loads(json.dumps(BEFORE).replace("driver.py:", "other.py:1")), []),
        (without_place("1"), without_place("2"), ["call 1, f: x 1 -> 2"]),
    ],
)
def test_said(before, after, said):
    assert differences(before, after) == said


def test_many():
    """Of many changed statements or calls a few are told, and the rest is counted; a moved call is gone and inserted."""
    before, after = (record(made(*(f"{name}[{i}] = {i}" for i in range(20)))) for name in "ab")
    lines = differences(before, after)
    assert (len(lines), lines[-1]) == (10, "  ... 32 more lines")
    after = record(made("a"), *(tagged(n, str(n)) for n in range(1, 31)))
    lines = differences(record(made("a")), after)
    assert (len(lines), lines[-1]) == (21, "and 10 more calls differ")
    assert len(differences(BEFORE, record(BODY, tagged(1), split(2, 16)))) == 2


class TestShown:
    """Expressions are compared in ordinary notation, which stands beside their texts."""

    def said(self, *texts, shown=("u[i] + 1.25*u[i + 1]", "u[i] + 1.5*u[i + 1]")):
        """Return what differs between records of one expression each."""
        return differences(
            *(
                record(("Assignment", [("expression", text)])) | {"shown": {text: notation}}
                for text, notation in zip(texts, shown, strict=True)
            )
        )

    def test_notation(self):
        texts = [f"primitives.Sum(children=sha256 {d * 64},) with {'3' * 64}" for d in "12"]
        words = "Assignment: expression u[i] + 1.25*u[i + 1] -> u[i] + 1.5*u[i + 1]"
        assert self.said(*texts) == [f"{CALL}, {words}"]

    def test_without(self):
        """If the notation does not differ the texts are shown, and for an older record, which has none."""
        texts = [f"primitives.Variable(name={name!r}) with {'3' * 64}" for name in "uv"]
        (line,) = self.said(*texts, shown=("u", "u"))
        assert "'u') -> primitives.Variable(name='v')" in line
        assert "'u') -> v" in self.said(*texts, shown=(texts[0], "v"))[0]


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
            f"{CALL}, register_callable: callable_: helper `preamble` changed, "
            "callable_: global LIMIT in `preamble`: 0.75 -> 0.5"
        ]
        # A record may not hold the parts.
        unknown = self.said((None, 2), (after, 2))
        assert unknown == [f"{CALL}, register_callable: callable_ changed"]

    def test_beside(self):
        """A distribution that is told beside the calls is not told again; another Python digests code otherwise."""
        for name in ("distribution loopy", "python"):
            facts = [[(name, f"{number} {'1' * 64}")] for number in (1, 2)]
            before, after = ([["code preamble", digit * 64], *facts[0]] for digit in "12")
            said = self.said((before, 2), ([*after[:1], *map(list, facts[1])], 2), beside=facts)
            told = f"{CALL}, register_callable: callable_: helper `preamble` changed"
            assert said == ([told] if name != "python" else [])


@st.composite
def chains(draw):
    """Return the calls of a random chain: a kernel, and steps of which each takes the result of the one before."""
    count = iter(range(1000))
    steps = draw(st.lists(st.tuples(st.sampled_from(FUNCTIONS), st.integers(1, 3)), max_size=10))
    return [
        (function, {name: repr(f"v{next(count)}") for name in "xyz"[:size]})
        for function, size in [("make_kernel", 1), *steps]
    ]


def written(chain):
    return record(
        *(
            (name, [*([("kernel", f"call {number}")] if number else []), *given.items()])
            for number, (name, given) in enumerate(chain)
        )
    )


class TestAnyRecord:
    @given(chains())
    def test_same(self, chain):
        assert differences(written(chain), written(chain)) == []
        assert measure_distance(list_calls(written(chain)), list_calls(written(chain))) == 0

    @settings(deadline=None)
    @given(chains(), st.data())
    def test_one_mutation(self, chain, data):
        """An argument that changed, a call that was inserted or is gone is named, and nothing else."""
        place = data.draw(st.integers(0, len(chain) - 1))
        function, given = chain[place]
        name = data.draw(st.sampled_from(sorted(given)))
        head = f"call {place + 1} (driver.py:{10 * place + 10}), {function}"
        changed = [*chain[:place], (function, {**given, name: "'another'"}), *chain[place + 1 :]]
        assert differences(written(chain), written(changed)) == [
            f"{head}: {name} {given[name]} -> 'another'"
        ]
        if place:
            shorter = [*chain[:place], *chain[place + 1 :]]
            assert differences(written(shorter), written(chain)) == [f"{head} inserted"]
            assert differences(written(chain), written(shorter)) == [
                f"call {place + 1}, {function} is gone"
            ]


def test_read():
    described = record(made("a"), split(1, 16), beside=[["python", "3.11"]])
    found = read(json.dumps(described).encode())
    assert found == list_calls(described)
    assert (found.beside, found.calls[1].place) == ({"python": "3.11"}, "driver.py:20")
    calls = (b'{"calls": [{}]}', b'{"calls": 1}', b'{"calls": [], "beside": [1]}')
    for part in (None, b"", b"{", b"[]", b"{}", *calls):
        assert read(part) is None


class TestDistance:
    def test_distance(self):
        """An argument that differs counts on both sides, and so does a fact beside the calls."""
        before = list_calls(BEFORE)
        after = record(made("a[i] = 1", "b[i] = 2"), split(1, 32), tagged(2))
        beside = {**BEFORE, "beside": [["python", "3.11"]]}
        for other, distance in ((BEFORE, 0), (after, 2), (beside, 1)):
            assert measure_distance(before, list_calls(other)) == distance

    def test_files(self):
        """Records of other files are those of another program; a record without calls is nowhere."""
        other = list_calls(record(made("a"), split(1, 16), file="other.py"))
        assert is_elsewhere(list_calls(BEFORE), other)
        assert not is_elsewhere(list_calls(BEFORE), list_calls(record()))
