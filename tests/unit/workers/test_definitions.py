"""kcl.workers.definitions: the parts of a script that define something."""

from __future__ import annotations

import ast

import pytest

from kcl.workers.definitions import Definitions, defines

SCRIPT = """
from __future__ import annotations
import math
import module_that_is_not_there
SIZE, PAIR = 4, (1, 2)
LATE: int = SIZE * 2
print("a launch")
context = print("a context")
broken = context.devices
try:
    import numpy
except ImportError:
    numpy = None


def twice(x: Unknown) -> float:
    return 2 * math.sqrt(SIZE) * x


class Thing:
    size = LATE


if __name__ == "__main__":
    twice = print("main")
"""


class TestDefinitions:
    def test_made(self, tmp_path, capsys):
        """Imports, definitions and constants are there; calls are left out, and what fails keeps nothing else away."""
        path = tmp_path / "script.py"
        path.write_text(SCRIPT)
        made = Definitions(str(path), "package")
        assert made.twice(3) == 12
        assert (made.PAIR, made.Thing.size, made.numpy.__name__) == ((1, 2), 8, "numpy")
        assert made.twice.__module__ == made.__name__ == "__main__"
        assert made.twice.__annotations__ == {"x": "Unknown", "return": "float"}
        assert made.twice.__code__.co_filename == str(path)
        assert (made.__package__, made.__file__) == ("package", str(path))
        for left_out in ("context", "broken", "module_that_is_not_there"):
            with pytest.raises(AttributeError, match=left_out):
                getattr(made, left_out)
        assert capsys.readouterr().out == ""

    @pytest.mark.parametrize("text", [None, "def ("])
    def test_no_script(self, tmp_path, text):
        """A notebook has no script, a file may be gone or be no Python: nothing is defined."""
        path = tmp_path / "script.py"
        if text is not None:
            path.write_text(text)
        for made in (Definitions(str(path), None), Definitions("", None)):
            with pytest.raises(AttributeError, match="twice"):
                made.twice  # noqa: B018  (asking is what is tested)


class TestDefines:
    @pytest.mark.parametrize(
        "text",
        [
            *("N = 4", "A = B = N * 2", "(a, b) = 1, 2", "n: int = 3", "if N > 3: X = 1\nelse: X = 2"),
            *("def f(x=g()): f(1)", "HERE = Path(__file__).resolve().parent / 'cl'", "N = len(NAMES)"),
            *("T = np.dtype([('x', np.float32)])", "A = np.float32(2)", "S = ' '.join(NAMES).upper()"),
            "HERE = os.path.join(os.path.dirname(__file__), 'cl')",
        ],
    )
    def test_definition(self, text):
        """Definitions call nothing but decorators and defaults, and constants what makes paths, dtypes and texts."""
        assert defines(ast.parse(text).body[0])

    @pytest.mark.parametrize(
        "text",
        [
            *("f()", "x = f()", "x = len(f())", "x = Path('x').unlink()", "x = np.zeros(3)", "x = f().parent"),
            *("x = (f or g)()", "x.y = 1", "x['y'] = 1", "for i in x: y = i", "with x: y = 1"),
            *("if f(): y = 1", "del x"),
        ],
    )
    def test_action(self, text):
        """Everything else is left out."""
        assert not defines(ast.parse(text).body[0])
