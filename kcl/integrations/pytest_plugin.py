"""A pytest plugin: with `--kcl`, or `kcl = true` in the ini file, `kcl.install()` is in force while tests run.

The fixture `kcl_cache` needs neither: it gives a test a cache directory of its own.
The next word keeps pytest from rewriting this module: PYTEST_DONT_REWRITE
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
    """The cache of one test: `path` is its directory, `events` has the look-ups so far."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.events: list[Event] = []

    def stats(self) -> dict[str, dict[str, float]]:
        """Return the counters of this test: layer -> hits, misses, bypassed, errors, seconds, saved, bytes."""
        from kcl.base import events

        return events.count(self.events)

    def begin_again(self) -> None:
        """Look every kernel up again, as a new process would; wait for helper processes first, and clear `events`."""
        import kcl

        kcl.flush()
        kcl.option.cache_dir(self.path)
        self.events.clear()


@pytest.fixture
def kcl_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateCache]:
    """Give a test, and its child processes, a private empty cache directory; collect the test's look-ups."""
    import kcl
    from kcl import drivers
    from kcl.cache import places

    cache = PrivateCache(tmp_path / "kcl-cache")
    # The variable is for child processes, the option for this one.
    monkeypatch.setenv("KCL_CACHE_DIR", str(cache.path))
    with kcl.option.cache_dir(cache.path):
        remove = kcl.add_hook(cache.events.append)
        try:
            yield cache
        finally:
            remove()
            # Read inside the block: after it the call would return the session's folder.
            folder = places.own()
    drivers.quiet(folder)


class FoundPlugin:
    """The entry point that pytest finds under the name `kcl`. It registers this module unless `-p` has done so."""

    @staticmethod
    def pytest_addhooks(pluginmanager: Any) -> None:
        """Register this module."""
        pluginmanager.import_plugin(__name__)


def pytest_addoption(parser: Any) -> None:
    """Add the option `--kcl` and the ini setting `kcl`, both off by default."""
    words = "take the programs of pyopencl and the units of loopy through the layers of kcl"
    parser.getgroup("kcl").addoption("--kcl", action="store_true", help=words)
    parser.addini("kcl", words, type="bool", default=False)


def pytest_configure(config: Any) -> None:
    """Install the integrations before test modules are imported, and uninstall them at the end of the session.

    Workers of pytest-xdist get the options of the session, so it works there too.
    """
    if config.getoption("kcl") or config.getini("kcl"):
        integrations.install()
        config.add_cleanup(integrations.uninstall)
