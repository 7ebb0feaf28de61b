"""No wrong hit: whatever a recipe's outcome depends on is changed, one thing at a time, in whole processes on PoCL.

One cold process fills the caches for the selected rows. A second one shows that each of them hits as long as nothing
is changed. Then each row changes its thing, and a process with kcl's caches must compute what one without any cache
computes. Recipes run in every process.
"""

from __future__ import annotations

import io
import os
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
import slow
from harness import Child
from truth_tree import Call, Change, Edit, Env, Install, Link, Python, Remove, Said, Tree, Write, Zip

from kcl.drivers.pocl import client


class Row(NamedTuple):
    """A change, and what it must lead to."""

    change: Change
    layer: str = "generator"  # where the work must be done again
    same: bool = False  # the number computed does not tell: the code differs in another way
    bypass: bool = False  # no key can hold it: the work is done every time


def same(change: Change, layer: str = "generator") -> Row:
    """Make a row whose numbers stay."""
    return Row(change, layer, same=True)


def program(change: Change) -> Row:
    """Make a row whose program is built again, from text that the generator layer knows."""
    return Row(change, "binary")


def every_time(change: Change | None = None) -> Row:
    """Make a row of a recipe that runs every time; without a change its numbers stay."""
    return Row(change or Change(), bypass=True, same=change is None)


def array(*numbers: int) -> bytes:
    """Return the file of an array."""
    stream = io.BytesIO()
    np.save(stream, np.array(numbers))
    return stream.getvalue()


F, N, C, V, L, S = "functions.py", "near.py", "classes.py", "values.py", "loops.py", "seldom.py"
VERSION = "from loopy.version import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401"
PREAMBLE = """
def preamble(_info):
    yield ("10_factor", "static float generated(float x) { return 8*x; }")
home.preamble = preamble
"""

