"""kcl: a multi-level kernel cache for PyOpenCL and loopy.

A decorated recipe builds a kernel. The recipe runs in every process, and what it asks of loopy is recorded; the second
run of a program imports no loopy, generates no code and compiles no program.
Importing kcl imports neither pyopencl nor numpy nor loopy, and touches no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcl.cache.layer import CacheWarning
    from kcl.errors import CacheFault, CacheMiss, DamagedEntry, KclError, RecipeError, UnknownInput, UnusableDirectory
    from kcl.events import Event, add_hook, stats
    from kcl.generate.frontends.opencl import Array, Local, Scalar, Source
    from kcl.handle import Kernel
    from kcl.inspect.report import flush, report
    from kcl.integrations import install, uninstall
    from kcl.recipe import Recipe, kernel, lazy

__version__ = "0.1.0"

_HOMES = {
    "Array": "kcl.generate.frontends.opencl",
    "CacheFault": "kcl.errors",
    "CacheMiss": "kcl.errors",
    "CacheWarning": "kcl.cache.layer",
    "DamagedEntry": "kcl.errors",
    "Event": "kcl.events",
    "KclError": "kcl.errors",
    "Kernel": "kcl.handle",
    "Local": "kcl.generate.frontends.opencl",
    "Recipe": "kcl.recipe",
    "RecipeError": "kcl.errors",
    "Scalar": "kcl.generate.frontends.opencl",
    "Source": "kcl.generate.frontends.opencl",
    "UnknownInput": "kcl.errors",
    "UnusableDirectory": "kcl.errors",
    "add_hook": "kcl.events",
    "flush": "kcl.inspect.report",
    "install": "kcl.integrations",
    "kernel": "kcl.recipe",
    "lazy": "kcl.recipe",
    "option": "kcl.settings",
    "report": "kcl.inspect.report",
    "stats": "kcl.events",
    "uninstall": "kcl.integrations",
}

__all__ = [
    "Array",
    "CacheFault",
    "CacheMiss",
    "CacheWarning",
    "DamagedEntry",
    "Event",
    "KclError",
    "Kernel",
    "Local",
    "Recipe",
    "RecipeError",
    "Scalar",
    "Source",
    "UnknownInput",
    "UnusableDirectory",
    "add_hook",
    "flush",
    "install",
    "kernel",
    "lazy",
    "option",
    "report",
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
