"""kcl: a multi-level kernel cache for PyOpenCL and loopy.

A decorated recipe builds a kernel. The recipe runs in every process, and kcl records its calls of loopy. The second run
of a program imports no loopy, generates no code and compiles no program.
Importing kcl imports neither pyopencl nor numpy nor loopy, and touches no file.
pytest leaves a module alone whose docstring has this word: PYTEST_DONT_REWRITE
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcl import option as option
    from kcl.base.events import Event as Event
    from kcl.base.events import add_hook as add_hook
    from kcl.base.events import stats as stats
    from kcl.bundle import artifacts as artifacts
    from kcl.bundle import load_artifacts as load_artifacts
    from kcl.bundle import load_cache_artifacts as load_cache_artifacts
    from kcl.bundle import save_artifacts as save_artifacts
    from kcl.bundle import save_cache_artifacts as save_cache_artifacts
    from kcl.bundle.info import CacheInfo as CacheInfo
    from kcl.cache.faults import CacheWarning as CacheWarning
    from kcl.cache.layer import disabled as disabled
    from kcl.choices.sizes import sizes as sizes
    from kcl.choices.sizes.size import Size as Size
    from kcl.choices.tuning.space import Skip as Skip
    from kcl.choices.tuning.space import space as space
    from kcl.errors import CacheFault as CacheFault
    from kcl.errors import CacheMiss as CacheMiss
    from kcl.errors import DamagedEntry as DamagedEntry
    from kcl.errors import KclError as KclError
    from kcl.errors import PrepareError as PrepareError
    from kcl.errors import RecipeError as RecipeError
    from kcl.errors import SettingError as SettingError
    from kcl.errors import UnknownInput as UnknownInput
    from kcl.errors import UnusableDirectory as UnusableDirectory
    from kcl.frontends.source import Array as Array
    from kcl.frontends.source import Image as Image
    from kcl.frontends.source import Local as Local
    from kcl.frontends.source import Sampler as Sampler
    from kcl.frontends.source import Scalar as Scalar
    from kcl.frontends.source import Source as Source
    from kcl.frontends.source import round_up as round_up
    from kcl.handle import Kernel as Kernel
    from kcl.inspect import flush as flush
    from kcl.inspect.catalogue import CacheEntry as CacheEntry
    from kcl.inspect.catalogue import entries as entries
    from kcl.inspect.explain.misses import Miss as Miss
    from kcl.inspect.explain.misses import explain as explain
    from kcl.inspect.purge import Removal as Removal
    from kcl.inspect.purge import purge as purge
    from kcl.inspect.summary import report as report
    from kcl.integrations import install as install
    from kcl.integrations import uninstall as uninstall
    from kcl.recipe import Recipe as Recipe
    from kcl.recipe import kernel as kernel
    from kcl.recipe import lazy as lazy
    from kcl.workers.prepare import prepare as prepare

__version__ = "0.1.0"

# Module -> the public names that it defines.
_NAMES = {
    "kcl.base.events": "Event add_hook stats",
    "kcl.option": "option",
    "kcl.bundle": "artifacts load_artifacts load_cache_artifacts save_artifacts save_cache_artifacts",
    "kcl.bundle.info": "CacheInfo",
    "kcl.cache.faults": "CacheWarning",
    "kcl.cache.layer": "disabled",
    "kcl.errors": "CacheFault CacheMiss DamagedEntry KclError PrepareError RecipeError SettingError UnknownInput "
    "UnusableDirectory",
    "kcl.frontends.source": "Array Image Local Sampler Scalar Source round_up",
    "kcl.handle": "Kernel",
    "kcl.inspect.catalogue": "CacheEntry entries",
    "kcl.inspect.explain.misses": "Miss explain",
    "kcl.inspect.purge": "Removal purge",
    "kcl.inspect": "flush",
    "kcl.inspect.summary": "report",
    "kcl.integrations": "install uninstall",
    "kcl.recipe": "Recipe kernel lazy",
    "kcl.choices.sizes": "sizes",
    "kcl.choices.sizes.size": "Size",
    "kcl.choices.tuning.space": "Skip space",
    "kcl.workers.prepare": "prepare",
}
# A module never imports a module above itself: it calls `kcl.base.port` with a name of one of these two tables.
PORTS = {
    "executor": "kcl.frontends.loopy.executor",
    "kernels": "kcl.handle",
    "units": "kcl.frontends.loopy.units",
}
# An installation may leave these modules out.
TOOLS = {
    "dump": "kcl.inspect.dump",
    "journal": "kcl.inspect.history.journal",
    "present": "kcl.inspect.explain.present",
    "remote": "kcl.remote.ask",
    "remote ending": "kcl.remote.ending",
    "report": "kcl.inspect",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = list(_HOMES)


# Hidden from type checkers, which know the names from the imports above.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a public name at its first use."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'kcl' has no attribute {name!r}")
        import importlib

        module = importlib.import_module(home)
        # Kept in the module, so that `__getattr__` is not called for this name again.
        value = globals()[name] = module if name == "option" else getattr(module, name)
        return value


def __dir__() -> list[str]:
    """List the public names."""
    return __all__
