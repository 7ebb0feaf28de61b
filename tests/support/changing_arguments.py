"""Programs that change an argument of loopy after the call, before, beside or behind another call.

Each function `(run)` is a program, see `beside.programs` and tests/truth/families/test_changing_arguments.py. Its
argument is one that loopy has read at the call, one that loopy keeps by reference, or one where nothing that matters
changes.
"""

import collections
import dataclasses
import enum
import importlib
from collections.abc import Mapping

import loopy as lp
import numpy as np
from beside_driver import Run, quiet  # noqa: F401
from pytools.tag import Tag

DOMAIN = "{[i]: 0<=i<8}"
SIZED = "[n] -> {[i]: 0<=i<n}"
X = np.arange(1.0, 9.0)
VERSION = {"lang_version": (2018, 2)}
FACTOR = {"factor": 2}


def data(dtype=np.float64):
    """Return arguments for an array in and an array out."""
    return [lp.GlobalArg("x", np.float64, shape=(8,)), lp.GlobalArg("z", dtype, shape=(8,))]


def times(texts="z[i] = 2*x[i]", arguments=None, domain=DOMAIN, **keywords):
    """Return a unit."""
    return lp.make_kernel(domain, texts, arguments or data(), **{**VERSION, **keywords})


def sized(**keywords):
    arguments = [lp.GlobalArg("x,z", np.float64, shape=(8,)), lp.ValueArg("n", np.int32)]
    return times(arguments=arguments, domain=SIZED, **keywords)


def table_of(values):
    """Return the table `t`."""
    where = lp.AddressSpace.GLOBAL
    return lp.TemporaryVariable("t", initializer=values, read_only=True, address_space=where)


def out():
    return np.zeros(8)


# {{{ loopy has read it at the call


class Listed(list):
    pass


class Pairs(Mapping):
    def __init__(self, **pairs):
        self.pairs = pairs

    def __len__(self):
        return len(self.pairs)

    def __iter__(self):
        return iter(self.pairs)

    def __getitem__(self, name):
        return self.pairs[name]


def texts_changed(made, change, run):
    """Make a unit of texts before they change, and one of them afterwards."""
    texts = made()
    one = times(texts)
    change(texts)
    other = times(texts)
    return run(one), run(other)


TWICE, THRICE = "z[i] = 2*x[i]", "z[i] = 3*x[i]"


class Reading(tuple):
    def __iter__(self):
        return iter([f"z[i] = {FACTOR['factor']}*x[i]"])


def second(texts):
    """Change the only text."""
    texts[0] = THRICE


# The texts of a program, by what holds them, and how they change.
TEXTS = {
    "a_list": (lambda: [TWICE], second),
    "a_list_of_a_class": (lambda: Listed([TWICE]), second),
    "an_array_of_objects": (lambda: np.array([TWICE], dtype=object), second),
    "a_global_that_a_method_reads": (lambda: Reading([""]), lambda _texts: FACTOR.update(factor=3)),
}


def texts_that_change(run):
    return {name: texts_changed(*row, run) for name, row in TEXTS.items()}


def a_mapping_of_the_user(run):
    pairs = Pairs(n=6)
    one = sized(fixed_parameters=pairs)
    pairs.pairs["n"] = 4
    other = sized(fixed_parameters=pairs)
    return run(one, z=out()), run(other, z=out())


def an_array_computed_from_another(run):
    sizes = np.array([2.0])
    table = table_of(sizes * 3)
    sizes[0] = 4
    return run(times("z[i] = t[0]*x[i]", [*data(), table]))


def changed_before_a_later_transformation(run):
    texts = Listed(["z[i] = 2*x[i]"])
    unit = times(texts)
    second(texts)
    split = lp.split_iname(unit, "i", 4)
    return run(split), run(unit)


def an_argument_whose_attribute_is_set(run):
    one = lp.GlobalArg("z", np.float64, shape=(8,))
    unit = times("z[i] = x[i]/4", [lp.GlobalArg("x", np.float64, shape=(8,)), one])
    one.dtype = lp.to_loopy_type(np.int32)
    return run(unit), run(times("z[i] = x[i]/4", [lp.GlobalArg("x", np.float64, shape=(8,)), one]))


def a_generator_with_a_state(run):
    state = ["z[i] = 2*x[i]"]
    unit = times(text for text in state)
    second(state)
    return run(unit), run(times(text for text in state))


