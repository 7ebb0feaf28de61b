"""Classes of loopy in a program's hands: asked, compared, changed, inherited from, matched and hashed."""

from __future__ import annotations

import pytest
from beside_python import WAYS, Program, faults
from harness import Child

PROGRAMS = [
    Program(
        "isinstance with classes, tuples and unions",
        """
        from typing import Optional
        args = [lp.GlobalArg("y", np.int32, shape=(8,)), lp.ValueArg("n", np.int32), lp.auto, 3, None, "x"]
        for arg in args:
            print(isinstance(arg, lp.ArrayArg), isinstance(arg, (lp.ArrayArg, lp.ValueArg)),
                  isinstance(arg, lp.ValueArg | None), isinstance(arg, lp.KernelArgument),
                  isinstance(arg, lp.TranslationUnit))
        knl = unit()
        print(isinstance(knl, lp.TranslationUnit), isinstance(knl, lp.LoopKernel), isinstance(knl, lp.ArrayArg))
        print([isinstance(arg, lp.ArrayArg) for arg in knl["k"].args])
        show(knl)
        """,
    ),
    Program(
        "issubclass in all directions",
        """
        print(issubclass(lp.PyOpenCLTarget, lp.TargetBase), issubclass(lp.TargetBase, lp.PyOpenCLTarget))
        print(issubclass(lp.ArrayArg, lp.KernelArgument), issubclass(lp.ArrayArg, (int, lp.ValueArg)))
        print(issubclass(int, lp.ArrayArg), issubclass(lp.ArrayArg, object), issubclass(lp.CTarget, lp.CTarget))
        print(issubclass(lp.Assignment, lp.InstructionBase), issubclass(lp.ArrayArg, int))
        show(unit())
        """,
    ),
    Program(
        "classes that are imported by name before loopy is needed",
        """
        from loopy import ArrayArg, PyOpenCLTarget, TargetBase, ValueArg, KernelArgument
        knl = unit()
        print([type(arg) == ArrayArg for arg in knl["k"].args])
        print(issubclass(PyOpenCLTarget, TargetBase), issubclass(PyOpenCLTarget, lp.TargetBase))
        print(isinstance(lp.PyOpenCLTarget(), TargetBase), isinstance(knl.target, TargetBase))
        print(issubclass(type(knl.target), lp.TargetBase), issubclass(lp.PyOpenCLTarget, lp.TargetBase))
        show(unit(3))
        """,
    ),
    Program(
        "match statements",
        """
        def describe(value):
            match value:
                case lp.ArrayArg(name=name, dtype=dtype):
                    return f"array {name} {dtype}"
                case lp.ValueArg(name="n"):
                    return "the size"
                case lp.ValueArg(name=name):
                    return f"value {name}"
                case lp.TranslationUnit():
                    return "unit"
                case lp.PyOpenCLTarget() | lp.CTarget():
                    return "target"
                case lp.AddressSpace.LOCAL:
                    return "local"
            return "other"
        things = [lp.GlobalArg("y", np.int32, shape=(8,)), lp.ValueArg("n", np.int32), lp.ValueArg("m", np.int32),
                  unit(), lp.PyOpenCLTarget(), lp.CTarget(), lp.AddressSpace.LOCAL, 3]
        print([describe(one) for one in things])
        print([describe(one) for one in unit()["k"].args])
        """,
    ),
    Program(
        "a table by class",
        """
        names = {lp.ArrayArg: "array", lp.ValueArg: "value", lp.TemporaryVariable: "temporary"}
        mine = [lp.GlobalArg("y", np.int32, shape=(8,)), lp.ValueArg("n", np.int32)]
        print([names.get(type(arg)) for arg in mine], [names.get(type(arg)) for arg in unit()["k"].args])
        print(names.get(int), lp.ArrayArg in names, lp.PyOpenCLTarget in names, len({lp.ArrayArg, lp.ArrayArg}))
        print(names.get(mine[0].__class__))
        later = {type(arg): arg.name for arg in unit()["k"].args}
        print(later[lp.ArrayArg], later.get(lp.ValueArg))
        show(unit())
        """,
    ),
    Program(
        "arguments that are made before the table, and classes of kernels that are asked first",
        """
        mine = [lp.ValueArg("n", np.int32), lp.GlobalArg("y", np.int32, shape=(8,))]
        from loopy import ArrayArg, ValueArg
        kinds = [type(arg) for arg in unit()["k"].args]
        print(kinds == [ArrayArg], ArrayArg in kinds, kinds.count(ArrayArg), {ArrayArg: 1}[kinds[0]], ValueArg in kinds)
        print([type(arg) == lp.ValueArg for arg in mine], [type(arg) in (ArrayArg,) for arg in mine])
        print({kinds[0]: 5}[ArrayArg], {kinds[0]: 5}.get(type(mine[1])))
        """,
    ),
    Program(
        "type of an argument of the program",
        """
        arg, other = lp.ValueArg("n", np.int32), lp.GlobalArg("y", np.int32, shape=(8,))
        print(type(arg) is lp.ValueArg, type(other) is lp.ArrayArg, type(arg).__name__, type(arg) == lp.ArrayArg)
        print(type(arg).__name__, type(arg).__module__, type(arg).__mro__[1].__name__)
        """,
    ),
    Program(
        "an attribute of a target",
        """
        lp.PyOpenCLTarget.comment = "mine"
        print(lp.PyOpenCLTarget.comment, lp.PyOpenCLTarget().comment, unit().target.comment)
        show(unit())
        del lp.PyOpenCLTarget.comment
        print(hasattr(lp.PyOpenCLTarget, "comment"))
        show(unit(3))
        """,
    ),
    Program(
        "a method of a class that is replaced for a while",
        """
        from unittest import mock
        knl = unit()
        with mock.patch.object(lp.LoopKernel, "all_inames", lambda self: frozenset({"mine"})):
            print(knl["k"].all_inames())
        print(knl["k"].all_inames())
        with mock.patch.object(lp.ArrayArg, "extra", 5, create=True):
            print(knl["k"].args[0].extra)
        print(hasattr(lp.ArrayArg, "extra"))
        show(unit())
        """,
    ),
    Program(
        "classes that inherit",
        """
        import abc
        class Mine(lp.PyOpenCLTarget):
            def __init__(self):
                lp.PyOpenCLTarget.__init__(self)
                self.word = "mine"
        class Base(abc.ABC):
            @abc.abstractmethod
            def word(self): ...
        class Both(lp.TargetBase, Base):
            pass
        class Arg(lp.ValueArg):
            "An argument."
            def shout(self):
                return self.name.upper()
        class Base2(lp.TargetBase, metaclass=abc.ABCMeta):
            pass
        print(Mine().word, Mine.__mro__[1] is lp.PyOpenCLTarget, issubclass(Mine, lp.TargetBase))
        print(type(Both).__name__, "word" in Both.__abstractmethods__, type(Arg).__name__)
        print(Arg("n", np.int32).shout(), isinstance(Arg("n", np.int32), lp.ValueArg), Arg.__base__ == lp.ValueArg)
        show(unit())
        """,
    ),
    Program(
        "names, modules and documents of classes",
        """
        for kind in (lp.ArrayArg, lp.TranslationUnit, lp.PyOpenCLTarget, lp.AddressSpace):
            print(kind.__name__, kind.__qualname__, kind.__module__, repr(kind), (kind.__doc__ or "")[:30])
            print([one.__name__ for one in kind.__mro__], len(dir(kind)), len(vars(kind)))
        import inspect
        print(inspect.isclass(lp.ArrayArg), inspect.signature(lp.ValueArg), inspect.signature(lp.PyOpenCLTarget))
        print(inspect.getsource(lp.auto)[:40], inspect.getmodule(lp.ArrayArg).__name__)
        """,
    ),
    Program(
        "singledispatch",
        """
        import functools
        @functools.singledispatch
        def word(value):
            return "other"
        @word.register(lp.ArrayArg)
        def _(value):
            return "array"
        @word.register
        def _(value: lp.ValueArg):
            return "value"
        @word.register(lp.KernelArgument)
        def _(value):
            return "argument"
        print(word(lp.GlobalArg("y", np.int32, shape=(8,))), word(lp.ValueArg("n", np.int32)), word(3))
        print([word(arg) for arg in unit()["k"].args], word(lp.ConstantArg("c", np.int32, shape=(8,))))
        """,
    ),
    Program(
        "annotations",
        """
        import dataclasses
        import typing
        def change(knl: lp.TranslationUnit, arg: lp.ArrayArg | None = None, *,
                   more: "typing.Optional[lp.ValueArg]" = None) -> list[lp.TranslationUnit]:
            return [knl]
        found = typing.get_type_hints(change)
        print(sorted(found), found["knl"] == lp.TranslationUnit, found["return"] == list[lp.TranslationUnit])
        print(isinstance(unit(), found["knl"]), isinstance(None, found["arg"]), typing.get_args(found["arg"])[1])
        @dataclasses.dataclass
        class Job:
            knl: lp.TranslationUnit
            arg: lp.ArrayArg | None = None
        print([field.name for field in dataclasses.fields(Job)], dataclasses.fields(Job)[0].type is lp.TranslationUnit)
        show(Job(unit()).knl)
        print(typing.Optional[lp.ArrayArg] == typing.Union[None, lp.ArrayArg], typing.Optional[lp.ArrayArg])
        """,
    ),
    Program(
        "dataclasses of loopy",
        """
        import dataclasses
        name = lp.UniqueName("first")
        print(dataclasses.is_dataclass(lp.UniqueName), dataclasses.is_dataclass(name))
        print([field.name for field in dataclasses.fields(lp.UniqueName)], name.name)
        print(dataclasses.replace(name, name="second").name)
        print([field.name for field in dataclasses.fields(lp.TranslationUnit)], dataclasses.is_dataclass(unit()))
        print(dataclasses.asdict(name))
        """,
    ),
    Program(
        "copies and pickles",
        """
        import copy
        import pickle
        print(copy.copy(lp.ArrayArg) is lp.ArrayArg, copy.deepcopy([lp.ArrayArg])[0] is lp.ArrayArg)
        print(pickle.loads(pickle.dumps(lp.ArrayArg)) == lp.ArrayArg, pickle.loads(pickle.dumps(lp.AddressSpace.LOCAL)))
        arg = lp.ValueArg("n", np.int32)
        print(copy.copy(arg) == arg, copy.deepcopy(arg) == arg, pickle.loads(pickle.dumps(arg)) == arg)
        print(pickle.loads(pickle.dumps(unit())) == unit(), copy.copy(unit()) == unit())
        print(arg.copy(name="m").name, arg.name)
        """,
    ),
    Program(
        "abstract classes of Python",
        """
        import collections.abc
        import numbers
        arg, knl = lp.ValueArg("n", np.int32), unit()
        from collections.abc import Callable, Hashable, Iterable, Mapping, Sized
        for kind in (Iterable, Hashable, Callable, Mapping, numbers.Number, Sized):
            print(kind.__name__, isinstance(arg, kind), issubclass(lp.ValueArg, kind), isinstance(lp.ValueArg, kind))
        print(isinstance(lp.PyOpenCLTarget(), lp.TargetBase), isinstance(knl.target, lp.TargetBase))
        print(isinstance(lp.ArrayArg, type), callable(lp.ArrayArg), bool(lp.ArrayArg))
        show(knl)
        """,
    ),
    Program(
        "enumerations",
        """
        print(list(lp.AddressSpace), len(lp.AddressSpace), lp.AddressSpace["LOCAL"], lp.AddressSpace(1))
        print(lp.AddressSpace.LOCAL in lp.AddressSpace, isinstance(lp.AddressSpace.LOCAL, lp.AddressSpace))
        print({lp.AddressSpace.LOCAL: 1}[lp.AddressSpace(1)], lp.AddressSpace.LOCAL == lp.AddressSpace["LOCAL"])
        print(lp.AddressSpace.LOCAL.name, lp.AddressSpace.LOCAL.value, lp.AddressSpace.__members__["GLOBAL"])
        """,
    ),
    Program(
        "private names",
        """
        from loopy.kernel.creation import _gather_isl_identifiers
        import loopy.transform.iname as iname
        print(hasattr(lp, "_set_up_default_target"), callable(lp._set_up_default_target))
        print(iname._InameDuplicator.__name__, _gather_isl_identifiers.__name__, hasattr(lp, "_nothing"))
        print(lp.__name__.rpartition(".")[2], hasattr(lp, "_DEFAULT_TARGET"))
        try:
            lp._nothing
        except AttributeError as error:
            print("no name")
        show(unit())
        """,
    ),
    Program(
        "classes that are replaced",
        """
        original = lp.ValueArg
        class Mine(lp.ValueArg):
            pass
        lp.ValueArg = Mine
        print(lp.ValueArg is Mine, type(lp.ValueArg("n", np.int32)).__name__)
        lp.ValueArg = original
        print(type(lp.ValueArg("n", np.int32)).__name__, lp.ValueArg == original)
        show(unit())
        """,
    ),
    Program(
        "classes that are named alone",
        """
        def changed(knl: lp.TranslationUnit, arg: lp.ArrayArg | None = None) -> lp.TranslationUnit:
            assert isinstance(knl, lp.TranslationUnit)
            return lp.split_iname(knl, "i", 4)
        kinds = [lp.ArrayArg, lp.ValueArg, lp.TargetBase]
        print(lp.ArrayArg is lp.ArrayArg, lp.ArrayArg == lp.ValueArg, kinds[0] != kinds[1], len(kinds))
        assert type(lp.ValueArg("n", np.int32)) is lp.ValueArg
        show(changed(unit()))
        """,
        asks_nothing=True,
    ),
]


@pytest.mark.one_platform
@pytest.mark.slow_cases(20)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_classes(program, way, tmp_path, platform_name):
    """A program that asks classes of loopy prints in three runs what it prints without kcl."""
    assert not faults(program, Child(tmp_path), way, platform_name)
