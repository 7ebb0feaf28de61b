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
    from kcl.cache.layer import CacheWarning, disabled
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
    from kcl.tuning.space import Skip, space
    from kcl.workers.prepare import prepare

__version__ = "0.1.0"

# The public names, by the modules that have them.
_NAMES = {
    "kcl.base.events": "Event add_hook stats",
    "kcl.base.settings.option": "option",
    "kcl.bundle": "artifacts load_artifacts load_cache_artifacts save_artifacts save_cache_artifacts",
    "kcl.bundle.info": "CacheInfo",
    "kcl.cache.layer": "CacheWarning disabled",
    "kcl.errors": "CacheFault CacheMiss DamagedEntry KclError PrepareError RecipeError SettingError UnknownInput "
    "UnusableDirectory",
    "kcl.generate.frontends.source": "Array Image Local Sampler Scalar Source round_up",
    "kcl.handle": "Kernel",
    "kcl.inspect.catalogue": "CacheEntry entries",
    "kcl.inspect.explain.misses": "Miss explain",
    "kcl.inspect.purge": "Removal purge",
    "kcl.inspect.report": "flush",
    "kcl.inspect.summary": "report",
    "kcl.integrations": "install uninstall",
    "kcl.recipe": "Recipe kernel lazy",
    "kcl.sized": "sizes",
    "kcl.sized.size": "Size",
    "kcl.tuning.space": "Skip space",
    "kcl.workers.prepare": "prepare",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

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
    "Skip",
    "Source",
    "UnknownInput",
    "UnusableDirectory",
    "add_hook",
    "artifacts",
    "disabled",
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
    "space",
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