# by module; "recipe" or "recipe: which of its rows"
TABLE: dict[str, dict[str, Change | Row]] = {
    "functions": {
        "body": Edit(F, "n * 3", "n * 4"),
        "body_condition": Edit(F, "8 if n < 3", "8 if n <= 3"),
        "body_text": Edit(F, '"2 * 3"', '"2 + 5"'),
        "default": Edit(F, "def default(factor=6)", "def default(factor=7)"),
        "keyword_default": Edit(F, "*, factor=7", "*, factor=8"),
        "same_module": Edit(F, "def helper():\n    return 3", "def helper():\n    return 4"),
        "helper_default": Edit(F, "with_default(n=5)", "with_default(n=6)"),
        "helper_default: at run time": Call(before="home.with_default.__defaults__ = (9,)"),
        "helper_keyword": Edit(F, "with_keyword(*, n=7)", "with_keyword(*, n=8)"),
        "starred": Edit(F, "*[2, 3], n=4", "*[2, 3], n=5"),
        "another_module": Edit(N, "def helper():\n    return 4", "def helper():\n    return 5"),
        "third_module": Edit("far.py", "return LOCAL", "return LOCAL + 1"),
        "third_module: constant": Edit("far.py", "LOCAL = 5", "LOCAL = 6"),
        "retargeted": Edit(F, "renamed as alias", "other as alias"),
        "relative": Edit("far.py", "REACHED = 12", "REACHED = 13"),
        "lazily": Edit("unseen.py", "SHIFT = 10", "SHIFT = 11"),
        "lazily: function": Edit("unseen.py", "n + SHIFT", "n - SHIFT"),
        "lazily: at run time": Call(before="import truth.unseen; truth.unseen.SHIFT = 12"),
        "lazily: between two calls": Call(after="import truth.unseen; truth.unseen.SHIFT = 13"),
        "lazily_deeper": Edit("unseen_too.py", "VALUE = 14", "VALUE = 15"),
        "perhaps": Write("absent.py", "FACTOR = 5\n"),
        "inner_function": Edit(F, "return 11", "return 12"),
        "closure": Edit(F, "closing(5)", "closing(6)"),
        "closure_twice": Edit(F, "closing_twice(6)", "closing_twice(7)"),
        "closed": Edit(F, "recipe_in(97)", "recipe_in(98)"),
        "decorator": Edit(F, "+ 13", "+ 14"),
        "decorated": Edit(F, "n + 19", "n - 19"),
        "plain_decorator": Edit(F, "function(n) + 17", "function(n) + 18"),
        "decorator_argument": Edit(F, "@adding(31)", "@adding(32)"),
        "cached": Edit(F, "n + 37", "n + 38"),
        "dispatch": Edit(F, "value + 41", "value + 42"),
        "partial_argument": Edit(F, "by=2)", "by=4)"),
        "partial_function": Edit(F, "n // by", "n - by"),
        "partial_of_partial": Edit(F, "79), 4)", "79), 5)"),
        "lambdas": Edit(F, "n + 83", "n + 84"),
        "in_a_table": Edit(F, "lambda: 89", "lambda: 90"),
        "recursion": Edit(F, "43 if n == 0", "44 if n == 0"),
        "generator": Edit(F, "range(47, 50)", "range(47, 51)"),
        "comprehension": Edit(F, "n != 3", "n != 2"),
        "executed": Edit(F, "n + 29", "n + 30"),
        "function_type": Edit(F, "n + 53", "n + 54"),
        "exception": Edit(F, "n + 59", "n + 60"),
        "matching": Edit(F, "return 61", "return 62"),
        "assigning": Edit(F, "n + 67", "n + 68"),
        "replaced": Call(before="home.replaceable = lambda: 72"),
        "replaced: its code": Call(before="home.replaceable.__code__ = (lambda: 73).__code__"),
        "replaced: between two calls": Call(after="home.replaceable = lambda: 74"),
        "replaced_far": Call(before="home.near.far.constant = lambda: 9"),
        "replaced_library": Call(before="home.near.textwrap.dedent = lambda text: 'b'"),
        "function_attribute": Edit(F, "marked.level = 73", "marked.level = 74"),
        "docstring": Edit(F, '"""One."""', '"""Two."""'),
        "annotation": Edit(F, 'n: "one"', 'n: "two"'),
        "annotation_in_signature": Edit(F, 'n: "three"', 'n: "four"'),
        "shadowed": Edit(F, "TABLE = {", "max = min\nTABLE = {"),
        "shadowed: at run time": Call(
            before="import builtins; builtins.max = lambda *numbers, own=max, **more: "
            "5 if numbers == (1, 2) else own(*numbers, **more)"
        ),
        "given_function": Call("function=near.other"),
        "given_function: its code": Edit(N, "def helper():\n    return 4", "def helper():\n    return 5"),
        "given_function: a lambda": Call("function=lambda: 9"),
        "recipe_in_recipe": Edit(F, "return scaled(4)", "return scaled(5)"),
    },
    "classes": {
        "method": Edit(C, "self.n + 17", "self.n + 18"),
        "static_method": Edit(C, "return 23", "return 24"),
        "class_method": Edit(C, "cls(29).n", "cls(30).n"),
        "property_": Edit(C, "self.n * 19", "self.n * 20"),
        "class_attribute": Edit(C, "    pad = 4", "    pad = 5"),
        "inherited_method": Edit(C, "return 3\n", "return 4\n"),
        "inherited_attribute": Edit(C, "    level = 2", "    level = 3"),
        "overriding": Edit(C, "    pad = 4\n", "    pad = 4\n\n    def overridden(self):\n        return 6\n"),
        "super_call": Edit(C, ".overridden() + 1", ".overridden() + 2"),
        "super_call: base": Edit(C, "return 5\n", "return 7\n"),
        "resolution_order": Edit(C, "(Other, Another)", "(Another, Other)"),
        "resolution_order: method gone": Edit(
            C, "def first(self):\n        return 11", "def firsts(self):\n        return 11"
        ),
        "descriptor": Edit(C, "return 73", "return 74"),
        "metaclass": Edit(C, "return 79", "return 80"),
        "registered": Edit(C, "value = 83", "value = 84"),
        "abstract": Edit(C, "return 89", "return 90"),
        "abstract: base": Edit(C, "self.solve() + 1", "self.solve() + 2"),
        "operators: addition": Edit(C, "other + 31", "other + 32"),
        "operators: call": Edit(C, "return 37", "return 38"),
        "operators: index": Edit(C, "index + 41", "index + 42"),
        "operators: enter": Edit(C, "return 43", "return 44"),
        "operators: iteration": Edit(C, "iter([47, 1])", "iter([47, 2])"),
        "operators: length": Edit(C, "return 53", "return 54"),
        "operators: containment": Edit(C, "item == 67", "item == 68"),
        "operators: attribute": Edit(C, "return 71", "return 72"),
        "as_text": Edit(C, '"59"', '"60"'),
        "as_text: format": Edit(C, '"61"', '"63"'),
        "context_manager": Edit(C, "yield 101", "yield 102"),
        "object_attribute": Edit(C, "Layout(103)", "Layout(104)"),
        "object_changed": Call(after="home.CHANGING.n = 4"),
        "class_changed": Call(after="home.Layout.items.append(3)"),
        "method_replaced": Call(before="home.Layout.size = lambda self: 5"),
        "enum_value": Edit(C, "FAST = 97", "FAST = 96"),
        "enum_method": Edit(C, "value * 2", "value * 3"),
        "enum_parameter": Call("mode=Mode.SLOW"),
        "flags": Edit(C, "    B = 2", "    B = 4"),
        "dataclass_field": Edit(C, "CORNER = Point(1, 2)", "CORNER = Point(1, 3)"),
        "dataclass_default": Edit(C, "y: int = 5", "y: int = 6"),
        "dataclass_factory": Edit(C, "lambda: [1, 2, 3]", "lambda: [1, 2]"),
        "dataclass_method": Edit(C, "self.x + self.y", "self.x - self.y"),
        "dataclass_order": Edit(C, "first: int = 1\n    second: int = 2", "second: int = 2\n    first: int = 1"),
        "dataclass_parameter": Call("point=Point(2)"),
        "named_tuple": Edit(C, "Pair(1, 107)", "Pair(1, 108)"),
        "typed_tuple": Edit(C, "b: int = 3", "b: int = 4"),
        "text_subclass": Edit(C, '+ "!"', '+ "?"'),
        "own_word": Edit(C, "Keyed(109, 0)", "Keyed(110, 0)"),
    },
    "values": {
        "global_integer": Edit(V, "INTEGER = 2", "INTEGER = 3"),
        "global_float": Edit(V, "REAL = 1.5", "REAL = 2.5"),
        "global_text": Edit(V, '"three"', '"drei"'),
        "global_bytes": Edit(V, 'b"four"', 'b"vier"'),
        "global_type": Edit(V, "KIND = 16", "KIND = 16.0"),
        "global_sign": Edit(V, "NEGATIVE = 0.0", "NEGATIVE = -0.0"),
        "global_special": Edit(V, '"inf"', '"nan"'),
        "global_complex": Edit(V, "1 + 2j", "1 + 3j"),
        "global_list": Edit(V, "(3, 4.0)", "(3, 4)"),
        "global_tuple": Edit(V, "(6, 7)", "(6, 8)"),
        "global_dict": Edit(V, '"y": 9', '"y": 10'),
        "global_order": Edit(V, '"first": 1, "second": 2', '"second": 2, "first": 1'),
        "global_set": Edit(V, '"q", "r"', '"q", "z"'),
        "global_frozenset": Edit(V, '"s", "t"', '"s", "u"'),
        "global_array": Edit(V, "np.arange(10", "np.arange(1, 11"),
        "global_shape": Edit(V, "np.zeros((2, 6))", "np.zeros((2, 7))"),
        "global_array_type": Edit(V, "np.zeros((2, 6))", "np.zeros((2, 6), np.float32)"),
        "global_big_array": Edit(V, "(0, 1, 5000)", "(0, 2, 5000)"),
        "global_objects": Edit(V, '"two", None', '"three", None'),
        "global_structure": Edit(V, '("b", np.int32)])', '("b", np.int32)], align=True)'),
        "global_structure: order": Edit(V, '("a", np.int8), ("b", np.int32)', '("b", np.int32), ("a", np.int8)'),
        "global_subarray": Edit(V, "(np.float32, (3,))", "(np.float32, (4,))"),
        "global_scalar": Edit(V, "np.float32(3.25)", "np.float64(3.25)"),
        "global_date": Edit(V, "(2020, 2, 3)", "(2020, 2, 4)"),
        "global_decimal": Edit(V, '"1.50"', '"1.5"'),
        "global_fraction": Edit(V, "Fraction(3, 7)", "Fraction(3, 8)"),
        "global_pattern": Edit(V, "[a-m]", "[a-z]"),
        "global_path": Edit(V, "/a/b", "/a/c"),
        "global_deque": Edit(V, "maxlen=4", "maxlen=5"),
        "global_counter": Edit(V, '"aab"', '"aaab"'),
        "global_defaults": Edit(V, "lambda: 11", "lambda: 12"),
        "global_slice": Edit(V, "slice(1, 5)", "slice(1, 6)"),
        "global_range": Edit(V, "range(3, 9)", "range(3, 10)"),
        "global_long": Edit(V, '"last"', '"lost"'),
        "global_branch": Edit(V, "BRANCH = 21 if", "BRANCH = 23 if"),
        "list_in_place": Call(after="home.IN_PLACE.append(2)"),
        "dict_in_place": Call(after="home.DICT_IN_PLACE['n'] = 2"),
        "array_in_place": Call(after="home.ARRAY_IN_PLACE[2] = 5"),
        "set_in_place": Call(after="home.SET_IN_PLACE.add(2)"),
        "nested_in_place": Call(after="home.NESTED_IN_PLACE['deep'][0][0] = 2"),
        "rebound": Call(before="home.REBOUND = 6"),
        "rebound: between two calls": Call(after="home.REBOUND = 7"),
        "parameter_type: float": Call("value=1.0"),
        "parameter_type: bool": Call("value=True"),
        "parameter_type: int32": Call("value=np.int32(1)"),
        "parameter_type: int64": Call("value=np.int64(1)"),
        "parameter_type: float32": Call("value=np.float32(1)"),
        "parameter_type: text": Call("value='1'"),
        "parameter_value": Call("value=2"),
        "parameter_sign": Call("value=-0.0"),
        "parameter_list": Call("values=[1, 2]"),
        "parameter_array": Call("values=np.arange(5) + 1"),
        "parameter_dtype": Call("dtype=np.float64"),
        "parameter_mapping": Call("options={'b': 2, 'a': 1}"),
    },
    "seldom": {
        "added_to_builtins": Edit(S, "TRUTH_ADDED = 2", "TRUTH_ADDED = 3"),
        "added_to_builtins: between two calls": Call(after="import builtins; builtins.TRUTH_ADDED = 4"),
        "sentinel": Edit(S, "def given(x=UNSET)", "def given(x=MISSING)"),
        "sentinel_given": Edit(S, "def sentinel_given(x=UNSET)", "def sentinel_given(x=MISSING)"),
        "order_in_memory": Edit(S, 'order="C"', 'order="F"'),
        "mask": Edit(S, "mask=[0, 1, 0]", "mask=[0, 0, 1]"),
        "tagged": Edit(S, "TAGGED.tag = 3", "TAGGED.tag = 4"),
        "unit": Edit(S, '{"unit": 2}', '{"unit": 3}'),
        "registered_class": Edit(S, "Shape.register(Square)", "Shape.register(Triangle)"),
        "registered_class: between two calls": Call(after="home.Shape.register(home.Triangle)"),
        "field_metadata": Edit(S, '{"width": 2}', '{"width": 3}'),
        "field_type": Edit(S, "x: int =", "x: float ="),
        "member_attribute": Edit(S, "(1, 5)", "(1, 6)"),
        "member_attribute: between two calls": Call(after="home.Member.ONE.width = 7"),
        "made_by_exec": Edit(S, "width = 6", "width = 7"),
        "same_list": Edit(S, "SECOND = [1]", "SECOND = FIRST"),
        "parent_package": Edit("below/__init__.py", "TRUTH_BELOW = 2", "TRUTH_BELOW = 3"),
        "archived": Zip("return 3"),
        "asserting": Python("-O"),
        "debugging": Python("-O"),
        "position": every_time(Edit(S, "def given", "\n\ndef given")),
    },
    "reads": {
        "opened": Write("data/opened.txt", "3"),
        "opened_again": Edit("data/again.txt", "2", "3", same_second=True),
        "opened_bytes": Write("data/bytes.bin", b"\3"),
        "opened_low": Write("data/low.txt", "3"),
        "by_path": Write("data/path.txt", "3"),
        "by_helper": Edit("data/helped.json", "2", "3"),
        "by_numpy": Write("data/array.npy", array(1, 3)),
        "by_numpy_text": Edit("data/table.txt", "3 4", "3 5"),
        "by_numpy_raw": Write("data/raw.bin", b"\1\3"),
        "by_numpy_map": Write("data/map.bin", b"\1\3"),
        "by_resource": Write("data/resource.txt", "3"),
        "missing": Write("data/missing.txt", "3"),
        "linked": Link("data/link.txt", "targets/two.txt"),
        "linked: file behind it": Write("data/targets/one.txt", "4"),
        "link_itself": Link("data/pointer", "nowhere-2"),
        "linked_folder": Link("data/folder", "targets/two"),
        "resolved": Link("data/resolved.txt", "targets/two.txt"),
        "relative_file": Python(folder="other"),
        "relative_file: written": Write("../work/relative.txt", "4"),
        "named_file": Write("data/truth_named.txt", "3"),
        "working_directory": Python(folder="other"),
        "working_directory_path": Python(folder="other"),
        "absolute_path": Python(folder="other"),
        "variable_item": Env(TRUTH_ITEM="3"),
        "variable_got": Env(TRUTH_GOT="3"),
        "variable_bytes": Env(TRUTH_BYTES="3"),
        "variable_helper": Env(TRUTH_HELPER="3"),
        "variable_helper: gone": Env(TRUTH_HELPER=None),
        "variable_named": Env(TRUTH_NAMED="3"),
        "variable_named: the name": Edit("reads.py", '"TRUTH_NAMED"', '"TRUTH_OTHER"'),
        "variable_asked": Env(TRUTH_ASKED=""),
        "variable_expanded": Env(TRUTH_EXPANDED="a/c"),
        "variable_item: between two calls": Call(after="import os; os.environ['TRUTH_ITEM'] = '5'"),
        "home": Env(HOME="/nowhere/another"),
        "variables_listed": every_time(Env(TRUTH_LISTED_1="1")),
        "variables_copied": every_time(Env(TRUTH_COPIED="3")),
        "from_file": Edit("kernels/from_file.cl", "* 2", "* 3"),
        "from_file: same second": Edit("kernels/from_file.cl", "* 2", "* 4", same_second=True),
    },
    "dynamic": {
        "timed": every_time(),
        "timed_helper": every_time(),
        "dated": every_time(),
        "random_number": every_time(),
        "unique": every_time(),
        "listed": every_time(Write("data/listed/new.txt", "")),
        "listed_path": every_time(Write("data/listed/new.txt", "")),
        "globbed": every_time(Write("data/listed/new.txt", "")),
        "exists": every_time(Write("data/listed/new.txt", "")),
        "exists_path": every_time(Write("data/listed/new.txt", "")),
        "sized": every_time(Write("data/sized.txt", "12345")),
        "process": every_time(Write("data/process.txt", "3")),
        "attribute_computed": every_time(Edit("chosen.py", "NUMBER_ONE = 5", "NUMBER_ONE = 6")),
        "module_computed": every_time(Edit("chosen.py", "IMPORTED = 6", "IMPORTED = 7")),
        "evaluated": every_time(Edit("dynamic.py", "ALPHA = 3", "ALPHA = 4")),
        "by_globals": every_time(Edit("dynamic.py", "ALPHA = 3", "ALPHA = 4")),
        "by_modules": every_time(Edit("chosen.py", "LISTED = 7", "LISTED = 8")),
        "arguments": every_time(),
        "language": every_time(Env(LC_ALL="C")),
    },
    "programs": {
        "header": program(Edit("kernels/header.h", "2", "3")),
        "header_nested": program(Edit("kernels/inner.h", "2", "3")),
        "header_angled": program(Edit("kernels/angled.h", "2", "3")),
        "header_shadowed": program(Write("first/shadowed.h", "#define FACTOR 3\n")),
        "header_nested_shadowed": program(Write("first/shadowed_too.h", "#define FACTOR 3\n")),
        "header_same_second": program(Edit("kernels/same_second.h", "2", "3", same_second=True)),
        "header_macro": program(Edit("kernels/macro.h", "2", "3")),
        "header_macro: shadowed": program(Write("first/macro.h", "#define FACTOR 3\n")),
        "header_macro_option": program(Edit("kernels/option.h", "2", "3", same_second=True)),
        "header_macro_either": program(Edit("kernels/or.h", "2", "3")),
        "header_put_together": Row(Edit("kernels/together.h", "2", "3"), "binary", bypass=True),
        "header_asked": program(Write("first/asked.h", "")),
        "header_perhaps": program(Write("first/perhaps.h", "#define FACTOR 3\n")),
        "header_in_comment": program(Edit("kernels/commented.h", "2", "3")),
        "header_continued": program(Edit("kernels/continued.h", "2", "3")),
        "header_conditional": program(Edit("kernels/conditional.h", "2", "3")),
        "header_link": program(Link("kernels/link.h", "targets/two.h")),
        "header_order": Edit("programs.py", "[FIRST, KERNELS, HERE]", "[KERNELS, FIRST, HERE]"),
        "header_order: first one gone": program(Remove("first/order.h")),
        "build_option": Edit("programs.py", "-DFACTOR=3", "-DFACTOR=4"),
        "build_option_order": Edit("programs.py", "-DFACTOR=4", "-DFACTOR=5"),
        "forced_option": program(Env(PYOPENCL_BUILD_OPTIONS="-DFORCED=3")),
        "pocl_option": program(Env(POCL_EXTRA_BUILD_FLAGS="-DEXTRA=3")),
        "source_text": same(Edit("programs.py", "FP_CONTRACT OFF", "FP_CONTRACT ON")),
        "source_text: PoCL's work-group method": same(Env(POCL_WORK_GROUP_METHOD="loops"), "binary"),
    },
    "loops": {
        "loop_body": Edit(L, '"loop_body", "3"', '"loop_body", "4"'),
        "loop_open": Edit(L, "4*x[i]", "5*x[i]"),
        "loop_parameter": Call("factor=7"),
        "loop_split": same(Call("width=16")),
        "loop_transformed": same(Edit("transformations.py", "WIDTH = 16", "WIDTH = 8")),
        "loop_callable": Edit("callables.py", "7*x", "8*x"),
        "loop_preamble_generator": Edit(L, "5*x", "6.5f*x"),
        "loop_preamble_generator: replaced": Call(before=PREAMBLE),
        "loop_preamble": Edit(L, "6*x", "6.5f*x"),
        "loop_name": same(Call("name='another_name'")),
        "loop_options": same(Edit(L, '"return_dict": False', '"return_dict": True')),
        "loop_options: in place": same(Call(after="home.OPTIONS['allow_fp_reordering'] = False")),
        "loop_build_options": Edit(L, "(2*x)", "(3*x)"),
        "loop_target": same(Call("width=4096")),
        "loop_target_options": same(Edit("transformations.py", "use_int8_for_bool=True", "use_int8_for_bool=False")),
        "loop_language_version": same(Edit("versioned.py", VERSION, "LOOPY = 0")),
        "loop_own_version": same(Call(before="home.LOOPY_USE_LANGUAGE_VERSION_2018_2 = (2018, 2)")),
        "loop_argument_checks": same(Env(_LOOPY_SKIP_ARG_CHECKS="1")),
        # Not noise: loopy leaves out the argument checks of its invokers under -O.
        "loop_optimised": same(Python("-O")),
        "loop_domain": same(Call("domain='{[i]: 0<=i and i+1<=n}'")),
        "loop_symbolic": Edit(L, "2 + 3", "2 + 4"),
    },
    "installed": {
        "version": Install("truth_installed", "truth_installed/__init__.py", "return 2", "return 3", version="1.1"),
        "version: replaced": Call(before="home.truth_installed.factor = lambda: 3"),
        "reinstalled": Install("truth_single", "truth_single.py", "2", "3"),
        "editable": Edit("../editable/truth_editable.py", "return 2", "return 3"),
        "installed_lazily": Install("truth_lazy", "truth_lazy/inside.py", "2", "3"),
        "installed_below": Install("truth_lower", "truth_lower.py", "2", "3", version="1.1"),
        "installed_by_helper": Install("truth_single", "truth_single.py", "2", "3"),
        "installed_object": Install("truth_installed", "truth_installed/__init__.py", '"n": 5', '"n": 6'),
        "installed_object: in place": Call(before="home.truth_installed.TABLE['n'] = 6"),
    },
}
QUICK = "KCL_TRUTH_PROGRAMS" not in os.environ  # `make truth` starts every child as a program
ROWS = [(module, name) for module, rows in TABLE.items() for name in rows]
# what a recipe is called with before anything is changed
ARGUMENTS = {"parameter_array": "values=np.arange(5)", "parameter_mapping": "options={'a': 1, 'b': 2}"}


