"""kcl.recipe: the decorator, the binding of compile-time parameters, and modules that are imported when used."""

import copy
import functools
import inspect
import sys

import numpy as np
import pyopencl as cl
import pytest

import kcl

pytestmark = pytest.mark.slow_platforms


@kcl.kernel
def plain(first, second=2, *, third=3):  # noqa: ARG001
    """Say what is built."""
    raise AssertionError("a recipe does not run when it is called")


@kcl.kernel
def filling(values):
    """Write the parameter's values."""
    text = ", ".join(str(float(value)) for value in values)
    code = (
        f"constant float v[] = {{ {text} }};"
        "kernel void filling(global float *x) { x[get_global_id(0)] = v[get_global_id(0)]; }"
    )
    arguments = [kcl.Array("x", np.float32, len(values), "out")]
    return kcl.Source(code, entry="filling", arguments=arguments, global_size=len(values))


def filled(queue, kernel):
    """Launch a Kernel of `filling`."""
    _event, (x,) = kernel(queue, out_host=True)
    return x.tolist()


class TestDecorator:
    def test_looks_like_the_function(self):
        """Names, docstring, module and signature are the function's, as `functools.wraps` has it; repr says "recipe"."""
        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            assert getattr(plain, name) == getattr(plain.function, name)
        assert inspect.signature(plain) == inspect.signature(plain.function)
        assert plain.__wrapped__ is plain.function
        assert repr(plain) == "<kcl.kernel plain>"
        assert isinstance(plain, kcl.Recipe)

    @pytest.mark.parametrize(
        "thing", [int, len, functools.partial(print), plain, 42, "text", [].append]
    )
    def test_decorates_functions_only(self, thing):
        """Anything else is a TypeError that shows it."""
        with pytest.raises(TypeError, match=r"@kcl\.kernel decorates a function, not"):
            kcl.kernel(thing)


def counted(function):
    """Count the calls of a function, as decorators do."""

    @functools.wraps(function)
    def inner(*args, **kwargs):
        inner.calls += 1
        return function(*args, **kwargs)

    inner.calls = 0
    return inner


@kcl.kernel
@counted
def under(value: int = 1, *, other=2):
    """Lie under the decorator of kcl."""
    return filling.function([value, other])


@counted
@kcl.kernel
def over(value=1):
    """Lie over it."""
    return filling.function([value])


class Holder:
    """A class with recipes."""

    def __init__(self, base=0):
        self.base = base

    @staticmethod
    @kcl.kernel
    def apart(value=3):
        """Know no object."""
        return filling.function([value])

    @classmethod
    @kcl.kernel
    def shared(cls, value=4):
        """Know the class."""
        return filling.function([value])

    @kcl.kernel
    def own(self, value=5):
        """Know the object."""
        return filling.function([self.base + value])


@pytest.mark.one_platform
class TestStacked:
    """Other decorators below and above that of kcl."""

    def test_below(self, queue):
        """A wrapped function keeps its parameters; it runs once, through the decorator below."""
        before = under.function.calls
        assert filled(queue, under(value=7)) == [7, 2]
        assert under.function.calls == before + 1
        assert [*inspect.signature(under).parameters] == ["value", "other"]
        assert under.__doc__ == "Lie under the decorator of kcl."
        words = r"recipe 'under' has no parameter 'valu' \(did you mean 'value'\?\)"
        with pytest.raises(TypeError, match=words):
            under(valu=7)

    def test_above(self, queue):
        """A decorator above sees a callable with the name and the signature of the function."""
        assert filled(queue, over(value=8)) == [8]
        assert (over.__name__, over.__doc__, over.calls) == ("over", "Lie over it.", 1)
        assert str(inspect.signature(over)) == "(value=1)"
        kept = functools.cache(filling)
        assert kept((1, 2)) is kept((1, 2))

    @pytest.mark.parametrize(("name", "value"), [("apart", 3), ("shared", 4), ("own", 5)])
    def test_methods(self, queue, name, value):
        """Static methods, class methods and methods are recipes with the name and the words of the function."""
        recipe = getattr(Holder(), name)
        assert filled(queue, recipe()) == [value]
        assert (recipe.__name__, recipe.__doc__) == (name, vars(Holder)[name].__doc__)
        assert str(inspect.signature(recipe)) == f"(value={value})"

    def test_object(self, queue):
        """The object is the first parameter, as it is at the call; the class has the recipe itself."""
        holder = Holder(3)
        kernel, other = holder.own(), holder.own(value=4)
        holder.base = 5
        kernels = (kernel, other, holder.own(), Holder(7).own(), Holder.own(Holder(2)))
        assert [filled(queue, one) for one in kernels] == [[8], [7], [10], [12], [7]]
        assert isinstance(Holder.own, kcl.Recipe)

    def test_face(self):
        """The module of a function below a decorator of another module gets the face of loopy."""
        names = {"__name__": "elsewhere", "kcl": kcl, "counted": counted}
        exec("@kcl.kernel\n@counted\ndef build():\n    import loopy\n    return loopy\n", names)
        assert type(names["build"].function()).__module__ == "kcl.frontends.loopy.face"

    def test_an_error_names_the_line_of_the_function_not_that_of_a_decorator(self, queue):

        @kcl.kernel
        @counted
        def broken():
            text = "kernel void broken() { missing; }"
            return kcl.Source(text, entry="broken", arguments=[], global_size=1)

        line = broken.function.__wrapped__.__code__.co_firstlineno
        words = f"'broken' \\(recipe in .*test_recipe.py, line {line}\\)"
        with pytest.raises(cl.RuntimeError, match=words):
            broken()(queue)


