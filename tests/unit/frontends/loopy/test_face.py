"""The face of loopy: every public name gives something usable, and each call is recorded or carried out at once."""

import copy
import enum
import importlib
import inspect
import pickle
import types
import typing
import warnings
from collections import OrderedDict
from functools import partial

import numpy as np
import pytest
from recorded_units import VERSION, make, thing, waits

import kcl.loopy as lp
from kcl.base import events
from kcl.errors import CacheFault
from kcl.frontends.loopy import face, recorder, table, unmade

loopy = importlib.import_module("loopy")  # itself, where an import statement gives the face

NAMES = sorted(set(loopy.__all__) | table.DEFERRED | table.TYPES | table.AT_ONCE)


class TestNames:
    @pytest.mark.parametrize("name", NAMES)
    def test_every_public_name(self, name):
        """A name gives loopy's own, or what stands for it."""
        found, own = getattr(lp, name), getattr(loopy, name)
        assert getattr(face.face, name) is found
        if isinstance(found, face.Function):
            assert callable(own)
            assert found.__doc__ == own.__doc__
            assert inspect.signature(found) == inspect.signature(own)
        elif isinstance(found, type) and issubclass(type(found), unmade.Kind):
            assert found.real() is own
            assert found == own
            assert (found.__name__, found.__doc__, dir(found)) == (
                own.__name__,
                own.__doc__,
                dir(own),
            )
            assert getattr(lp, name) is own  # from the first question on
        else:
            assert found is own

    def test_names_that_loopy_does_not_have(self):
        """A name that loopy does not have raises AttributeError, on members, too."""
        for holder in (
            lp,
            face.face,
            face.submodule("loopy.kernel.data"),
            thing("AddressSpace"),
            lp.AddressSpace,
        ):
            with pytest.raises(AttributeError):
                holder.NONEXISTENT  # noqa: B018
            assert not hasattr(holder, "nonexistent")

    def test_dir(self):
        """`dir` lists loopy's names."""
        assert {*loopy.__all__} <= {*dir(lp)}
        assert dir(face.submodule("loopy.kernel.data")) == dir(loopy.kernel.data)

    def test_modules(self):
        """The modules of loopy whose public names are recorded are faces, at any depth; all others are loopy's."""
        assert lp.kernel.data.AddressSpace.LOCAL == loopy.AddressSpace.LOCAL
        assert isinstance(lp.transform.iname, face.Face)
        assert lp.transform.iname.split_iname is lp.split_iname
        assert lp.schedule is loopy.schedule
        assert lp.kernel.tools is loopy.kernel.tools
        assert (
            lp.version.LOOPY_USE_LANGUAGE_VERSION_2018_2
            == loopy.version.LOOPY_USE_LANGUAGE_VERSION_2018_2
        )
        assert lp.transform.callable.rename_iname is loopy.transform.callable.rename_iname

    @pytest.mark.parametrize("name", ["add_barrier", "precompute", "realize_reduction"])
    def test_modules_with_the_name_of_a_function(self, name):
        """In a package of loopy such a name is the module, which has the function."""
        module = getattr(lp.transform, name)
        assert isinstance(getattr(loopy.transform, name), types.ModuleType)
        assert isinstance(module, face.Face)
        assert getattr(module, name) is getattr(lp, name)

    def test_what_a_program_stores_in_a_module_of_loopy(self):
        """An attribute that is set on the face is loopy's."""
        module = face.submodule("loopy.kernel.data")
        module.OF_A_TEST = 1
        assert loopy.kernel.data.OF_A_TEST == module.OF_A_TEST == 1
        del module.OF_A_TEST
        assert not hasattr(loopy.kernel.data, "OF_A_TEST")


