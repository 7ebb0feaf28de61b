"""The table of loopy's public names: complete, without contradictions, and true."""

from __future__ import annotations

import importlib
import inspect
import types

import numpy as np
import pytest
from recorded_units import VERSION

from kcl.frontends.loopy import making, table

loopy = importlib.import_module("loopy")  # itself, where an import statement gives the face

# Names that loopy itself has to answer for: exceptions, which `except` needs as classes, and constants.
CONDITIONS = frozenset({"LoopyError", "LoopyWarning"})
CONSTANTS = frozenset({"MOST_RECENT_LANGUAGE_VERSION", "ToLoopyTypeConvertible", "VERSION"})
SETS = {
    "makers": table.MAKERS,
    "transformations": table.TRANSFORMATIONS,
    "constructors": frozenset(table.CONSTRUCTORS),
    "types": table.TYPES,
    "conditions": CONDITIONS | table.WARNINGS,
    "constants": CONSTANTS,
    "at once": table.AT_ONCE,
}
KNOWN = frozenset().union(*SETS.values())
# Names of loopy's that its package holds for itself.
PRIVATE = {"TYPE_CHECKING", "annotations", "strtobool", "ABORT_ON_CACHE_MISS", "CACHING_ENABLED"}


def make():
    """Make a unit that every transformation of `CALLS` can begin with."""
    return loopy.make_kernel(
        "{[i,j]: 0<=i<n and 0<=j<16}",
        """
        f(x) := 2*x
        <> t = f(b[j]) {id=first,inames=i:j}
        out[i,j] = a[i,j] + t {id=second,dep=first}
        """,
        [
            loopy.GlobalArg("a,b,out", np.float32, shape=loopy.auto),
            loopy.ValueArg("n", np.int32),
            ...,
        ],
        name="made",
        **VERSION,
    )


# How each transformation that can be tried on one unit is called there.
CALLS = {
    "add_and_infer_dtypes": ({"a": np.float32},),
    "add_barrier": ("id:first", "id:second"),
    "add_dependency": ("id:second", "id:first"),
    "add_dtypes": ({},),
    "add_inames_for_unused_hw_axes": (),
    "add_inames_to_insn": ("j", "id:first"),
    "add_nosync": ("any", "id:first", "id:second"),
    "add_prefetch": ("a", "j"),
    "affine_map_inames": ("j", "k", "k = j + 1"),
    "alias_temporaries": (["t"],),
    "assume": ("n >= 1",),
    "change_arg_to_image": ("a",),
    "chunk_iname": ("j", 2),
    "duplicate_inames": ("j", "id:first"),
    "expand_subst": (),
    "fix_parameters": (),
    "fold_constants": (),
    "infer_unknown_types": (),
    "join_inames": (["j"], "jj"),
    "make_reduction_inames_unique": (),
    "preprocess_kernel": (),
    "preprocess_program": (),
    "prioritize_loops": ("i,j",),
    "privatize_temporaries_with_inames": ("j",),
    "realize_reduction": (),
    "register_preamble_generators": ([],),
    "register_symbol_manglers": ([],),
    "remove_inames_from_insn": (frozenset("j"), "id:first"),
    "remove_instructions": (set(),),
    "remove_predicates_from_insn": (frozenset(), "id:first"),
    "remove_unused_arguments": (),
    "remove_unused_inames": (),
    "rename_argument": ("a", "aa"),
    "rename_callable": ("made", "remade"),
    "rename_iname": ("j", "jj"),
    "rename_inames": (["j"], "jj"),
    "set_argument_order": (["out", "n", "a", "b"],),
    "set_array_axis_names": ("a", "x,y"),
    "set_array_dim_names": ("a", "x,y"),
    "set_instruction_priority": ("id:first", 3),
    "set_options": ("return_dict",),
    "set_temporary_address_space": ("t", "local"),
    "set_temporary_scope": ("t", "local"),
    "simplify_indices": (),
    "split_arg_axis": ([("a", 1)], 4),
    "split_array_axis": ("a", 1, 4),
    "split_array_dim": ([("a", 1)], 4),
    "split_iname": ("j", 4),
    "tag_array_axes": ("a", "N0,N1"),
    "tag_data_axes": ("a", "N0,N1"),
    "tag_inames": ("j:unr",),
    "tag_instructions": ("mine", "id:first"),
}


