"""A plugin of pytest: with `--kcl`, or `kcl = true` in the ini file, tests run with the integrations installed."""

from __future__ import annotations

from typing import Any


def pytest_addoption(parser: Any) -> None:
    """Add the option and the setting; both are off unless they are given."""
    words = "take the programs of pyopencl and the units of loopy through the layers of kcl"
    parser.getgroup("kcl").addoption("--kcl", action="store_true", help=words)
    parser.addini("kcl", words, type="bool", default=False)


def pytest_configure(config: Any) -> None:
    """Install before test modules are imported; workers of pytest-xdist have the options of the session."""
    if _is_asked(config):
        from kcl import integrations

        integrations.install()


def pytest_unconfigure(config: Any) -> None:
    """Uninstall, as there may be another session in this process."""
    if _is_asked(config):
        from kcl import integrations

        integrations.uninstall()


def _is_asked(config: Any) -> bool:
    return bool(config.getoption("kcl") or config.getini("kcl"))
