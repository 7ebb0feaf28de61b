"""The completions of the shell after a TAB: names of layers and of kernels."""

from __future__ import annotations

import click


def layers(_ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    """Return the layers and caches that complete the last name of a list."""
    from kcl.base import settings
    from kcl.caches.shell import ALL
    from kcl.caches.table import ROWS

    before, comma, last = begun.rpartition(",")
    known = (*settings.LAYERS, *ROWS, *([ALL] if param.name in ("off", "on") else []))
    return [before + comma + name for name in known if name.startswith(last)]


def kernels(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Return the kernels that have an entry."""
    from kcl.inspect import inventory

    return sorted({one.kernel for one in inventory.entries() if one.kernel.startswith(begun)})


def missed(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Return the kernels with a known miss."""
    from kcl.inspect.history import journal

    return sorted({one.kernel for one in journal.last_misses() if one.kernel.startswith(begun)})
