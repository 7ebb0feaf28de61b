"""Recipes that depend on what is seldom thought of: identity, memory layouts, hooks, what is added to builtins."""

import abc
import builtins
import dataclasses
import enum

import numpy as np

import kcl
from truth.common import number, scaled

builtins.TRUTH_ADDED = 2
UNSET = object()
MISSING = object()
LAID = np.array([[1, 2], [3, 4]], order="C")
MASKED = np.ma.array([1, 2, 4], mask=[0, 1, 0])
UNIT = np.dtype("i4", metadata={"unit": 2})
FIRST = [1]
SECOND = [1]


class Tagged(np.ndarray):
    tag = 1


TAGGED = np.zeros(2).view(Tagged)
TAGGED.tag = 3


class Shape(abc.ABC):  # noqa: B024
    pass


class Square:
    pass


class Triangle:
    pass


Shape.register(Square)


@dataclasses.dataclass
class Field:
    x: int = dataclasses.field(default=1, metadata={"width": 2})


class Member(enum.Enum):
    ONE = (1, 5)

    def __new__(cls, value, width):
        made = object.__new__(cls)
        made._value_ = value
        made.width = width
        return made


scope = {}
exec("class Made:\n    width = 6\n", scope)
Made = scope["Made"]


def given(x=UNSET):
    return 2 if x is UNSET else 3


@kcl.kernel
def added_to_builtins():
    return scaled(TRUTH_ADDED)  # noqa: F821


@kcl.kernel
def sentinel():
    return scaled(given())


@kcl.kernel
def sentinel_given(x=UNSET):
    return scaled(2 if x is UNSET else 3)


@kcl.kernel
def order_in_memory():
    return scaled(number(*LAID.ravel("K")))


@kcl.kernel
def mask():
    return scaled(int(MASKED.sum()))


@kcl.kernel
def tagged():
    return scaled(TAGGED.tag)


@kcl.kernel
def unit():
    return scaled(UNIT.metadata["unit"])


@kcl.kernel
def registered_class():
    return scaled(2 if issubclass(Triangle, Shape) else 3)


@kcl.kernel
def field_metadata():
    return scaled(dataclasses.fields(Field)[0].metadata["width"])


@kcl.kernel
def field_type():
    return scaled(number(dataclasses.fields(Field)[0].type))


@kcl.kernel
def member_attribute():
    return scaled(Member.ONE.width)


@kcl.kernel
def made_by_exec():
    return scaled(Made.width)


@kcl.kernel
def same_list():
    return scaled(2 if FIRST is SECOND else 3)


@kcl.kernel
def parent_package():
    from truth.below import inside

    return scaled(inside.factor())


@kcl.kernel
def archived():
    from truth_archived import far

    return scaled(far.factor())


@kcl.kernel
def asserting():
    try:
        assert FIRST is SECOND
    except AssertionError:
        return scaled(7)
    return scaled(8)


@kcl.kernel
def debugging():
    return scaled(9 if __debug__ else 10)


@kcl.kernel
def position():
    return scaled(number(given.__code__.co_firstlineno))
