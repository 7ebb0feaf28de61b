"""Two steps: where the direct key misses or is not known, code generated from an equal result is used again."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import textwrap
import time

import numpy as np
import pytest
from forbid import like_kcls
from loopys_own import loopy as lp

import kcl
from kcl.cache import layers
from kcl.generate.frontends.loopy import LoopyResult
from kcl.generate.frontends.opencl import SourceResult
from kcl.record.content import content_key

pytestmark = pytest.mark.slow_platforms

REUSED = "same translation unit as before: generated code reused"
_numbers = itertools.count()

PLAIN = """
    import kcl

    @kcl.kernel(pure=True, version='1')
    def scaled(by=2):
        from loopys_own import loopy as lp

        knl = lp.make_kernel("{[i]: 0<=i<n}", f"y[i] = {by}*x[i]", name="scaled", lang_version=(2018, 2))
        return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
"""
REFACTORED = """
    import kcl

    def split(knl, size):
        from loopys_own import loopy as lp

        return lp.split_iname(knl, "i", size, outer_tag="g.0", inner_tag="l.0")

    @kcl.kernel(pure=True, version='1')
    def scaled(by=2):
        from loopys_own import loopy as lp

        unit = lp.make_kernel("{[i]: 0<=i<n}", f"y[i] = {by}*x[i]", name="scaled", lang_version=(2018, 2))
        return split(unit, 16)
"""
TIMED = """
    import time

    import kcl

    @kcl.kernel(pure=True, version='1')
    def scaled(by=2):
        from loopys_own import loopy as lp

        by = by if time.time() else 0
        knl = lp.make_kernel("{[i]: 0<=i<n}", f"y[i] = {by}*x[i]", name="scaled", lang_version=(2018, 2))
        return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
"""
PREAMBLE = """
    import kcl

    def amount(info):
        yield ("10_amount", "#define AMOUNT 1")

    @kcl.kernel(pure=True, version='1')
    def filled():
        from loopys_own import loopy as lp
        import numpy as np

        knl = lp.make_kernel(
            "{[i]: 0<=i<4}",
            [lp.CInstruction("i", "y[i] = AMOUNT;", assignees="y[i]", id="fill")],
            [lp.GlobalArg("y", np.float32, shape=(4,), is_input=False)],
            name="filled",
            lang_version=(2018, 2),
        )
        return lp.register_preamble_generators(knl, [amount])
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Import a text as a new module, or one that exists, from a file of its own; stores are asked anew."""

    def load(text, name=None):
        name = name or f"two_step_{next(_numbers)}"
        path = tmp_path / f"file_{next(_numbers)}.py"  # of one name Python might take old bytecode
        path.write_text(textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        layers.reset()
        return module

    return load


@pytest.fixture
def forbidden(monkeypatch):
    """Make loopy's code generation impossible from the call on."""

    def forbid():
        def raising(*_arguments, **_keywords):
            raise AssertionError("loopy generated code")

        monkeypatch.setattr("loopy.codegen.generate_code_v2", like_kcls(raising))

    return forbid


def looks():
    """Collect (outcome, reason) of the generator layer from now on."""
    seen = []
    kcl.add_hook(lambda event: event.layer == "generator" and seen.append((event.outcome, event.reason)))
    return seen


def scaled(queue, recipe, dtype=np.float32, **parameters):
    """Launch a recipe of this page on ones."""
    _event, (y,) = recipe(**parameters)(queue, x=np.ones(4, dtype))
    return y.tolist()