def row_of(module: str, name: str) -> Row:
    found = TABLE[module][name]
    return found if isinstance(found, Row) else Row(found)


def launch(module: str, name: str, change: Change | None = None) -> list[str]:
    """Return what the driver is to do for a row, its change made or not."""
    recipe = name.partition(":")[0]
    change = change or Change()
    arguments = ARGUMENTS.get(recipe, "") if change.arguments is None else change.arguments
    return [module, recipe, arguments, change.before, change.after]


class Filled(NamedTuple):
    """A tree whose caches know the recipes of some rows, with what the cold and an unchanged process said."""

    tree: Tree
    rows: list[tuple[str, str]]
    cold: Said
    again: Said

    def bypassed(self, layer: str) -> list[str]:
        """Name the recipes that a layer bypasses in every run."""
        rows = [(name, row_of(module, name)) for module, name in self.rows]
        return sorted({name.partition(":")[0] for name, row in rows if row.bypass and row.layer == layer})


def fill(folder: pathlib.Path, rows: list[tuple[str, str]]) -> Filled:
    """Run the recipes of rows cold, and once more; what nothing changed must hit."""
    tree = Tree(Child(folder))
    recipes = [launch(*each) for each in dict.fromkeys((module, name.partition(":")[0]) for module, name in rows)]
    # also fills the caches below kcl of the processes without kcl's
    without = tree.start(recipes, Change(), cached=False)
    cold = tree.ask(recipes)
    assert client.idle(str(tree.child.cache / "kcl"), 120)
    assert without.said().numbers == cold.numbers
    filled = Filled(tree, rows, cold, tree.ask(recipes, KCL_PROMOTE="off"))
    assert not cold.errors
    assert filled.again.numbers == cold.numbers
    return filled


