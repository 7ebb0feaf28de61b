"""A plugin of pytest: with `--kcl`, or `kcl = true` in the ini file, tests run with the integrations installed.

The fixture `kcl_cache` works without that: a test that asks for it has a cache directory of its own.
pytest leaves a module alone whose docstring has this word: PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from kcl import integrations

if TYPE_CHECKING:
    from kcl.base.events import Event


class PrivateCache:
    """The cache of one test: `path` is its directory, `events` are the look-ups so far, in their order."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.events: list[Event] = []

    def stats(self) -> dict[str, dict[str, float]]:
        """Return the counters of this test: layer -> hits, misses, bypassed, errors, seconds, saved, bytes."""
        from kcl.base import events

        return events.count(self.events)

    def begin_again(self) -> None:
        """Have every kernel looked up again, as in a new process; forget the events, and wait for helper processes."""
        import kcl

        kcl.flush()
        kcl.option.cache_dir(self.path)
        self.events.clear()


@pytest.fixture
def kcl_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateCache]:
    """Give the test a private, empty cache directory, for its child processes too, and count its look-ups."""
    import kcl
    from kcl import drivers
    from kcl.cache import places

    cache = PrivateCache(tmp_path / "kcl-cache")
    # The variable is for child processes. The option is for this one.
    monkeypatch.setenv("KCL_CACHE_DIR", str(cache.path))
    with kcl.option.cache_dir(cache.path):
        remove = kcl.add_hook(cache.events.append)
        try:
            yield cache
        finally:
            remove()
            # The folder is read before the block ends: afterwards it is that of the session.
            folder = places.own()
    drivers.quiet(folder)


class FoundPlugin:
    """The plugin `kcl` that pytest finds; it registers this module, unless `-p` has named the module before."""

    @staticmethod
    def pytest_addhooks(pluginmanager: Any) -> None:
        """Register this module."""
        pluginmanager.import_plugin(__name__)


def pytest_addoption(parser: Any) -> None:
    """Add the option and the setting; both are off unless they are given."""
    words = "take the programs of pyopencl and the units of loopy through the layers of kcl"
    parser.getgroup("kcl").addoption("--kcl", action="store_true", help=words)
    parser.addini("kcl", words, type="bool", default=False)


def pytest_configure(config: Any) -> None:
    """Install before test modules are imported; workers of pytest-xdist have the options of the session.

    Uninstall as the session ends: the process may run another session.
    """
    if config.getoption("kcl") or config.getini("kcl"):
        integrations.install()
        config.add_cleanup(integrations.uninstall)
