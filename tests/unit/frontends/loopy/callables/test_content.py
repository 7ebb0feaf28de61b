"""The content key of a unit: it sees every field, and nothing else."""

import collections
import copy
import dataclasses
import enum
import math
import pickle
import sys

import content_units
import islpy as isl
import numpy as np
import pymbolic.primitives as p
import pytest
from constantdict import constantdict
from content_units import Note, built
from harness import SUPPORT
from loopys_own import loopy as lp
from pytools import ImmutableRecord

from kcl.errors import UnknownInput
from kcl.frontends.loopy.callables.content import content, content_key

# Units with code of the program, which no key holds.
REFUSED = (content_units.users_callable, content_units.users_nodes, content_units.generators)
UNITS = [builder for builder in content_units.UNITS if builder not in REFUSED]
MEMOS = {"_cache_manager", "_cached_written_variables", "_cached_hash", "_hash_value"}
THEIRS = ("loopy", "pymbolic", "pytools", "content_units")


def content_text(value):
    return content(value).text


# Changes


def fields(thing):
    """Name the attributes of an object that are not computed from the others."""
    if dataclasses.is_dataclass(thing):
        return [field.name for field in dataclasses.fields(thing)]
    if isinstance(thing, ImmutableRecord):
        return [name for name in sorted(type(thing).fields) if name in vars(thing)]
    return [
        name
        for name in vars(thing)
        if name not in MEMOS and not name.startswith(("_memoize", "_pytools"))
    ]


def is_object(value):
    """Return True for a value that has fields."""
    kind = type(value)
    is_other = isinstance(value, (type, enum.Enum, dict)) or hasattr(value, "__code__")
    return hasattr(value, "__dict__") and not is_other and kind.__module__.startswith(THEIRS)


def reachable(value, seen):
    """Yield each object below a value once."""
    if isinstance(value, (tuple, list, frozenset, set)):
        for item in value:
            yield from reachable(item, seen)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from reachable(key, seen)
            yield from reachable(item, seen)
    elif is_object(value) and id(value) not in seen:
        seen[id(value)] = value
        yield value
        for name in fields(value):
            yield from reachable(getattr(value, name), seen)


def others(value):
    """List values that are other ones than `value`, of its type and of others that are equal to it."""
    if isinstance(value, (bool, np.bool_)):
        return [not value, int(value)]
    if isinstance(value, enum.Enum):
        return [next(member for member in type(value) if member is not value), int(value)]
    if isinstance(value, int):
        return [value + 1, float(value), np.int64(value), str(value)]
    if isinstance(value, float):
        return [math.nextafter(value, 1e9), np.float32(value), np.float64(value), repr(value)]
    if isinstance(value, str):
        return [f"{value}x", value.encode(), p.Variable(value)]
    if isinstance(value, np.ndarray):
        changed = value.copy()
        changed.flat[-1] += 1
        return [changed, value.reshape(-1, 1), value.astype(np.float16), value[:0]]
    if isinstance(value, np.dtype):
        return [np.dtype(np.float16), np.dtype((value, (2,))), np.dtype(value, metadata={"a": 1})]
    for kinds, change in (
        ((isl.BasicSet, isl.BasicMap), other_domains),
        (dict, other_tables),
        ((tuple, list), other_sequences),
        ((frozenset, set), other_sets),
    ):
        if isinstance(value, kinds):
            return change(value)
    return ["another"] if value is None else [None, "another"]


def other_tables(value):
    kind, items = type(value), list(value.items())
    found = [kind({**value, "mutated": None})]
    if items:
        found.append(kind({("other", key): item for key, item in items}))
    for place, (key, item) in enumerate(items):
        before, after = items[:place], items[place + 1 :]
        found += [kind([*before, (key, ("other", item)), *after]), kind([*before, *after])]
    return found


def other_sequences(value):
    kind, other_kind = type(value), list if isinstance(value, tuple) else tuple
    found = [kind((*value, None)), other_kind(value), kind((tuple(value),))]
    for place, item in enumerate(value):
        before, after = value[:place], value[place + 1 :]
        found += [kind((*before, other, *after)) for other in others(item)[:2]]
    return [*found, value[:-1]] if value else found


def other_sets(value):
    kind = type(value)
    return [value | {"mutated"}, tuple(value), *[kind(value - {item}) for item in value]]