class TestNames:
    def test_every_public_name_is_known(self):
        modules = {name for name, one in vars(loopy).items() if isinstance(one, types.ModuleType)}
        public = {name for name in vars(loopy) if not name.startswith("_")} - modules
        assert {*loopy.__all__, *public} - PRIVATE <= KNOWN
        assert {"set_options", "make_function", "fuse_kernels"} <= table.DEFERRED

    def test_loopy_has_every_name(self):
        assert {name for name in KNOWN if not hasattr(loopy, name)} <= {*table.WARNINGS}
        assert all(hasattr(loopy.diagnostic, name) for name in table.WARNINGS)

    def test_no_name_stands_in_two_sets(self):
        """A name is deferred, at once, a type, a condition or a constant."""
        for one, names in SETS.items():
            for other, others in SETS.items():
                assert one == other or not names & others, (one, other, names & others)
        assert table.MAKERS | table.TRANSFORMATIONS | table.CONSTRUCTORS.keys() == table.DEFERRED

    def test_the_smaller_tables_name_what_the_large_ones_have(self):
        assert table.FOR_GENERATING.keys() <= table.DEFERRED
        assert table.VERSIONED <= table.MAKERS

    def test_kinds(self):
        """Types are classes, constructors make what the table says, all else that is called is a function."""
        for name in [*table.TYPES, *table.CONSTRUCTORS.values()]:
            assert isinstance(getattr(loopy, name), type), name
        for name in table.MAKERS | table.TRANSFORMATIONS | table.AT_ONCE:
            found = getattr(loopy, name)
            assert callable(found), name
            assert not isinstance(found, type), name
        for name in CONDITIONS | table.WARNINGS:
            assert issubclass(getattr(loopy.diagnostic, name), Exception), name

    def test_modules(self):
        """Every module that the table names is there."""
        for name in table.MODULES:
            assert importlib.import_module(name).__name__ == name

    def test_names_of_modules_are_the_packages(self):
        """A public name that one of the modules shows, too, is the same thing there."""
        others = {
            (module.__name__, name)
            for module in map(importlib.import_module, table.MODULES)
            for name in KNOWN & vars(module).keys() & vars(loopy).keys()
            if vars(module)[name] is not making.own(name)
        }
        assert others == table.NAMESAKES

    def test_members(self):
        """The members that stay names are those of loopy's classes."""
        for name, members in table.MEMBERS.items():
            kind = getattr(loopy, name)
            assert members == {one for one in dir(kind) if one.isupper()}


class TestFunctions:
    @pytest.mark.parametrize("name", sorted(CALLS))
    def test_transformations_give_units(self, name):
        unit = make()
        text = repr(unit)
        assert isinstance(getattr(loopy, name)(unit, *CALLS[name]), loopy.TranslationUnit)
        assert repr(unit) == text

    def test_what_was_not_tried(self):
        for name in table.TRANSFORMATIONS - CALLS.keys():
            first = next(iter(inspect.signature(getattr(loopy, name)).parameters))
            assert first in ("kernel", "t_unit", "translation_unit", "program", "knl"), name

    def test_makers_give_units(self):
        unit, other = make(), loopy.make_function("{:}", "x = 1", name="other", **VERSION)
        made = [
            loopy.merge([unit, other]),
            loopy.fuse_kernels([unit, make()]),
            loopy.make_copy_kernel("c,c"),
            loopy.make_einsum("ij,jk->ik", ["a", "b"]),
            unit.with_entrypoints("made"),
        ]
        # the method instead of make_kernel and make_function
        assert len(made) == len(table.MAKERS) - 1
        assert all(isinstance(one, loopy.TranslationUnit) for one in [*made, unit, other])

    @pytest.mark.parametrize("name", sorted(table.FOR_GENERATING))
    def test_parameters_that_take_callables(self, name):
        """The places and names of parameters whose callables loopy calls later are those of loopy's signature."""
        parameters = [*inspect.signature(getattr(loopy, name)).parameters]
        for place in table.FOR_GENERATING[name]:
            if isinstance(place, int):
                assert parameters[place] in table.FOR_GENERATING[name]
            elif name not in table.VERSIONED:
                assert place in parameters
