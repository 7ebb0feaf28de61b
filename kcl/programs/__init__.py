"""Stage 2: builds a program from a program text. This module also notes programs that are built outside of kcl."""

from __future__ import annotations

import functools
import sys
from typing import Any

from kcl.base import hide_from_warnings, is_of_kcl


# Cached, since recipes and the face of loopy both call it.
@functools.cache
def note_outside_builds() -> None:
    """From now on note for the report each line of the program that builds a pyopencl program without kcl."""
    if "pyopencl" in sys.modules:
        _note_builds(sys.modules["pyopencl"])
        return

    def run(package: Any, loader: Any) -> None:
        loader.exec_module(package)
        _note_builds(package)

    from kcl.base import attended

    attended.run_modules("pyopencl".__eq__, run).install()


def _note_builds(package: Any) -> None:
    from kcl.cache import layers

    original = getattr(getattr(package, "Program", None), "build", None)
    # `kcl.install()` has replaced the function already.
    if original is None or is_of_kcl(original):
        return

    def build(*arguments: Any, **keywords: Any) -> Any:
        is_for_kcl = str(sys._getframe(1).f_globals.get("__name__")).startswith("kcl.")
        if not is_for_kcl and not layers.binary().off(frozenset({"opencl"})):
            from kcl.cache.faults import line_of_the_program

            words = f"a program of pyopencl was built outside of kcl ({line_of_the_program()})"
            layers.binary().note(f"{words}; kcl.install() caches it")
        return original(*arguments, **keywords)

    hide_from_warnings(build)
    package.Program.build = build