def other_domains(domain):
    last = domain.dim(isl.dim_type.param)
    more = domain.add_dims(isl.dim_type.param, 1).set_dim_name(isl.dim_type.param, last, "mutated")
    found = [more]
    for kind in (isl.dim_type.param, isl.dim_type.set):
        if domain.dim(kind):
            found.append(domain.fix_val(kind, 0, isl.Val(77)))
            found.append(domain.set_dim_name(kind, 0, "renamed"))
    return found


def changed(thing, name, value):
    object.__setattr__(thing, name, value)


MET = collections.Counter()  # kinds of fields, in all units


class TestEveryField:
    @pytest.mark.parametrize("builder", UNITS)
    def test_changes(self, builder):
        """A change of a field is another key; of a kind of field each change is another one, at the first two."""
        unit = built(builder)
        before = content_key(unit)
        unseen = []
        for thing in list(reachable(unit, {})):
            for name in fields(thing):
                value = getattr(thing, name)
                MET[place := (type(thing), name, type(value))] += 1
                keys = [before]
                for other in others(value)[: None if MET[place] <= 2 else 1]:
                    changed(thing, name, other)
                    keys.append(content_key(unit))
                    changed(thing, name, value)
                if len(set(keys)) != len(keys):
                    unseen.append((type(thing).__name__, name, value, [key[:6] for key in keys]))
        assert not unseen
        assert content_key(unit) == before

    @pytest.mark.parametrize("builder", UNITS)
    def test_attributes_beside_the_fields(self, builder):
        """An attribute that somebody adds to an object counts: code may ask for it."""
        unit = built(builder)
        before = content_key(unit)
        for thing in list(reachable(unit, {})):
            if type(thing) in (
                lp.LoopKernel,
                p.Variable,
                lp.Assignment,
                lp.ArrayArg,
                lp.PyOpenCLTarget,
            ):
                vars(thing)["beside"] = 1
                assert content_key(unit) != before
                del vars(thing)["beside"]
        assert content_key(unit) == before

    def test_order_of_tables(self):
        """The order of temporaries counts; that of inames and callables, which follows the hash seed, does not."""
        unit = built(content_units.callables)
        reordered = unit.copy(callables_table=constantdict(reversed(unit.callables_table.items())))
        assert content_key(reordered) == content_key(unit)
        kernel = built(content_units.initializers)["initializers"]
        turned = dict(reversed(kernel.temporary_variables.items()))
        assert content_text(kernel.copy(temporary_variables=turned)) != content_text(kernel)
        kernel = built(content_units.prefetch)["product"]
        turned = lp.LoopKernel.copy(kernel)
        changed(turned, "inames", dict(reversed(kernel.inames.items())))
        assert content_text(kernel) == content_text(turned)


class TestTexts:
    def test_names_in_domains(self):
        """The order of parameters does not count, names do, also where they are printed alike."""
        odd = isl.BasicSet("{[i]: i=0}").set_dim_name(isl.dim_type.set, 0, "i, j")
        domains = ["[n, m] -> {[i]: i<n+m}", "[m, n] -> {[i]: i<n+m}", "{[i, j]: i=j}"]
        domains += ["[n] -> {[i]: i<n}", "[m] -> {[i]: i<m}"]
        first, second, *found = [content_text(isl.BasicSet(one)) for one in domains]
        assert first == second
        assert len({first, *found, content_text(odd)}) == 5

    def test_classes_of_other_modules(self):
        """A subclass without code counts by its name; a class that only bears a name of loopy is refused."""
        own = lp.kernel.data.Iname("i", frozenset())
        mine = type("Mine", (lp.kernel.data.Iname,), {"__module__": __name__})("i", frozenset())
        assert content_text(mine) != content_text(own)
        assert content_text(mine).startswith(f"{__name__}.Mine(")
        claims = type("Iname", (lp.kernel.data.Iname,), {"__module__": "loopy.kernel.data"})
        with pytest.raises(UnknownInput, match="cannot be known"):
            content_text(claims("i", frozenset()))

    def test_what_cannot_be_known(self):
        """A unit that holds an open file, is nested too deeply, or holds itself, has no key."""
        unit = built(content_units.plain)
        kernel = unit["plain"].copy(preamble_generators=[open(sys.executable, "rb").read])  # noqa: SIM115
        with pytest.raises(UnknownInput):
            content_key(unit.with_kernel(kernel))
        deep = p.Variable("x")
        for _ in range(5000):
            deep = p.Sum((deep, 1))
        rule = lp.SubstitutionRule("deep", (), deep)
        circle = Note("itself")
        changed(circle, "circle", circle)
        for holding in (
            unit["plain"].copy(substitutions={"deep": rule}),
            unit["plain"].copy(applied_iname_rewrites=(circle,)),
        ):
            with pytest.raises(UnknownInput, match="nested"):
                content_key(unit.with_kernel(holding))