class TestReuse:
    def test_refactored_recipe(self, queue, load, forbidden):
        """A helper taken out of the recipe is a miss, and nothing is generated; from then on it is a hit."""
        assert scaled(queue, load(PLAIN).scaled) == [2.0] * 4
        forbidden()
        seen = looks()
        assert scaled(queue, load(REFACTORED).scaled) == [2.0] * 4
        assert scaled(queue, load(REFACTORED).scaled) == [2.0] * 4
        assert seen == [("miss", f"not in the cache; {REUSED}"), ("hit", "")]

    def test_another_result(self, queue, load):
        """Another result is generated, whatever lies there."""
        recipe = load(TIMED).scaled
        seen = looks()
        assert scaled(queue, recipe, by=2) == [2.0] * 4
        assert scaled(queue, recipe, by=3) == [3.0] * 4
        assert not any(REUSED in reason for _outcome, reason in seen)

    def test_other_dtypes(self, queue, load):
        """Code of other dtypes is not what is looked for."""
        scaled(queue, load(PLAIN).scaled, np.float32)
        seen = looks()
        assert scaled(queue, load(REFACTORED).scaled, np.float64) == [2.0] * 4
        assert not any(REUSED in reason for _outcome, reason in seen)

    def test_between_kernels_of_one_process(self, queue, load, forbidden):
        """Two recipes that return the same share what is generated, each under its own name."""
        module = load(
            PLAIN + textwrap.indent("\nother = kcl.kernel(pure=True, version='1')(scaled.function)\n", "    ")
        )
        scaled(queue, module.scaled)
        renamed = kcl.kernel(pure=True, version="1")(
            load(REFACTORED.replace("def scaled", "def renamed")).renamed.function
        )
        forbidden()
        kernel, names = renamed(), set()
        kcl.add_hook(lambda event: names.add(event.kernel))
        _event, (y,) = kernel(queue, x=np.ones(4, np.float32))
        assert y.tolist() == [2.0] * 4
        assert names == {"renamed"}

    def test_layer_off(self, queue, load, monkeypatch):
        """With the generator layer off nothing is looked up or stored."""
        monkeypatch.setenv("KCL_NO_CACHE", "generator")
        seen = looks()
        for text in (PLAIN, REFACTORED):
            assert scaled(queue, load(text).scaled) == [2.0] * 4
        assert {reason for _outcome, reason in seen} == {"off: KCL_NO_CACHE=generator"}
        assert not any(layers.generator().memory.scan())

    def test_printing_result(self, queue, load, capfd):
        """A result whose generating does something beside is generated each time."""
        text = TIMED.replace("(knl,", "(lp.set_options(knl, write_code=True, allow_terminal_colors=False),")
        for _ in range(2):
            scaled(queue, load(text).scaled)
            assert "kernel void" in capfd.readouterr().out


class TestPreambles:
    def test_changed_body(self, queue, load):
        """A changed preamble generator gives new code, although loopy's own key is the same."""
        loopys, kcls = set(), set()
        for expected in (1, 2):
            module = load(PREAMBLE.replace("AMOUNT 1", f"AMOUNT {expected}"), "two_step_preamble")
            made = module.filled.function()
            loopys.add(lp.tools.LoopyKeyBuilder()(made))
            kcls.add(content_key(made))
            _event, (y,) = module.filled()(queue, out_host=True)
            assert y.tolist() == [expected] * 4
        assert (len(loopys), len(kcls)) == (1, 2)

    def test_what_a_generator_reaches(self, load):
        """A value that the generator refers to counts, and so does what a closure holds."""
        module = load(PREAMBLE.replace('"#define AMOUNT 1"', 'f"#define AMOUNT {NUMBER}"') + "\n    NUMBER = 1\n")
        before = content_key(module.filled.function())
        assert content_key(module.filled.function()) == before
        module.NUMBER = 2
        assert content_key(module.filled.function()) != before

    def test_file_read_while_generating(self, queue, load, tmp_path):
        """What a version vouches for decides beside the result: such code serves no other version."""
        path = tmp_path / "amount"
        text = PREAMBLE.replace('yield ("10_amount", "#define AMOUNT 1")', f'yield ("1", open({str(path)!r}).read())')
        for expected in (1, 2):
            path.write_text(f"#define AMOUNT {expected}")
            module = load(text.replace("version='1'", f"version='{expected}'"), "two_step_vouched")
            assert content_key(module.filled.function()) is None
            _event, (y,) = module.filled()(queue, out_host=True)
            assert y.tolist() == [expected] * 4

    def test_what_cannot_be_known(self, load):
        """A generator that reads the time has no identity."""
        text = PREAMBLE.replace('"#define AMOUNT 1"', 'f"#define AMOUNT {time.time()}"')
        text = text.replace("import kcl", "import time\n    import kcl", 1)
        assert content_key(load(text).filled.function()) is None


