"""Cases: functions of a file that children run, cold and warm. A file with cases is run as `FILE PLATFORM MODE ...`.

MODES[mode] are variables of a child      cold, warm (nothing may be compiled there), without (a cache)
ran(child, FILE, platform)                what each child printed as JSON, by its mode
context, looks, allow = begin(...)        in the child: a context, and the look-ups as they come
"""

from __future__ import annotations

from typing import Any

MODES = {
    "cold": {},
    "warm": {},
    "without": {"KCL_NO_CACHE": "1", "LOOPY_NO_CACHE": "1", "PYOPENCL_NO_CACHE": "1"},
}


def ran(child: Any, file: Any, platform: str, modes: tuple[str, ...] = tuple(MODES), *arguments: str) -> dict[str, Any]:
    """Run the cases of a file in a child for each mode; return what each said."""
    return {mode: child.script(file, platform, mode, *arguments, **MODES[mode]) for mode in modes}


def begin(platform: str, mode: str) -> tuple[Any, list[list[str]], Any]:
    """Begin a child: return a context, the look-ups, and a function that allows loopy."""
    import pyopencl as cl

    import kcl

    allow = None
    if mode == "warm":
        import forbid

        forbid.compilation()
        allow = forbid.loopy()
    (found,) = [one for one in cl.get_platforms() if one.name == platform]
    looks: list[list[str]] = []
    kcl.add_hook(lambda event: looks.append([event.layer, event.kernel, event.outcome, event.reason]))
    return cl.Context(found.get_devices()[:1]), looks, allow
