"""kcl.base.ports: modules above, by names of one table."""

from __future__ import annotations

import importlib

import pytest

import kcl
from kcl.base import ports


@pytest.mark.parametrize("name", kcl.PORTS)
def test_at(name):
    """Each name of the table stands for a module."""
    assert ports.at(name) is importlib.import_module(kcl.PORTS[name])


def test_unknown():
    """There are no other names."""
    with pytest.raises(KeyError):
        ports.at("nowhere")
