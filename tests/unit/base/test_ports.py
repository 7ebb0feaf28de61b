"""kcl.base.ports: modules above, by names of two tables."""

from __future__ import annotations

import importlib

import pytest

import kcl
from kcl.base import ports


@pytest.mark.parametrize(("name", "module"), {**kcl.PORTS, **kcl.TOOLS}.items())
def test_at(name, module):
    """Each name of the tables stands for a module."""
    assert ports.at(name) is importlib.import_module(module)


def test_a_tool_that_is_not_installed(monkeypatch):
    """It does nothing; another missing module is an error."""
    monkeypatch.setitem(kcl.TOOLS, "report", "kcl.nowhere")
    assert ports.at("report").keep_journal() is None
    monkeypatch.setitem(kcl.PORTS, "kernels", "kcl.nowhere")
    with pytest.raises(ModuleNotFoundError):
        ports.at("kernels")


def test_unknown():
    """There are no other names."""
    with pytest.raises(KeyError):
        ports.at("nowhere")
