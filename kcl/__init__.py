"""kcl: a multi-level kernel cache for PyOpenCL and loopy.

A decorated recipe builds a kernel. The recipe runs in every process, and kcl records its calls of loopy. The second run
of a program imports no loopy, generates no code and compiles no program.
Importing kcl imports neither pyopencl nor numpy nor loopy, and touches no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcl.base.events import Event, add_hook, stats
    from kcl.bundle import artifacts, load_artifacts, load_cache_artifacts, save_artifacts, save_cache_artifacts
    from kcl.bundle.info import CacheInfo
    from kcl.cache.layer import CacheWarning
    from kcl.errors import (
        CacheFault,
        CacheMiss,
        DamagedEntry,
        KclError,
        PrepareError,
        RecipeError,
        SettingError,
        UnknownInput,
        UnusableDirectory,
    )
    from kcl.generate.frontends.source import Array, Image, Local, Sampler, Scalar, Source, round_up
    from kcl.handle import Kernel
    from kcl.inspect.catalogue import CacheEntry, entries
    from kcl.inspect.explain.misses import Miss, explain
    from kcl.inspect.purge import Removal, purge
    from kcl.inspect.report import flush
    from kcl.inspect.summary import report
    from kcl.integrations import install, uninstall
    from kcl.recipe import Recipe, kernel, lazy
    from kcl.sized import sizes
    from kcl.sized.size import Size
    from kcl.workers.prepare import prepare

__version__ = "0.1.0"

_HOMES = {
    "Array": "kcl.generate.frontends.source",
    "CacheEntry": "kcl.inspect.catalogue",
    "CacheFault": "kcl.errors",
    "CacheInfo": "kcl.bundle.info",
    "CacheMiss": "kcl.errors",
    "CacheWarning": "kcl.cache.layer",
    "DamagedEntry": "kcl.errors",
    "Event": "kcl.base.events",
    "Image": "kcl.generate.frontends.source",
    "KclError": "kcl.errors",
    "Kernel": "kcl.handle",
    "Local": "kcl.generate.frontends.source",
    "Miss": "kcl.inspect.explain.misses",
    "PrepareError": "kcl.errors",
    "Recipe": "kcl.recipe",
    "RecipeError": "kcl.errors",
    "Removal": "kcl.inspect.purge",
    "Sampler": "kcl.generate.frontends.source",
    "Scalar": "kcl.generate.frontends.source",
    "SettingError": "kcl.errors",
    "Size": "kcl.sized.size",
    "Source": "kcl.generate.frontends.source",
    "UnknownInput": "kcl.errors",
    "UnusableDirectory": "kcl.errors",
    "add_hook": "kcl.base.events",
    "artifacts": "kcl.bundle",
    "entries": "kcl.inspect.catalogue",
    "explain": "kcl.inspect.explain.misses",
    "flush": "kcl.inspect.report",
    "install": "kcl.integrations",
    "kernel": "kcl.recipe",
    "lazy": "kcl.recipe",
    "load_artifacts": "kcl.bundle",
    "load_cache_artifacts": "kcl.bundle",
    "option": "kcl.base.settings.option",
    "prepare": "kcl.workers.prepare",
    "purge": "kcl.inspect.purge",
    "report": "kcl.inspect.summary",
    "round_up": "kcl.generate.frontends.source",
    "save_artifacts": "kcl.bundle",
    "save_cache_artifacts": "kcl.bundle",
    "sizes": "kcl.sized",
    "stats": "kcl.base.events",
    "uninstall": "kcl.integrations",
}

__all__ = [
    "Array",
    "CacheEntry",
    "CacheFault",
    "CacheInfo",
    "CacheMiss",
    "CacheWarning",
    "DamagedEntry",
    "Event",
    "Image",
    "KclError",
    "Kernel",
    "Local",
    "Miss",
    "PrepareError",
    "Recipe",
    "RecipeError",
    "Removal",
    "Sampler",
    "Scalar",
    "SettingError",
    "Size",
    "Source",
    "UnknownInput",
    "UnusableDirectory",
    "add_hook",
    "artifacts",
    "entries",
    "explain",
    "flush",
    "install",
    "kernel",
    "lazy",
    "load_artifacts",
    "load_cache_artifacts",
    "option",
    "prepare",
    "purge",
    "report",
    "round_up",
    "save_artifacts",
    "save_cache_artifacts",
    "sizes",
    "stats",
    "uninstall",
]


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'kcl' has no attribute {name!r}")
    import importlib

    module = importlib.import_module(home)
    value: Any = module if name == "option" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
