"""Advice on a recipe: declarations or changes by its user that make warm runs faster."""

from __future__ import annotations

from kcl.cache import layer
from kcl.generate.origins import SLOW


def on_slow_recipe(kernel: str, seconds: float) -> None:
    """Advise to declare a recipe pure if its own Python took more than `SLOW` in a warm run; once per kernel name.

    `seconds` leaves out the time in kcl and in the code generators. The warning names the line outside of kcl that
    asked for the kernel. Raises nothing.
    """
    if seconds > SLOW:
        layer.warn_once(
            f"slow recipe {kernel}",
            f"recipe {kernel!r} ran for {1e3 * seconds:.0f} ms although its code was in the cache; if its "
            "parameters alone decide what it returns, @kcl.kernel(pure=True, version='1') skips it on a hit",
        )
