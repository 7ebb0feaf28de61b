"""The face of loopy: every public name gives something usable, and each call is recorded or carried out at once."""

import copy
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
from recorded_units import make, thing

import kcl.loopy as lp
from kcl.base import events
from kcl.errors import CacheFault
from kcl.frontends.loopy import face, recorder, table, unmade

loopy = importlib.import_module("loopy")  # itself, where an import statement gives the face

NAMES = sorted(set(loopy.__all__) | table.DEFERRED | table.TYPES | table.AT_ONCE)


class TestNames:
    @pytest.mark.parametrize("name", NAMES)
    def test_every_public_name(self, name):
        found, own = getattr(lp, name), getattr(loopy, name)
        assert getattr(face.face, name) is found
        if isinstance(found, face.Function):
            assert callable(own)
            assert found.__doc__ == own.__doc__
            assert inspect.signature(found) == inspect.signature(own)
        elif isinstance(found, type) and issubclass(type(found), unmade.Kind):
            assert found.real() is own
            assert found == own
            for question in ("__name__", "__doc__"):
                assert getattr(found, question) == getattr(own, question)
            assert dir(found) == dir(own)
            assert getattr(lp, name) is own  # from the first question on
        else:
            assert found is own

    def test_names_that_loopy_does_not_have(self):
        module = face.submodule("loopy.kernel.data")
        for holder in (lp, face.face, module, thing("AddressSpace"), lp.AddressSpace):
            with pytest.raises(AttributeError):
                holder.NONEXISTENT  # noqa: B018
            assert not hasattr(holder, "nonexistent")

    def test_modules(self):
        """The modules of loopy whose public names are recorded are faces, at any depth; all others are loopy's."""
        assert lp.kernel.data.AddressSpace.LOCAL == loopy.AddressSpace.LOCAL
        assert dir(lp.kernel.data) == dir(loopy.kernel.data)
        assert {*loopy.__all__} <= {*dir(lp)}
        assert isinstance(lp.transform.iname, face.Face)
        assert lp.transform.iname.split_iname is lp.split_iname
        assert lp.schedule is loopy.schedule
        assert lp.kernel.tools is loopy.kernel.tools
        assert lp.transform.callable.rename_iname is loopy.transform.callable.rename_iname

    @pytest.mark.parametrize("name", ["add_barrier", "precompute", "realize_reduction"])
    def test_modules_with_the_name_of_a_function(self, name):
        """In a package of loopy such a name is the module, which has the function."""
        module = getattr(lp.transform, name)
        assert isinstance(getattr(loopy.transform, name), types.ModuleType)
        assert isinstance(module, face.Face)
        assert getattr(module, name) is getattr(lp, name)

    def test_what_a_program_stores_in_a_module_of_loopy(self):
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
            unit = make(name="made")
            argument = lp.ArrayArg("a", np.float32, address_space=lp.AddressSpace.GLOBAL)
        if made:
            assert unit["made"] is not None
            assert argument.name == "a"
        assert (unmade.record_of(unit) is None) is made
        for one, kinds in (
            (unit, {"TranslationUnit": True, "LoopKernel": False, "ArrayArg": False}),
            (argument, {"ArrayArg": True, "KernelArgument": True, "ValueArg": False}),
            (3, {"TranslationUnit": False}),
        ):
            for name, is_one in kinds.items():
                for kind in (thing(name), getattr(loopy, name), thing(name) | None):
                    assert isinstance(one, kind) is is_one

    def test_unions(self):
        """Unions are those of loopy's own types."""
        kind, own = thing("TranslationUnit"), loopy.TranslationUnit
        union = kind | None
        assert union == own | None
        assert hash(union) == hash(own | None)
        assert repr(union) == repr(own | None)
        assert (None | kind).__args__ == (type(None), own)
        assert (int | kind | thing("LoopKernel") | str).__args__[2] == loopy.LoopKernel
        assert isinstance(None, union)
        assert isinstance(3, union | int)
        assert issubclass(own, union)
        assert not issubclass(int, union)
        assert typing.Optional[kind] is not None  # noqa: UP045
        assert list[kind].__args__[0] == own

    def test_enumerations(self):
        """An enumeration is iterated, called, asked by name and for its length."""
        kind, own = thing("AddressSpace"), loopy.AddressSpace
        assert [*kind] == [*own]
        assert len(kind) == 3
        assert kind["LOCAL"] is kind(1) is own.LOCAL
        assert own.LOCAL in kind
        assert kind.stringify(kind.LOCAL) == own.stringify(own.LOCAL)
        assert repr(kind) == repr(own)

    def test_pickles(self):
        """Functions, classes and members are pickled by name, and come back as the face's."""
        kinds = thing("AddressSpace.LOCAL"), thing("LoopKernel"), thing("CTarget")
        for one in (lp.split_iname, lp.get_op_map, *kinds):
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
        code = """
            import json, sys
            import kcl.loopy as lp
            def named(
                a: lp.TranslationUnit | None, b: None | lp.LoopKernel, c=lp.AddressSpace.LOCAL, *, d=lp.auto
            ): pass
            functions = [lp.split_iname, lp.make_kernel, lp.get_op_map, lp.GlobalArg, lp.ArrayArg, lp.CTarget]
            assert not isinstance(3, lp.TranslationUnit | None)
            assert isinstance(None, lp.TranslationUnit | None)
            assert lp.AddressSpace.LOCAL is lp.kernel.data.AddressSpace.LOCAL != lp.AddressSpace.GLOBAL
            assert issubclass(lp.DirectCallUncachedWarning, lp.LoopyWarning)
            assert lp.version.LOOPY_USE_LANGUAGE_VERSION_2018_2
            print(json.dumps("loopy" in sys.modules))
            """
        assert child.json(code) is False