def unit(**changes):
    """Make a translation unit, with changes."""
    chosen = {
        "domain": "{[i]: 0<=i<n}",
        "code": "y[i] = 2*x[i] + f(i)",
        "x": lp.GlobalArg("x", np.float32, shape="n"),
        "y": lp.GlobalArg("y", np.float32, shape="n"),
        "n": lp.ValueArg("n", np.int32),
        "name": "made",
        **changes,
    }
    rules = chosen.get("rules", "f(j) := j")
    made = lp.make_kernel(
        chosen["domain"],
        f"{rules}\n{chosen['code']}",
        [chosen["x"], chosen["y"], chosen["n"], *chosen.get("more", ())],
        name=chosen["name"],
        target=chosen.get("target"),
        lang_version=(2018, 2),
        **({"assumptions": chosen["assumptions"]} if "assumptions" in chosen else {}),
    )
    return chosen.get("then", lambda knl: knl)(made)


def structure(*names, offset=4):
    """Return a structure dtype."""
    return np.dtype({"names": names, "formats": [np.float32] * len(names), "offsets": [0, offset], "itemsize": 12})


DIFFERENT = {
    "domain": {"domain": "{[i]: 1<=i<n}"},
    "constant": {"code": "y[i] = 3*x[i] + f(i)"},
    "type of a constant": {"code": "y[i] = 2.0*x[i] + f(i)"},
    "substitution": {"rules": "f(j) := j + 1"},
    "dtype": {"x": lp.GlobalArg("x", np.float64, shape="n")},
    "open dtype": {"x": lp.GlobalArg("x", shape="n")},
    "shape": {"x": lp.GlobalArg("x", np.float32, shape="n+1")},
    "strides": {"x": lp.GlobalArg("x", np.float32, shape="n", strides=(2,))},
    "offset": {"x": lp.GlobalArg("x", np.float32, shape="n", offset=lp.auto)},
    "address space": {"x": lp.ConstantArg("x", np.float32, shape="n")},
    "size's dtype": {"n": lp.ValueArg("n", np.int64)},
    "direction": {"y": lp.GlobalArg("y", np.float32, shape="n", is_input=True)},
    "another argument": {"more": (lp.ValueArg("m", np.int32),)},
    "structure": {"more": (lp.GlobalArg("s", structure("a", "b"), shape="n", is_input=True),)},
    "names in a structure": {"more": (lp.GlobalArg("s", structure("a", "c"), shape="n", is_input=True),)},
    "offsets in a structure": {"more": (lp.GlobalArg("s", structure("a", "b", offset=8), shape="n", is_input=True),)},
    "symbol name": {"name": "other"},
    "assumption": {"assumptions": "n >= 4"},
    "tag": {"then": lambda knl: lp.tag_inames(knl, "i:g.0")},
    "another tag": {"then": lambda knl: lp.tag_inames(knl, "i:l.0")},
    "unrolling": {"then": lambda knl: lp.split_iname(knl, "i", 4, inner_tag="unr")},
    "option": {"then": lambda knl: lp.set_options(knl, return_dict=True)},
    "build option": {"then": lambda knl: lp.set_options(knl, build_options="-DA")},
    "index dtype": {"then": lambda knl: knl.with_kernel(knl["made"].copy(index_dtype=lp.to_loopy_type(np.int64)))},
    "preamble": {"then": lambda knl: knl.with_kernel(knl["made"].copy(preambles=(("1", "// a"),)))},
    "priority": {"then": lambda knl: lp.prioritize_loops(knl, "i")},
    "target": {"target": lp.PyOpenCLTarget(pointer_size_nbytes=4)},
    "limit of the target": {"target": lp.PyOpenCLTarget(limit_arg_size_nbytes=64)},
    "booleans of the target": {"target": lp.PyOpenCLTarget(use_int8_for_bool=False)},
}

