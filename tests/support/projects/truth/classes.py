"""Recipes that depend on classes and objects."""

import abc
import collections
import contextlib
import dataclasses
import enum
import functools
import typing

import kcl
from truth.common import number, scaled


class Base:
    level = 2

    def deep(self):
        return 3

    def overridden(self):
        return 5


class Other:
    level_of_other = 7

    def first(self):
        return 11


class Another:
    def first(self):
        return 13


class Layout(Base):
    pad = 4
    items = [1, 2]  # noqa: RUF012
    __slots__ = ("n",)

    def __init__(self, n):
        self.n = n

    def size(self):
        return self.n + 17

    def calling_super(self):
        return super().overridden() + 1

    @property
    def area(self):
        return self.n * 19

    @functools.cached_property
    def _unused(self):
        return 0

    @staticmethod
    def origin():
        return 23

    @classmethod
    def make(cls):
        return cls(29).n

    def __add__(self, other):
        return self.n + other + 31

    def __call__(self):
        return 37

    def __getitem__(self, index):
        return index + 41

    def __enter__(self):
        return 43

    def __exit__(self, *_):
        return False

    def __iter__(self):
        return iter([47, 1])

    def __len__(self):
        return 53

    def __str__(self):
        return "59"

    def __format__(self, spec):
        return "61"

    def __contains__(self, item):
        return item == 67

    def __getattr__(self, name):
        if name == "computed":
            return 71
        raise AttributeError(name)


class Joined(Other, Another):
    pass


class Descriptor:
    def __get__(self, instance, owner):
        return 73


class Described:
    field = Descriptor()


class Meta(type):
    def width(cls):
        return 79


class Made(metaclass=Meta):
    pass


class Registry:
    known: typing.ClassVar = {}

    def __init_subclass__(cls):
        Registry.known[cls.__name__] = cls


class Registered(Registry):
    value = 83


class Abstract(abc.ABC):
    @abc.abstractmethod
    def solve(self): ...

    def run(self):
        return self.solve() + 1


class Concrete(Abstract):
    def solve(self):
        return 89


class Mode(enum.Enum):
    FAST = 97
    SLOW = 98

    def doubled(self):
        return self.value * 2


class Flag(enum.IntFlag):
    A = 1
    B = 2


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 5
    tags: list = dataclasses.field(default_factory=lambda: [1, 2, 3])

    def norm(self):
        return self.x + self.y


@dataclasses.dataclass
class Ordered:
    first: int = 1
    second: int = 2


class Text(str):
    def shout(self):
        return self.upper() + "!"


class Keyed:
    def __init__(self, value, noise):
        self.value, self.noise = value, noise

    def __kcl_key__(self):
        return self.value


class Typed(typing.NamedTuple):
    a: int
    b: int = 3


Pair = collections.namedtuple("Pair", "a b")


@contextlib.contextmanager
def managed():
    yield 101


LAYOUT = Layout(1)
INSTANCE = Layout(103)
CORNER = Point(1, 2)
PAIR = Pair(1, 107)
KEYED = Keyed(109, 0)
CHANGING = Layout(3)
ADDED = Layout(1)


@kcl.kernel
def method():
    return scaled(LAYOUT.size())


@kcl.kernel
def static_method():
    return scaled(Layout.origin())


@kcl.kernel
def class_method():
    return scaled(Layout.make())


@kcl.kernel
def property_():
    return scaled(LAYOUT.area)


@kcl.kernel
def class_attribute():
    return scaled(Layout.pad)


@kcl.kernel
def inherited_method():
    return scaled(LAYOUT.deep())


@kcl.kernel
def inherited_attribute():
    return scaled(Layout.level)


@kcl.kernel
def overriding():
    return scaled(LAYOUT.overridden())


@kcl.kernel
def super_call():
    return scaled(LAYOUT.calling_super())


@kcl.kernel
def resolution_order():
    return scaled(Joined().first())


@kcl.kernel
def descriptor():
    return scaled(Described().field)


@kcl.kernel
def metaclass():
    return scaled(Made.width())


@kcl.kernel
def registered():
    return scaled(Registry.known["Registered"].value)


@kcl.kernel
def abstract():
    return scaled(Concrete().run())


@kcl.kernel
def operators():
    with LAYOUT as entered:
        total = entered + (LAYOUT + 1) + LAYOUT() + LAYOUT[1] + sum(LAYOUT) + len(LAYOUT) + (67 in LAYOUT)
    return scaled(total + LAYOUT.computed)


@kcl.kernel
def as_text():
    return scaled(f"{LAYOUT} + {LAYOUT!s}")


@kcl.kernel
def context_manager():
    with managed() as n:
        return scaled(n)


@kcl.kernel
def object_attribute():
    return scaled(INSTANCE.n)


@kcl.kernel
def object_changed():
    return scaled(CHANGING.n)


@kcl.kernel
def class_changed():
    return scaled(len(Layout.items))


@kcl.kernel
def method_replaced():
    return scaled(ADDED.size() + 1)


@kcl.kernel
def enum_value():
    return scaled(Mode.FAST.value)


@kcl.kernel
def enum_method():
    return scaled(Mode.SLOW.doubled())


@kcl.kernel
def enum_parameter(mode=Mode.FAST):
    return scaled(1 if mode is Mode.FAST else 2)


@kcl.kernel
def flags():
    return scaled(int(Flag.A | Flag.B))


@kcl.kernel
def dataclass_field():
    return scaled(CORNER.y)


@kcl.kernel
def dataclass_default():
    return scaled(Point(1).y)


@kcl.kernel
def dataclass_factory():
    return scaled(len(Point(1).tags))


@kcl.kernel
def dataclass_method():
    return scaled(CORNER.norm())


@kcl.kernel
def dataclass_order():
    return scaled(number(*dataclasses.asdict(Ordered())))


@kcl.kernel
def dataclass_parameter(point=Point(1)):
    return scaled(point.x + 10)


@kcl.kernel
def named_tuple():
    return scaled(PAIR.b)


@kcl.kernel
def typed_tuple():
    return scaled(Typed(1).b)


@kcl.kernel
def text_subclass(text=Text("a")):  # noqa: B008
    return scaled(number(text.shout()))


@kcl.kernel
def own_word():
    return scaled(KEYED.value)