class Calling:
    def __call__(self, instruction):
        return instruction


class TestRecorded:
    def test_errors_are_raised_at_their_call(self):
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
            own = make("a[i] = 7*i", loopy)
            assert type(lp.split_iname(own, "i", 2)) is loopy.TranslationUnit

    def test_the_version_of_the_language_of_the_callers_globals(self):
        digests = set()
        for names, warned in (
            ({}, True),
            ({"LOOPY_USE_LANGUAGE_VERSION_2018_2": (2018, 2)}, False),
        ):
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                exec(
                    "unit = lp.make_kernel('{[i]: 0<=i<16}', 'a[i] = 2*i')",
                    names | {"lp": lp},
                    names,
                )
            assert any("lang_version" in str(one.message) for one in heard) is warned
            digests.add(unmade.record_of(names["unit"]).digest)
        assert len(digests) == 2


class TestAtOnce:
    def test_questions_are_loopys(self):
        assert lp.get_op_map(make(), subgroup_size=1) is not None
        assert isinstance(
            lp.generate_code_v2(lp.set_options(make(), no_numpy=True)).device_code(), str
        )

    def test_callables_that_run_during_the_call(self):
        """A call with a callable of the user is carried out each time, wherever the callable stands."""
        seen = []

        def change(instruction, more=0):
            seen.append(more)
            return instruction

        for _time in range(2):
            kernel = make().default_entrypoint
            changed = lp.map_instructions(kernel, None, partial(change, more=1))
            assert isinstance(changed, loopy.LoopKernel)
        assert seen == [1, 1]
        users = change, partial(change, more=1), [change], {"x": (change,)}, Calling(), Calling
        for given in users:
            assert face._calls_user("tag_inames", (make(), given), {})
        for given in (np.float32, lp.CTarget, loopy.CTarget, "change", [1], int, lp.auto):
            assert not face._calls_user("tag_inames", (make(), given), {})

    def test_off(self, under):
        """With the generator layer off a program gets loopy's own objects."""
        under(KCL_NO_CACHE="generator")
        assert type(make()) is loopy.TranslationUnit
        assert type(lp.GlobalArg("a", np.float32, shape=(16,))) is loopy.ArrayArg

    def test_iterators(self):
        """An iterator is read once, by loopy: the call is carried out each time, and stand-ins are exchanged."""
        for _ in range(2):
            arguments = (one for one in [lp.GlobalArg("a", np.int32, shape=lp.auto), ...])
            texts = (text for text in ["a[i] = i", "b[i] = i"])
            unit = make(texts, kernel_data=arguments, name="made")
            assert type(unit) is loopy.TranslationUnit
            assert len(unit["made"].instructions) == 2
            assert type(unit["made"].arg_dict["a"]) is loopy.ArrayArg
        assert "make_kernel: what an iterator gives" in str(events.stats()["made"])

    def test_errors_of_a_generator_are_the_users(self):
        def texts():
            yield "a[i] = i"
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            make(texts())


class TestContainers:
    def test_of_other_classes(self):
        """Mappings and lists of other classes reach loopy with loopy's own things in them, and are recorded exactly."""

        class Listed(list):
            pass

        for dtype in (np.float32, np.float64, np.float32):
            arguments = Listed([lp.GlobalArg("a", dtype, shape=(16,))])
            unit = make("a[i] = 9*i", kernel_data=arguments, name="made")
            assert unit["made"].arg_dict["a"].dtype.numpy_dtype == dtype
        tagged = lp.tag_inames(make(), OrderedDict(i="unr"))
        assert "UnrollTag" in repr(tagged.default_entrypoint.inames["i"].tags)


class TestFaults:
    @pytest.fixture(autouse=True)
    def _broken(self, monkeypatch):
        monkeypatch.setattr(recorder, "Record", lambda *_: {}["broken"])

    @pytest.mark.faults
    def test_the_run_goes_on(self):
        """An exception in the recorder is one event and one warning; the call is carried out."""
        with pytest.warns(UserWarning, match="broken"):
            unit = make()
        assert type(unit) is loopy.TranslationUnit
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            assert type(make()) is loopy.TranslationUnit

    def test_strict(self, under):
        """`KCL_STRICT=fault` raises it."""
        under(KCL_STRICT="fault")
        with pytest.raises(CacheFault):
            make()