Trees = dict[tuple[tuple[str, str], ...], Filled]


@pytest.fixture(scope="module")
def trees() -> Iterator[Trees]:
    """The trees of this file, by rows."""
    made: Trees = {}
    yield made
    for filled in made.values():
        filled.tree.close()


def _filled(request: pytest.FixtureRequest, trees: Trees, factory: pytest.TempPathFactory) -> Filled:
    fixture = str(request.fixturename)
    here = [one for one in slow.together(request.node) if fixture in getattr(one, "fixturenames", ())]
    chosen = {(one.callspec.params["module"], one.callspec.params["name"]) for one in here if hasattr(one, "callspec")}
    rows = tuple(row for row in ROWS if row in chosen) or tuple(ROWS)
    if rows not in trees:
        trees[rows] = fill(factory.mktemp("truth"), [*rows])
    return trees[rows]


@pytest.fixture
def filled(request: pytest.FixtureRequest, trees: Trees, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return _filled(request, trees, tmp_path_factory)


class Ran(NamedTuple):
    """What a process with kcl's caches said after a change, beside what is right."""

    found: Said
    now: list[float]  # by launch
    right: list[float]
    before: list[float]  # by launch that the change is about


def mutated(module: str, name: str, filled: Filled) -> Ran:
    """Apply a row's change and launch its recipe, with kcl's caches and without any."""
    row, tree, recipe = row_of(module, name), filled.tree, name.partition(":")[0]
    row.change.apply(tree)
    job = [launch(module, name, row.change)]
    running = tree.start(job, row.change, cached=True, quick=QUICK, KCL_PROMOTE="off")
    before = filled.cold.numbers[recipe]
    right = before * (2 if row.change.after else 1)
    if not (row.same and QUICK):
        without = tree.start(job, row.change, cached=False, quick=QUICK).said()
        assert without.errors == {}
        right = without.numbers[recipe]
    found = running.said()
    assert found.errors == {}
    now = found.numbers[recipe]
    if row.change.after:
        before = now[:1]
    if not row.same:
        assert right[-1:] != before, "the change makes no difference to the number: choose another"
    return Ran(found, now, right, before)


class TestMutations:
    def test_every_recipe_hits_as_long_as_nothing_changes(self, filled: Filled) -> None:
        """They all run, none is bypassed, and nothing is built but what no key of a program can hold."""
        again = filled.again
        assert {event[2] for event in again.events if event[0] == "generator"} == {"hit"}
        assert again.built == len(filled.bypassed("binary"))
        assert sorted(again.ran) == sorted({name.partition(":")[0] for _module, name in filled.rows})

    def test_table_is_long_enough(self) -> None:
        """Sixty rows are asked for."""
        assert len(ROWS) >= 60

    @pytest.mark.parametrize(("module", "name"), ROWS)
    @pytest.mark.slow_cases(16)
    def test_mutation(self, module: str, name: str, filled: Filled) -> None:
        """The number is that of a process without caches; a text that another recipe gave may be found."""
        row, recipe = row_of(module, name), name.partition(":")[0]
        try:
            ran = mutated(module, name, filled)
        finally:
            filled.tree.restore()
        assert ran.now == ran.right
        assert "bypass" not in ran.found.outcomes("generator")
        if row.layer == "binary":
            assert ran.found.outcomes("binary")[-1] == ("bypass" if row.bypass else "miss"), ran.found.reason("binary")
            assert ran.found.built == 1
        assert set(ran.found.ran) == {recipe}
