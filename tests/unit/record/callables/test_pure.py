"""kcl.record.callables.pure: the list of what is pure."""

from __future__ import annotations

import importlib

import pytest

from kcl.record.callables import pure


class TestHas:
    """A name of a library is on the list, or it is not."""

    @pytest.mark.parametrize(
        "dotted",
        [
            "builtins.len",
            "math.sin",
            "_operator.add",
            "_functools.reduce",
            "functools.partial",
            "numpy.float32",
            "numpy.linalg.norm",
            "collections.abc.Sequence",
            "loopy.make_function",
            "pymbolic.primitives.Variable",
            "pytools.UniqueNameGenerator",
            "re.Pattern",
        ],
    )
    def test_listed(self, dotted: str) -> None:
        """Names whose results depend on their arguments alone are on it, also those that C code shows."""
        assert pure.has(dotted)

    @pytest.mark.parametrize(
        "dotted",
        [
            "builtins.open",
            "builtins.id",
            "builtins.print",
            "builtins.__import__",
            "os.environ",
            "sys.argv",
            "decimal.getcontext",
            "functools.lru_cache",
            "numpy.get_printoptions",
            "numpy.random.rand",
            "logging.getLogger",
            "pyopencl.tools.get_or_register_dtype",
            "loopy.tools.PersistentDict",
            "pytools.persistent_dict.KeyBuilder",
            "typing.get_type_hints",
            "scipy.special.jv",
            "a_package.of_nobody",
        ],
    )
    def test_unlisted(self, dotted: str) -> None:
        """Names that read the process, and names that nobody has looked at, are not on it."""
        assert not pure.has(dotted)

    def test_names_exist(self) -> None:
        """Each name on the list is one of its module, in this or in another release of numpy and Python."""
        unknown = []
        for module in ("functools", "dataclasses", "contextlib", "pathlib", "posixpath", "types"):
            held = importlib.import_module(module)
            unknown += [name for name in sorted(pure._LISTED[module]) if not hasattr(held, name)]
        assert unknown == ["helper"]  # inside contextlib.contextmanager


class TestTakes:
    """Code may take attributes of any value, but not those that lead to modules and frames."""

    @pytest.mark.parametrize(
        "name", ["x", "f_name", "__class__", "__len__", "_private", "co_author"]
    )
    def test_listed(self, name: str) -> None:
        """Attributes of values may be taken."""
        assert pure.takes(name)

    @pytest.mark.parametrize(
        "name",
        [
            "__globals__",
            "__code__",
            "__subclasses__",
            "__doc__",
            "f_globals",
            "gi_frame",
            "tb_frame",
            "co_names",
        ],
    )
    def test_unlisted(self, name: str) -> None:
        """Attributes that lead to globals, frames, code and texts of code may not."""
        assert not pure.takes(name)
