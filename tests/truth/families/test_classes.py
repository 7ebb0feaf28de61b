"""Classes of loopy in a program's hands: asked, changed, inherited from and matched."""

import textwrap

import pytest
from beside import UNITS, Program, compared

pytestmark = [pytest.mark.one_platform, pytest.mark.slow]

TEXTS = {
    "classes that are imported by name before loopy is needed": """
        from loopy import ArrayArg, PyOpenCLTarget, TargetBase, ValueArg, KernelArgument
        knl = unit()
        print([type(arg) == ArrayArg for arg in knl["k"].args])
        print(issubclass(PyOpenCLTarget, TargetBase), issubclass(PyOpenCLTarget, lp.TargetBase))
        print(isinstance(lp.PyOpenCLTarget(), TargetBase), isinstance(knl.target, TargetBase))
        print(issubclass(type(knl.target), lp.TargetBase), issubclass(lp.PyOpenCLTarget, lp.TargetBase))
        show(unit(3))
        """,
    "match statements": """
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
    "a method of a class that is replaced for a while": """
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
    "classes that inherit": """
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
    "singledispatch": """
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
    "annotations": """
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
    "classes that are replaced": """
        original = lp.ValueArg
        class Mine(lp.ValueArg):
            pass
        lp.ValueArg = Mine
        print(lp.ValueArg is Mine, type(lp.ValueArg("n", np.int32)).__name__)
        lp.ValueArg = original
        print(type(lp.ValueArg("n", np.int32)).__name__, lp.ValueArg == original)
        show(unit())
        """,
}
PROGRAMS = [
    Program(title, UNITS + textwrap.dedent(text), alone=True) for title, text in TEXTS.items()
]
test_classes = compared(PROGRAMS, "face", "run", "late")
