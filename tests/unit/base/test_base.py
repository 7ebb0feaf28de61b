"""kcl.base: ports, which are modules above, by names of two tables; kcl's own functions in the places of others."""

import functools
import importlib
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import pytest

import kcl
from kcl.base import computed_once, hide_from_warnings, is_of_kcl, port, unwrap


@pytest.mark.parametrize(("name", "module"), {**kcl.PORTS, **kcl.TOOLS}.items())
def test_each_name_of_the_tables_stands_for_a_module(name, module):
    assert port(name) is importlib.import_module(module)


def test_what_is_not_installed(monkeypatch):
    """A tool does nothing; another missing module is an error, and so is another name."""
    monkeypatch.setitem(kcl.TOOLS, "report", "kcl.nowhere")
    assert port("report").keep_journal() is None
    monkeypatch.setitem(kcl.PORTS, "kernels", "kcl.nowhere")
    with pytest.raises(ModuleNotFoundError):
        port("kernels")
    with pytest.raises(KeyError):
        port("nowhere")


def plain():
    """Return nothing."""


def of_kcl(function):
    """Return a function of a module of kcl's, around another."""
    made = types.FunctionType(plain.__code__, {"__name__": "kcl.somewhere"})
    return functools.update_wrapper(made, function)


def test_is_of_kcl():
    """The module's globals tell; an attribute that a decorator copies does not."""
    assert is_of_kcl(of_kcl(plain))
    assert not is_of_kcl(plain)
    assert not is_of_kcl(functools.wraps(of_kcl(plain))(lambda: None))
    assert not is_of_kcl(print)


def test_unwrap():
    """What stands below any number of kcl's functions is found; one that stands for nothing is itself."""
    alone = types.FunctionType(plain.__code__, {"__name__": "kcl.somewhere"})
    for function, below in ((of_kcl(of_kcl(plain)), plain), (plain, plain), (alone, alone)):
        assert unwrap(function) is below


class Counted:
    """An object with a value that is computed once."""

    def __init__(self, compute):
        self.compute = compute

    @computed_once
    def value(self):
        """The value."""
        return self.compute()


def test_computed_once():
    """The first use computes the value, which may raise an error."""
    values = [7, ZeroDivisionError()]

    def compute():
        value = values.pop()
        if isinstance(value, Exception):
            raise value
        return value

    counted = Counted(compute)
    with pytest.raises(ZeroDivisionError):
        assert counted.value
    assert (counted.value, counted.value, values) == (7, 7, [])
    assert Counted.value.__doc__ == "The value."


def test_computed_once_by_two_threads():
    """No thread waits for another one that computes; all get the value of the first."""
    together = threading.Barrier(2)

    def compute():
        together.wait(60)
        return object()

    counted = Counted(compute)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _thread: counted.value, range(2))
    assert first is second is counted.value


def test_a_warning_below_the_function_names_the_line_of_its_caller():
    function = types.FunctionType(plain.__code__, {})
    hide_from_warnings(function)
    assert function.__code__.co_filename == "<frozen importlib._bootstrap>"