class TestThings:
    def test_extended(self):
        """Classes of loopy can be extended: the bases are loopy's own."""

        class Mine(thing("ScalarCallable")):
            pass

        class Target(lp.PyOpenCLTarget):
            pass

        class Both(thing("PyOpenCLTarget"), dict):
            pass

        assert Mine.__mro__[1] is loopy.ScalarCallable
        assert Target.__bases__ == (loopy.PyOpenCLTarget,)
        assert issubclass(Both, loopy.PyOpenCLTarget)
        assert issubclass(Mine, thing("ScalarCallable"))
        assert issubclass(Mine, (thing("InKernelCallable"), int))
        assert not issubclass(int, thing("InKernelCallable"))

    @pytest.mark.parametrize("made", [False, True])
    def test_instances(self, made):
        """`isinstance` answers for what was made, and for what was not."""
        for _ in range(2):
            unit = lp.make_kernel("{[i]: 0<=i<16}", "a[i] = i", name="made", **VERSION)
            argument = lp.ArrayArg("a", np.float32, address_space=lp.AddressSpace.GLOBAL)
        if made:
            assert unit["made"] is not None
            assert argument.name == "a"
        assert (unmade.record_of(unit) is None) is made
        for one, kinds, others in (
            (unit, ["TranslationUnit"], ["LoopKernel", "ArrayArg"]),
            (argument, ["ArrayArg", "KernelArgument"], ["ValueArg", "TranslationUnit"]),
        ):
            for name in kinds:
                assert isinstance(one, thing(name))
                assert isinstance(one, getattr(loopy, name))
                assert isinstance(one, thing(name) | None)
            for name in others:
                assert not isinstance(one, thing(name))
                assert not isinstance(one, getattr(loopy, name))
                assert not isinstance(one, thing(name) | int)
        assert not isinstance(3, thing("TranslationUnit"))

    def test_unions(self):
        """Unions are those of loopy's own types."""
        union = thing("TranslationUnit") | None
        assert union == loopy.TranslationUnit | None
        assert hash(union) == hash(loopy.TranslationUnit | None)
        assert (None | thing("TranslationUnit")).__args__ == (type(None), loopy.TranslationUnit)
        assert (int | thing("TranslationUnit") | thing("LoopKernel") | str).__args__[
            2
        ] == loopy.LoopKernel
        assert isinstance(None, union)
        assert isinstance(3, union | int)
        assert issubclass(loopy.TranslationUnit, union)
        assert not issubclass(int, union)
        assert repr(union) == repr(loopy.TranslationUnit | None)
        assert typing.Optional[thing("TranslationUnit")] is not None  # noqa: UP045
        assert list[thing("TranslationUnit")].__args__[0] == loopy.TranslationUnit

    def test_enumerations(self):
        """An enumeration is iterated, called, asked by name and for its length."""
        kind = thing("AddressSpace")
        assert [*kind] == [*loopy.AddressSpace]
        assert len(kind) == 3
        assert kind["LOCAL"] is kind(1) is loopy.AddressSpace.LOCAL
        assert loopy.AddressSpace.LOCAL in kind
        assert kind.stringify(kind.LOCAL) == loopy.AddressSpace.stringify(loopy.AddressSpace.LOCAL)
        assert bool(kind)
        assert repr(kind) == repr(loopy.AddressSpace)
        assert issubclass(kind.real(), enum.IntEnum)


class TestCopies:
    def test_pickles(self):
        """Functions, classes and members are pickled by name, and come back as the face's."""
        for one in (
            lp.split_iname,
            thing("AddressSpace.LOCAL"),
            thing("LoopKernel"),
            thing("CTarget"),
            lp.get_op_map,
        ):
            assert pickle.loads(pickle.dumps(one)) is one
            assert copy.deepcopy(one) is one or copy.deepcopy(one) == one
        assert pickle.loads(pickle.dumps(loopy.AddressSpace.LOCAL)) == thing("AddressSpace.LOCAL")

    def test_functions_are_called_as_loopys(self):
        """A function that raises says what loopy's says."""
        with pytest.raises(TypeError) as mine:
            lp.split_iname()
        with pytest.raises(TypeError) as own:
            loopy.split_iname()
        assert str(mine.value) == str(own.value)