def a_part_of_a_unit_that_a_transformation_copied(run):
    unit = times("z[i] = x[i]/4")
    instructions = unit.default_entrypoint.instructions
    split = lp.split_iname(unit, "i", 4)
    instructions[0] = instructions[0].copy(expression=instructions[0].expression * 8)
    return run(split), run(lp.split_iname(unit, "i", 4))


# What loopy's own disk caches pickle by name: kcl holds no function of the program in a key.
NUMBER = [2]
KIND = [np.int32]


def mangler(_kernel, name):
    return (lp.to_loopy_type(KIND[0]), "7") if name == "SEVEN" else None


def preamble(_info):
    yield "10_mine", f"#define F {NUMBER[0]}"


def a_symbol_that_a_function_gives(run):
    unit = times("<> t = SEVEN/2\nz[i] = t*x[i]", symbol_manglers=[mangler])
    typed = lp.infer_unknown_types(unit, expect_completion=False)
    KIND[0] = np.float32
    return run(typed), typed.default_entrypoint.temporary_variables["t"].dtype.numpy_dtype.name


def a_callable_whose_attribute_changes(run):
    global Scaling

    class Scaling(lp.ScalarCallable):
        text = "2.0*"

        def with_types(self, arg_id_to_dtype, callables_table):
            if 0 not in arg_id_to_dtype:
                return self.copy(arg_id_to_dtype=arg_id_to_dtype), callables_table
            wide = lp.to_loopy_type(np.float64)
            found = self.copy(name_in_target=type(self).text, arg_id_to_dtype={0: wide, -1: wide})
            return found, callables_table

    unit = lp.register_callable(times("z[i] = scaling(x[i])"), "scaling", Scaling(name="scaling"))
    typed = lp.infer_unknown_types(unit, expect_completion=False)
    Scaling.text = "3.0*"
    return run(typed)


def a_tag_whose_attribute_changes(run):
    class Mine(Tag):
        def __init__(self, number):
            object.__setattr__(self, "number", number)

        def __hash__(self):
            return hash(self.number)

        def __eq__(self, other):
            return type(self) is type(other) and self.number == other.number

    one = Mine(2)
    unit = lp.tag_inames(times(), {"i": one})
    split = lp.split_iname(unit, "i", 4)
    object.__setattr__(one, "number", 3)
    (found,) = unit.default_entrypoint.iname_tags_of_type("i", Mine)
    return found.number, run(split)


def options_that_an_object_holds(run):
    options = lp.Options(return_dict=True)
    unit = times(options=options)
    split = lp.split_iname(unit, "i", 4)
    options.return_dict = False
    return isinstance(split(run.queue, x=X)[1], dict), isinstance(unit(run.queue, x=X)[1], dict)


def own_array(name, dtype):
    """Return an argument of loopy's own class: no face stands before a module that is imported by its name."""
    own = importlib.import_module("loopy.kernel.data")
    return own.ArrayArg(name, dtype, shape=(8,), address_space=own.AddressSpace.GLOBAL)


def typed(dtype):
    """Return a dtype as loopy's own arguments hold it."""
    return importlib.import_module("loopy.types").NumpyType(dtype)


def a_part_of_an_argument_of_loopy(run):
    argument = own_array("z", np.int32)
    one = lp.split_iname(times("z[i] = x[i]/4", [*data()[:1], argument]), "i", 4)
    argument.dtype.dtype = np.dtype(np.float64)
    return run(one), run(lp.tag_inames(one, {"i_inner": "unr"}))


def an_instruction_of_loopy(run):
    own = importlib.import_module("loopy.kernel.instruction")
    instruction = own.Assignment("z[i]", "2*x[i]", id="a", within_inames=frozenset({"i"}))
    one = times([instruction])
    instruction.expression = own.Assignment("z[i]", "3*x[i]").expression
    return run(one), run(lp.split_iname(one, "i", 4)), run(times([instruction]))


# }}}

# {{{ loopy keeps it


def defined(**keywords):
    """Return a unit whose code has a name that build options define."""
    multiply = lp.CInstruction(
        "i", "z[i] = F*x[i];", read_variables=frozenset({"x", "i"}), assignees="z[i]"
    )
    return times([multiply], **keywords)


def build_options_changed_between_launches(run):
    options = ["-DF=2"]
    unit = lp.set_options(defined(), build_options=options)
    found = [run(unit)]
    options[0] = "-DF=4"
    return [*found, run(unit), run(lp.split_iname(unit, "i", 4))]


def build_options_in_a_dictionary(run):
    options = {"build_options": ["-DF=2"]}
    unit = defined(options=options)
    options["build_options"][0] = "-DF=4"
    options["return_dict"] = True
    return run(unit), isinstance(unit(run.queue, x=X)[1], dict)


