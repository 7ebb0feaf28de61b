"""Recipes that depend on code: helpers here, one module away and two, closures, wrappers, generated functions."""

import functools
import inspect
import operator
import types

import kcl
from truth import near
from truth.common import number, scaled
from truth.near import renamed as alias

TEMPLATE = "def made(n):\n    return n + 29\n"


def helper():
    return 3


def with_default(n=5):
    return n


def with_keyword(*, n=7):
    return n


def with_many(*items, **named):
    return sum(items) + sum(named.values())


def nested():
    def inner():
        return 11

    return inner()


def closing(factor):
    def inner():
        return factor

    return inner


def closing_twice(factor):
    def outer():
        def inner():
            return factor + 1

        return inner()

    return outer


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) + 13

    return wrapper


def bare(function):
    return lambda n: function(n) + 17


def adding(n):
    def decorate(function):
        return lambda: function() + n

    return decorate


@logged
def wrapped(n):
    return n + 19


@bare
def barely(n):
    return n * 23


@adding(31)
def added():
    return 1


@functools.cache
def remembered(n):
    return n + 37


@functools.singledispatch
def dispatched(value):
    return len(str(value))


@dispatched.register
def _(value: int):
    return value + 41


def divided(n, by):
    return n // by


def even(n):
    return 43 if n == 0 else odd(n - 1)


def odd(n):
    return 1 if n == 0 else even(n - 1)


def counted():
    for n in range(47, 50):
        yield n + 1


def template(n):
    return n + 53


def stacked(n):
    try:
        return int("x") + n
    except ValueError:
        return n + 59


def chosen(n):
    match n:
        case 1:
            return 61
        case _:
            return 0


def walrus(n):
    return [m := n + 67, m][1]


def replaceable():
    return 71


def marked():
    return marked.level


marked.level = 73

scope = {}
exec(TEMPLATE, scope)
made = scope["made"]
retyped = types.FunctionType(template.__code__, {}, "retyped")
five, six = closing(5), closing_twice(6)
halved = functools.partial(divided, by=2)
added_up = functools.partial(functools.partial(operator.add, 79), 4)
count = lambda n: n + 83  # noqa: E731
TABLE = {"one": helper, "two": lambda: 89}


@kcl.kernel
def body():
    total = 0
    for n in (1, 2, 4):
        total += n * 3
    return scaled(total)


@kcl.kernel
def body_condition():
    n = 3
    return scaled(8 if n < 3 else 9)


@kcl.kernel
def body_text():
    return scaled("2 * 3")


@kcl.kernel
def default(factor=6):
    return scaled(factor)


@kcl.kernel
def keyword_default(*, factor=7):
    return scaled(factor)


@kcl.kernel
def same_module():
    return scaled(helper())


@kcl.kernel
def helper_default():
    return scaled(with_default())


@kcl.kernel
def helper_keyword():
    return scaled(with_keyword())


@kcl.kernel
def starred():
    return scaled(with_many(*[2, 3], n=4))


@kcl.kernel
def another_module():
    return scaled(near.helper())


@kcl.kernel
def third_module():
    return scaled(near.through())


@kcl.kernel
def retargeted():
    return scaled(alias())


@kcl.kernel
def relative():
    return scaled(near.relative())


@kcl.kernel
def lazily():
    from truth import unseen

    return scaled(unseen.shifted(2))


@kcl.kernel
def lazily_deeper():
    from truth.unseen import deeper

    return scaled(deeper())


@kcl.kernel
def perhaps():
    try:
        from truth import absent
    except ImportError:
        return scaled(2)
    return scaled(absent.FACTOR)


@kcl.kernel
def inner_function():
    return scaled(nested())


@kcl.kernel
def closure():
    return scaled(five())


@kcl.kernel
def closure_twice():
    return scaled(six())


def recipe_in(factor):
    @kcl.kernel
    def closed():
        return scaled(factor)

    return closed


closed = recipe_in(97)


@kcl.kernel
def decorator():
    return scaled(wrapped(1))


@kcl.kernel
def decorated():
    return scaled(wrapped(2))


@kcl.kernel
def plain_decorator():
    return scaled(barely(1))


@kcl.kernel
def decorator_argument():
    return scaled(added())


@kcl.kernel
def cached():
    return scaled(remembered(1))


@kcl.kernel
def dispatch():
    return scaled(dispatched(1))


@kcl.kernel
def partial_argument():
    return scaled(halved(100))


@kcl.kernel
def partial_function():
    return scaled(halved(50))


@kcl.kernel
def partial_of_partial():
    return scaled(added_up())


@kcl.kernel
def lambdas():
    return scaled(count(1))


@kcl.kernel
def in_a_table():
    return scaled(TABLE["two"]())


@kcl.kernel
def recursion():
    return scaled(even(4))


@kcl.kernel
def generator():
    return scaled(sum(counted()))


@kcl.kernel
def comprehension():
    return scaled(sum(n * 2 for n in range(5) if n != 3))


@kcl.kernel
def executed():
    return scaled(made(1))


@kcl.kernel
def function_type():
    return scaled(retyped(1))


@kcl.kernel
def exception():
    return scaled(stacked(1))


@kcl.kernel
def matching():
    return scaled(chosen(1))


@kcl.kernel
def assigning():
    return scaled(walrus(1))


@kcl.kernel
def replaced():
    return scaled(replaceable())


@kcl.kernel
def replaced_far():
    return scaled(near.far.constant() + 1)


@kcl.kernel
def replaced_library():
    return scaled(number(near.textwrap.dedent("  a")))


@kcl.kernel
def function_attribute():
    return scaled(marked())


@kcl.kernel
def docstring():
    return scaled(number(read_doc.__doc__))


def read_doc():
    """One."""


def read_annotations(n: "one"):  # noqa: F821
    """Be read."""


def read_signature(n: "three"):  # noqa: F821
    """Be read."""


@kcl.kernel
def annotation():
    return scaled(number(read_annotations.__annotations__["n"]))


@kcl.kernel
def annotation_in_signature():
    return scaled(number(inspect.signature(read_signature).parameters["n"].annotation))


@kcl.kernel
def shadowed():
    return scaled(max(1, 2))


@kcl.kernel
def given_function(function=near.helper):
    return scaled(function())


@kcl.kernel
def inner():
    return scaled(4)


@kcl.kernel
def recipe_in_recipe():
    return inner.function()