SEEDS = """
    import sys
    sys.path.insert(0, sys.argv[1])
    import json, test_two_step as cases
    print(json.dumps({name: cases.content_key(cases.unit(**changes)) for name, changes in cases.DIFFERENT.items()}))
"""


class TestIdentity:
    def test_each_difference(self):
        """Whatever decides the code makes another identity."""
        found = {
            "plain": content_key(unit()),
            **{name: content_key(unit(**changes)) for name, changes in DIFFERENT.items()},
        }
        assert None not in found.values()
        same = {name: other for name in found for other in found if name < other and found[name] == found[other]}
        assert not same

    def test_equal_units(self):
        """A unit made again, and one that was hashed, launched or copied, is the same."""
        made = unit()
        before = content_key(made)
        lp.tools.LoopyKeyBuilder()(made)
        hash(made)
        LoopyResult(made, "").generate("", {})
        assert content_key(made) == content_key(made.copy()) == content_key(unit()) == before

    def test_nothing_is_remembered(self):
        """The digest that loopy memoises on the object is neither used nor set."""
        made = unit()
        content_key(made)
        assert not hasattr(made, "_pytools_persistent_hash_digest")
        object.__setattr__(made, "_pytools_persistent_hash_digest", b"of something else")
        assert content_key(made) == content_key(unit())

    @pytest.mark.slow
    def test_hash_seeds(self, child):
        """Identities are the same in other processes with other hash seeds."""
        path = __file__.rpartition("/")[0]
        first, second = (child.json(SEEDS, path, PYTHONHASHSEED=seed) for seed in "12")
        assert first == second

    def test_registered_structure(self):
        """The name in C under which a structure is registered counts: no dtype holds it."""
        from pyopencl.tools import get_or_register_dtype

        before = content_key(unit(**DIFFERENT["structure"]))
        get_or_register_dtype(f"structure_{time.time_ns()}", structure(f"field_{time.time_ns()}", "other"))
        assert content_key(unit(**DIFFERENT["structure"])) != before

    def test_registered_callable(self, load):
        """A callable of the user counts by the code of its class."""
        text = """
            from loopys_own import loopy as lp
            import numpy as np
            from loopy.library.function import ScalarCallable

            class Twice(ScalarCallable):
                def emit_call_insn(self, insn, target, expression_to_code_mapper):
                    return 2

            def made():
                knl = lp.make_kernel("{[i]: 0<=i<4}", "y[i] = twice(x[i])", name="made", lang_version=(2018, 2))
                return lp.register_callable(knl, "twice", Twice("twice"))
        """
        identities = {content_key(load(text.replace("return 2", f"return {number}")).made()) for number in (2, 2, 3)}
        assert len(identities) == 2
        assert None not in identities


class TestSource:
    def source(self, **changes):
        """Declare a Source, with changes."""
        return kcl.Source(
            **{
                "code": "kernel void f(global float *x, local float *t) { x[0] = 1; }",
                "entry": "f",
                "arguments": [kcl.Array("x", np.float32, "(4,)", "inout"), kcl.Local("t", np.float32, "4")],
                "global_size": "(4,)",
                **changes,
            }
        )

    @pytest.mark.parametrize(
        "changes",
        [
            {"code": "kernel void f(global float *x, local float *t) { x[0] = 2; }"},
            {"entry": "g"},
            {"global_size": "(8,)"},
            {"local_size": "(2,)"},
            {"build_options": ["-DA"]},
            {"include_dirs": ["inc"]},
            {"arguments": [kcl.Array("x", np.float32, "(4,)", "out"), kcl.Local("t", np.float32, "4")]},
            {"arguments": [kcl.Array("x", np.int32, "(4,)", "inout"), kcl.Local("t", np.float32, "4")]},
            {"arguments": [kcl.Array("x", np.float32, "(4,)", "inout"), kcl.Local("t", np.float32, "8")]},
        ],
    )
    def test_each_difference(self, changes):
        """Everything that is declared counts."""
        plain = SourceResult(self.source()).identity()
        assert SourceResult(self.source()).identity() == plain
        assert SourceResult(self.source(**changes)).identity() != plain