def build_options_that_are_the_programs(run):
    options = ["-DF=2"]
    unit = lp.set_options(defined(), build_options=options)
    return unit.default_entrypoint.options.build_options is options, run(unit)


def build_options_that_the_unit_changes(run):
    options = ["-DF=2"]
    unit = lp.set_options(defined(), build_options=options)
    unit.default_entrypoint.options.build_options[0] = "-DF=6"
    return options, run(unit)


def a_rule_whose_names_change(run):
    names = ["a"]
    rule = lp.SubstitutionRule("f", tuple(names), lp.symbolic.parse("2*a"))
    listed = lp.SubstitutionRule("g", names, lp.symbolic.parse("3*a"))
    unit = times([rule, "z[i] = f(x[i])"])
    names[0] = "b"
    return run(unit), listed.arguments[0]


def variables_that_a_transformation_reads(run):  # noqa: ARG001
    names = ["x", "i"]
    one = lp.CInstruction("i", "z[i] = 2*x[i];", read_variables=names, assignees="z[i]", id="a")
    unit = times([one], [*data(), lp.GlobalArg("y", np.float64, shape=(8,))])
    names.append("y")
    fewer = lp.remove_unused_arguments(unit)
    names.pop()
    return sorted(arg.name for arg in fewer.default_entrypoint.args)


def looked(values):
    """Return a unit that reads a table."""
    return times("z[i] = t[i]*x[i]", [*data(), table_of(values)])


class Table(np.ndarray):
    pass


TABLES = {
    "a_view": lambda: np.full((2, 8), 2.0)[1],
    "no_array_of_numpy": lambda: np.full(8, 2.0).view(Table),
}


def tables_that_change(run):
    found = {}
    for name, make in TABLES.items():
        values = make()
        unit = looked(values)
        (values.base if name == "a_view" else values).fill(3)
        found[name] = run(unit)
    return found


def a_table_changed_between_launches(run):
    values = np.full(8, 2.0)
    unit = looked(values)
    found = [run(unit)]
    values[:] = 3
    return [*found, run(unit), run(lp.split_iname(unit, "i", 4))]


def two_tables_of_one_array(run):
    values = np.full(8, 2.0)
    one = looked(values)
    found = run(one)
    values *= 2
    return found, run(looked(values)), run(one)


def a_function_that_gives_a_preamble(run):
    unit = defined(preamble_generators=[preamble])
    NUMBER[0] = 3
    split = lp.split_iname(unit, "i", 4)
    NUMBER[0] = 4
    return run(split)


# }}}

# {{{ nothing that matters changes: such programs wait in their second run, and loopy is not imported


class Size(enum.IntEnum):
    FOUR = 4


@dataclasses.dataclass(frozen=True)
class Blocked(Tag):
    number: int = 1

    def cost(self):
        return self.number * 2


class Plain(Tag):
    def cost(self):
        return 3


@quiet
def texts_in_containers(run):
    texts = ["z[i] = 2*x[i]"]
    unit = times(texts, preambles=[("10_mine", "/* mine */")], silenced_warnings=["write_race(a)"])
    texts.clear()
    return run(lp.tag_inames(lp.split_iname(unit, "i", Size.FOUR), {"i_inner": "unr"}))


@quiet
def ordered_and_default_dictionaries(run):
    tags = collections.defaultdict(list, i_inner="unr")
    unit = lp.split_iname(sized(fixed_parameters=collections.OrderedDict(n=8)), "i", 4)
    unit = lp.tag_inames(unit, tags)
    tags.clear()
    return run(lp.tag_inames(unit, {"i_outer": "g.0"}))


@quiet
def a_table(run):
    return run(looked(np.arange(8.0))), run(looked(np.arange(16.0)[::2]))


@quiet
def build_options_that_are_kept(run):
    options = ["-DF=3"]
    unit = lp.split_iname(lp.set_options(defined(), build_options=options), "i", 4)
    return run(lp.tag_inames(unit, {"i_inner": "unr"})), len(options)


@quiet
def tags_of_the_user(run):
    unit = lp.tag_inames(times(), {"i": Blocked(4)})
    return run(lp.split_iname(lp.tag_inames(unit, {"i": Plain()}), "i", 4))


@quiet
def a_list_used_again(run):
    texts, found = [], []
    for factor in (2, 3):
        texts.append(f"z[i] = {factor}*x[i]")
        found.append(times(texts, name=f"k{factor}"))
        texts.clear()
    return [run(unit) for unit in found]


# }}}