class TestUsersObjects:
    @pytest.mark.parametrize("builder", REFUSED)
    def test_code(self, builder):
        """A unit with code of the program has no key, and the reason names the code and the cure."""
        with pytest.raises(UnknownInput, match=r"is code of the program.*__kcl_key__"):
            content_key(built(builder))

    def test_sets(self):
        """Objects of the user in a set have an order that does not follow the seed; what they hold counts."""
        unit = built(content_units.plain)

        def key(words):
            notes = [Note(word) for word in words]
            return content_key(unit.with_kernel(unit["plain"].tagged(notes)))

        assert key("abcdef") == key("fedcba") == key("cafebd") != key("abcdeg")

    def test_keys_of_tables(self):
        iname = lp.kernel.data.Iname("i", frozenset())

        def found(words):
            changed(iname, "inames", {Note(word): word for word in words})
            return content_text(iname)

        assert found("abc") == found("cba") != found("abd")


class TestSameUnit:
    SEEDS = """
        import sys
        sys.path.insert(0, sys.argv[1])
        import json, random
        import content_units
        from kcl.frontends.loopy.callables.content import content_key
        units = [one for one in content_units.UNITS if one.__name__ not in sys.argv[3:]]
        builders = random.Random(sys.argv[2]).sample(units, len(units))
        keys = {builder.__name__: content_key(content_units.built(builder)) for builder in builders}
        assert keys == {builder.__name__: content_key(content_units.built(builder)) for builder in builders}
        print(json.dumps(dict(sorted(keys.items()))))
    """

    def test_processes(self, child):
        """A unit has one key in processes with other hash seeds that make units in another order."""
        path, refused = str(SUPPORT), [one.__name__ for one in REFUSED]
        first = child.json(self.SEEDS, path, "1", *refused, PYTHONHASHSEED="1")
        assert len({*first.values()}) == len(UNITS)
        assert child.json(self.SEEDS, path, "2", *refused, PYTHONHASHSEED="2") == first

    @pytest.mark.parametrize("builder", UNITS)
    def test_copies(self, builder):
        """A unit that is made again, copied, or pickled and loaded has the same key."""
        unit = built(builder)
        before = content_key(unit)
        assert content_key(built(builder)) == before
        assert content_key(copy.copy(unit)) == before
        assert content_key(copy.deepcopy(unit)) == before
        assert content_key(pickle.loads(pickle.dumps(unit))) == before
        assert content_key(unit) == before

    @pytest.mark.parametrize("builder", UNITS)
    def test_memoised(self, builder):
        """What loopy remembers on a unit is neither read nor counted; a later change is seen."""
        unit = built(builder)
        if builder is content_units.plain:
            unit = lp.add_dtypes(unit, {"x": np.float32, "z": np.float32})
        before = content_key(unit)
        lp.tools.LoopyKeyBuilder()(unit)
        hash(unit)
        if builder is content_units.plain:
            lp.generate_code_v2(unit)
        kernels = [one for one in reachable(unit, {}) if isinstance(one, lp.LoopKernel)]
        for kernel in kernels:
            _used = kernel.id_to_insn, kernel.arg_dict, kernel.all_variable_names()
            kernel.get_written_variables()
        assert content_key(unit) == before
        changed(kernels[0].instructions[0], "id", "changed")
        after = content_key(unit)
        assert after != before
        lp.tools.LoopyKeyBuilder()(unit)
        assert content_key(unit) == after

    def test_nothing_is_left(self):
        unit = built(content_units.prefetch)
        before = {id(thing): set(vars(thing)) for thing in reachable(unit, {})}
        content_key(unit)
        assert {id(thing): set(vars(thing)) for thing in reachable(unit, {})} == before