WITHOUT = """
    import json, sys
    import kcl.loopy as lp

    class Holder:
        kind: lp.TranslationUnit | None = None
        def method(self, space: lp.AddressSpace = lp.AddressSpace.LOCAL) -> None | lp.LoopKernel:
            return None

    functions = [lp.split_iname, lp.make_kernel, lp.get_op_map, lp.GlobalArg, lp.ArrayArg, lp.CTarget]
    assert not isinstance(3, lp.TranslationUnit) and not isinstance(3, lp.TranslationUnit | None)
    assert isinstance(None, lp.TranslationUnit | None)
    assert lp.AddressSpace.LOCAL is lp.AddressSpace.LOCAL and lp.kernel.data.AddressSpace is lp.AddressSpace
    assert lp.AddressSpace.LOCAL != lp.AddressSpace.GLOBAL
    assert issubclass(lp.DirectCallUncachedWarning, lp.LoopyWarning)
    assert lp.version.LOOPY_USE_LANGUAGE_VERSION_2018_2
    def keeps(kind=lp.auto, *, target=lp.PyOpenCLTarget): pass
    assert "loopy" not in sys.modules, "loopy was imported"
    import loopy
    print(json.dumps(sorted(name for name in dir(lp) if name in ("make_kernel", "AddressSpace"))))
"""


class TestWithoutLoopy:
    @pytest.mark.parametrize(
        ("module", "name", "is_free"),
        [
            ("loopy.version", "LOOPY_USE_LANGUAGE_VERSION_2018_2", True),
            ("loopy.kernel.data", "AddressSpace", True),
            ("loopy.target.pyopencl", "PyOpenCLTarget", True),
            ("loopy.options", "Options", True),
            ("loopy.transform.iname", "split_iname", True),
            ("loopy.diagnostic", "LoopyWarning", True),
            ("loopy.diagnostic", "LoopyError", False),
            ("loopy.types", "NumpyType", False),
            ("loopy.symbolic", "parse", False),
            ("loopy.match", "parse_match", False),
            ("loopy.kernel.function_interface", "ScalarCallable", False),
        ],
    )
    def test_imports_from_modules(self, module, name, is_free):
        """The page convert-loopy.md lists which imports from loopy's modules import loopy."""
        assert face.has(module, (name,)) == is_free

    def test_naming_imports_nothing(self, child):
        """What a program only names at its head leaves loopy alone."""
        assert child.json(WITHOUT) == ["AddressSpace", "make_kernel"]


def preambles(info):  # noqa: ARG001
    """Give loopy a preamble."""
    yield "10_mine", "#define MINE 1"


class Calling:
    def __call__(self, instruction):
        """Change nothing."""
        return instruction


class TestRecorded:
    def test_errors_are_raised_at_their_call(self):
        """A call that loopy refuses raises each time; nothing proves it."""
        for _ in range(3):
            with pytest.raises(KeyError, match="nowhere"):
                lp.split_iname(make(), "nowhere", 4)

    def test_traceback(self):
        """The traceback of such an error shows the program and loopy; of kcl it has one frame, which pytest hides."""
        with pytest.raises(KeyError) as raised:
            lp.split_iname(make(), "nowhere", 4)
        frames = [entry.frame for entry in raised.traceback]
        own = [frame for frame in frames if frame.f_globals["__name__"].startswith("kcl.")]
        assert own == frames[1:2]
        assert own[0].f_locals["__tracebackhide__"]
        assert frames[-1].f_globals["__name__"].startswith("loopy.")

    def test_units_of_loopys_own(self):
        """A transformation of a unit that loopy made, and that the program may change, is carried out at once."""
        for _ in range(2):
            own = loopy.make_kernel("{[i]: 0<=i<16}", "a[i] = 7*i", **VERSION)
            assert type(lp.split_iname(own, "i", 2)) is loopy.TranslationUnit

    def test_the_version_of_the_language_of_the_callers_globals(self):
        """A global of the caller decides, as for loopy itself, and counts."""
        found = []
        for names in ({}, {"LOOPY_USE_LANGUAGE_VERSION_2018_2": (2018, 2)}):
            names["lp"] = lp
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                exec("unit = lp.make_kernel('{[i]: 0<=i<16}', 'a[i] = 2*i')", names)
            found.append(
                (
                    unmade.record_of(names["unit"]).digest,
                    any("lang_version" in str(one.message) for one in heard),
                )
            )
        assert found[0][0] != found[1][0]
        assert [warned for _digest, warned in found] == [True, False]


