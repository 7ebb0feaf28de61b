"""kcl.record.callables.bytecode: instructions without the noise of the layout of their text."""

from __future__ import annotations

import textwrap

import pytest

from kcl.record.callables.bytecode import normal


def of(text):
    """Return the normal form of the function `f` of a text, without its constants' places."""
    names = {}
    exec(compile(textwrap.dedent(text), "f.py", "exec"), names)
    return normal(names["f"].__code__)


PLAIN = "def f(x):\n    with x:\n        return x[0] if x else None\n"


@pytest.mark.parametrize(
    "text",
    [
        "\n\n\ndef f(x):\n    with x:\n        return x[0] if x else None\n",
        "def f(x):\n    with (\n        x\n    ):\n        return (x[0]\n            if x\n            else None)\n",
        "def f(x):\n    with x: return x[0] if x else None\n",
    ],
)
def test_layout(text):
    """Line breaks and blank lines leave nothing in the normal form."""
    assert of(text)[:2] == of(PLAIN)[:2]


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    with x:\n        return x[0] if not x else None\n",
        "def f(x):\n    with x:\n        return x(0) if x else None\n",
        "def f(x):\n    with x:\n        pass\n    return x[0] if x else None\n",
    ],
)
def test_change(text):
    """Other instructions, and another reach of a block, have another normal form."""
    assert of(text)[:2] != of(PLAIN)[:2]