class TestParameters:
    @pytest.mark.parametrize(
        "kernel",
        [
            *(plain(1), plain(first=1), plain(1, 2), plain(1, second=2, third=3)),
            plain(third=3, second=2, first=1),
        ],
    )
    def test_bound_by_name(self, kernel):
        """However they are given they are the same parameters, in the order of the signature."""
        assert [*kernel._chooser.parameters.items()] == [("first", 1), ("second", 2), ("third", 3)]

    @pytest.mark.parametrize(
        ("call", "words"),
        [
            (
                lambda: plain(1, secnd=2),
                r"^recipe 'plain' has no parameter 'secnd' \(did you mean 'second'\?\)",
            ),
            (plain, r"^recipe 'plain': .*'first'; its parameters are first, second, third$"),
            (
                lambda: kcl.kernel(lambda *values: values)(1),
                "give every compile-time parameter a name",
            ),
            (
                lambda: kcl.kernel(lambda **named: named)(a=1),
                "give every compile-time parameter a name",
            ),
            (lambda: kcl.kernel(lambda one, /: one)(1), "give every compile-time parameter a name"),
        ],
    )
    def test_refused_by_name(self, call, words):
        """What a recipe does not take is named, with its parameters; each must have a name, once it is used."""
        with pytest.raises(TypeError, match=words):
            call()

    def test_called_as_a_kernel(self, queue):
        """A queue among the parameters is meant for the kernel that the recipe makes; a context is a value."""
        assert plain(queue.context).name == "plain"
        for given, named in ((queue, {"x": 1}), (queue, {}), (1, {"third": queue})):
            words = r"^plain\(...\) makes a kernel, .*: write plain\(\)\(queue, \.\.\.\)$"
            with pytest.raises(TypeError, match=words):
                plain(given, **named)

    def test_queue_as_default(self, queue):
        """A queue is refused as a default, too, unless the call gives another value."""

        @kcl.kernel
        def defaulted(where=queue):
            return where

        with pytest.raises(TypeError, match=r"^defaulted\(...\) makes a kernel, "):
            defaulted()
        assert defaulted(where=queue.context).name == "defaulted"

    @pytest.mark.parametrize(
        ("name", "call"), [("executor", r"\(queue, \.\.\.\)"), ("prepare", r"\.prepare\(\.\.\.\)")]
    )
    def test_asked_as_a_kernel(self, name, call):
        """What a kernel has, or a unit of loopy, is asked of the kernel that the recipe makes."""
        with pytest.raises(
            AttributeError, match=rf"no attribute '{name}'; .*: write plain\(\){call}$"
        ):
            getattr(plain, name)
        assert not hasattr(plain, "others")

    @pytest.mark.parametrize("values", [[1, 2], np.array([1, 2]), {1: 0, 2: 0}])
    def test_copied(self, queue, values):
        """A parameter that is changed after the call does not change the Kernel."""
        values = copy.copy(values)
        kernel = filling(values)
        values[1] = 9
        if isinstance(values, dict):
            values[3] = 0
        assert filled(queue, kernel) == [1.0, 2.0]

    def test_default_is_copied(self, queue):
        """Nor does a default that is changed."""
        default = [1, 2]
        kernel = kcl.kernel(lambda values=default: filling.function(values))()
        default.append(3)
        assert filled(queue, kernel) == [1.0, 2.0]

    def test_what_cannot_be_copied(self, queue):
        """A parameter that resists copying is taken as it is; the look-up may be bypassed, the result is right."""

        class Stubborn(list):
            def __deepcopy__(self, memo):
                raise RuntimeError("no copies of me")

        assert filled(queue, filling(Stubborn([4, 5]))) == [4.0, 5.0]


class TestLazy:
    def test_imported_when_used(self, tmp_path, monkeypatch):
        """The module is imported by the first attribute that is asked of it, not before."""
        (tmp_path / "kcl_lazy_example.py").write_text("value = 42\n")
        monkeypatch.syspath_prepend(tmp_path)
        module = kcl.lazy("kcl_lazy_example")
        assert "kcl_lazy_example" not in sys.modules
        assert module.value == sys.modules.pop("kcl_lazy_example").value == 42

    def test_loaded_module_is_itself(self):
        assert kcl.lazy("sys") is sys
        assert kcl.lazy("os.path") is sys.modules["os.path"]

    def test_attributes_that_are_missing(self):
        """Errors are those of the import and of the module, when it is used."""
        with pytest.raises(ModuleNotFoundError, match="kcl_no_such_module"):
            _ = kcl.lazy("kcl_no_such_module").value
        with pytest.raises(AttributeError, match="no_such_name"):
            _ = kcl.lazy("json").no_such_name
