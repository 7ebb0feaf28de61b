"""kcl.errors: one class per decision that a caller can take."""

import pytest

from kcl import errors


def test_tree():
    """The tree in the docstring is the tree of the classes."""
    classes = {
        one
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, errors.KclError)
    }
    drawn = {
        line.split("+--")[1].split()[0] for line in errors.__doc__.splitlines() if "+--" in line
    }
    assert drawn | {"KclError"} == {one.__name__ for one in classes}


@pytest.mark.parametrize("error", [errors.DamagedEntry, errors.UnusableDirectory])
def test_faults_of_the_cache(error):
    """A fault of the cache is caught as one, and is no unknown input."""
    assert issubclass(error, errors.CacheFault)
    assert not issubclass(error, errors.UnknownInput)


def test_wrong_result_of_a_recipe():
    """A recipe that returns something else made a TypeError, as Python calls it."""
    assert issubclass(errors.RecipeError, TypeError)


def test_meant():
    """A name that is near suggests what was meant, and one that is not suggests nothing."""
    assert errors.meant("pocll", ["pocl", "cuda"]) == " (did you mean 'pocl'?)"
    assert errors.meant("x", ["pocl", "cuda"]) == ""
