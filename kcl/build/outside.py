"""Programs of pyopencl that are built outside of kcl: the report names the lines that build them."""

from __future__ import annotations

import sys
from typing import Any

from kcl.record import imports


def note_programs() -> None:
    """Note for the report each line that builds a program of pyopencl outside of kcl, from pyopencl's import on."""
    if "pyopencl" in sys.modules:
        _note_builds(sys.modules["pyopencl"])
        return
    from kcl.base import attended

    def run(package: Any, loader: Any) -> None:
        loader.exec_module(package)
        _note_builds(package)

    attended.Finder("pyopencl".__eq__, run).install()


def _note_builds(package: Any) -> None:
    from kcl.cache import layer, layers

    original = getattr(getattr(package, "Program", None), "build", None)
    if original is None or _is_kcls(getattr(original, "__globals__", {})):  # the integrations serve it
        return

    def build(*arguments: Any, **keywords: Any) -> Any:
        if not _is_kcls(sys._getframe(1).f_globals) and not layers.binary().off(frozenset({"opencl"})):
            words = f"a program of pyopencl was built outside of kcl ({layer.line_of_the_program()})"
            layers.binary().note(f"{words}; kcl.install() caches it")
        return original(*arguments, **keywords)

    imports.uncounted(build)
    package.Program.build = build


def _is_kcls(names: dict[str, Any]) -> bool:
    """Return True if the module with these globals is kcl's: a build there is one for kcl."""
    return str(names.get("__name__")).startswith("kcl.")