class TestAtOnce:
    def test_questions_are_loopys(self):
        """What answers a question gets loopy's own units."""
        assert lp.get_op_map(make(), subgroup_size=1) is not None
        assert isinstance(
            lp.generate_code_v2(lp.set_options(make(), no_numpy=True)).device_code(), str
        )

    def test_callables_that_run_during_the_call(self):
        """A call with a callable of the user is carried out each time, wherever the callable stands."""
        seen = []

        def change(instruction, more):
            seen.append(more)
            return instruction

        for count in (1, 2):
            kernel = lp.map_instructions(
                make().default_entrypoint, None, partial(change, more=count)
            )
            assert isinstance(kernel, loopy.LoopKernel)
            assert len(seen) == count
        for given in (
            change,
            partial(change, more=1),
            [change],
            {"x": (change,)},
            Calling(),
            Calling,
        ):
            assert face._calls_user("tag_inames", (make(), given), {})
        for given in (np.float32, lp.CTarget, loopy.CTarget, "change", [1], int, lp.auto):
            assert not face._calls_user("tag_inames", (make(), given), {})

    def test_generators_of_preambles(self):
        """A callable of the program has no key: the call that gets one is carried out each time, and does not wait."""
        for _time in range(2):
            assert not waits(lp.register_preamble_generators(make(), [preambles]))

    def test_off(self, under):
        """With the generator layer off a program gets loopy's own objects."""
        under(KCL_NO_CACHE="generator")
        assert type(make()) is loopy.TranslationUnit
        assert type(lp.GlobalArg("a", np.float32, shape=(16,))) is loopy.ArrayArg


class TestIterators:
    def test_arguments(self):
        """An iterator is read once, by loopy: the call is carried out each time, and stand-ins are exchanged."""
        for _ in range(2):
            arguments = (one for one in [lp.GlobalArg("a", np.int32, shape=lp.auto), ...])
            texts = (text for text in ["a[i] = i", "b[i] = i"])
            unit = lp.make_kernel("{[i]: 0<=i<16}", texts, arguments, name="made", **VERSION)
            assert type(unit) is loopy.TranslationUnit
            assert len(unit["made"].instructions) == 2
            assert type(unit["made"].arg_dict["a"]) is loopy.ArrayArg
        assert any(
            "make_kernel: what an iterator gives" in question for question in events.stats()["made"]
        )

    def test_errors_of_a_generator_are_the_users(self):
        """What a generator of the user raises reaches the user, and is no fault of kcl."""

        def texts():
            yield "a[i] = i"
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            lp.make_kernel("{[i]: 0<=i<16}", texts(), **VERSION)


class TestContainers:
    def test_of_other_classes(self):
        """Mappings and lists of other classes reach loopy with loopy's own things in them, and are recorded exactly."""

        class Listed(list):
            pass

        digests = set()
        for dtype in (np.float32, np.float64, np.float32):
            unit = make(
                "a[i] = 9*i",
                kernel_data=Listed([lp.GlobalArg("a", dtype, shape=(16,))]),
                name="made",
            )
            assert unit["made"].arg_dict["a"].dtype.numpy_dtype == dtype
            digests.add(unit["made"].arg_dict["a"].dtype.numpy_dtype)
            tagged = lp.tag_inames(make(), OrderedDict(i="unr"))
            assert isinstance(tagged, loopy.TranslationUnit)
            assert "UnrollTag" in repr(tagged.default_entrypoint.inames["i"].tags)


class TestFaults:
    @pytest.fixture
    def _broken(self, monkeypatch):
        """Let each record raise."""

        def broken(*_arguments):
            raise RuntimeError("broken")

        monkeypatch.setattr(recorder, "Record", broken)

    @pytest.mark.faults
    @pytest.mark.usefixtures("_broken")
    def test_the_run_goes_on(self):
        """An exception in the recorder is one event and one warning; the call is carried out."""
        with pytest.warns(UserWarning, match="broken"):
            unit = make()
        assert type(unit) is loopy.TranslationUnit
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            assert type(make()) is loopy.TranslationUnit

    @pytest.mark.usefixtures("_broken")
    def test_strict(self, under):
        """`KCL_STRICT=fault` raises it."""
        under(KCL_STRICT="fault")
        with pytest.raises(CacheFault):
            make()
