"""kcl.errors: one class per decision that a caller can take."""

from kcl import errors


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes():
    classes = [one for one in vars(errors).values() if isinstance(one, type)]
    lines = errors.__doc__.splitlines()
    drawn = {line.split("+--")[1].split()[0] for line in lines if "+--" in line}
    ours = {one.__name__ for one in classes if issubclass(one, errors.KclError)}
    assert drawn | {"KclError"} == ours


def test_bases():
    """A fault of the cache is no unknown input; a recipe that returns something else made what Python calls a TypeError."""
    for error in (errors.DamagedEntry, errors.UnusableDirectory):
        assert issubclass(error, errors.CacheFault)
        assert not issubclass(error, errors.UnknownInput)
    assert issubclass(errors.RecipeError, TypeError)


def test_meant():
    """A name that is near suggests what was meant, and one that is not suggests nothing."""
    assert errors.meant("pocll", ["pocl", "cuda"]) == " (did you mean 'pocl'?)"
    assert errors.meant("x", ["pocl", "cuda"]) == ""
