"""What a process under `make compat` is watched for: who imports loopy first, what kcl made, what the test asks.

The code of a suite is told from loopy's and kcl's by the files that it is in.
"""

from __future__ import annotations

import builtins
import collections
import functools
import linecache
import pathlib
import re
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

LOOPY_USE_LANGUAGE_VERSION_2018_2 = (
    2018,
    2,
)  # make_kernel looks for it in the globals of its caller: the wrapper below
DUNDERS = ["call", "getitem", "eq", "ne", "hash", "str", "repr", "iter", "len", "contains", "reduce_ex"]
TREE = str(pathlib.Path(__file__).resolve().parent.parent / "build" / "compat")


def is_suite(filename: str) -> bool:
    """Tell whether a file is a suite's, or a block of its page."""
    return filename.startswith((TREE, "<doctest"))


class ImportWatch:
    """Notes the stack of the first import of loopy: put it in front of sys.meta_path."""

    def __init__(self) -> None:
        self.stack: list[traceback.FrameSummary] = []

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002
        if name == "loopy" and not self.stack:
            frames = traceback.walk_stack(sys._getframe(1))
            self.stack = list(traceback.StackSummary.extract(frames, lookup_lines=False))[::-1]

    def found(self) -> dict[str, str]:
        """Return the suite's line that loopy was imported for, and the functions of kcl between."""
        suite = [number for number, frame in enumerate(self.stack) if is_suite(frame.filename)]
        if not suite:
            return {}
        last = self.stack[suite[-1]]
        line = (linecache.getline(last.filename, last.lineno or 0) or last.line or "").strip()
        between = [frame.name for frame in self.stack[suite[-1] + 1 :] if "/kcl/" in frame.filename]
        return {"line": line, "number": str(last.lineno), "through": " > ".join(between)}


def install() -> ImportWatch:
    """Begin to watch."""
    watch = ImportWatch()
    sys.meta_path.insert(0, watch)  # type: ignore[arg-type]
    return watch


def made() -> list[tuple[str, str, int]]:
    """Return what kcl counted as made, as (question, place, count); empty where it counts nothing."""
    kcl = sys.modules.get("kcl")
    try:
        counted = kcl.stats()["made"] if kcl else {}
        found = [(re.match(r"(?s)(.*) \((.*)\)$", text), count) for text, count in counted.items()]
        return [(match[1], match[2], int(count)) for match, count in found if match]
    except Exception:
        return []


def events() -> dict[str, dict[str, float]]:
    """Return kcl's counters by layer, without zeros."""
    kcl = sys.modules.get("kcl")
    try:
        rows = kcl.stats() if kcl else {}
        kept = {name: row for name, row in rows.items() if name in ("generator", "binary")}
        return {name: {key: value for key, value in row.items() if value} for name, row in kept.items()}
    except Exception:
        return {}


reasons: collections.Counter[tuple[str, str, str]] = collections.Counter()


def hear() -> None:
    """Count the reasons of look-ups of kcl that are no hits, where kcl is loaded."""
    kcl = sys.modules.get("kcl")
    if kcl is not None:
        kcl.add_hook(_heard)


def _heard(event: Any) -> None:
    if event.outcome != "hit":
        reasons[event.layer, event.outcome, event.reason] += 1


def reason_rows() -> list[tuple[str, str, str, int]]:
    """Return the reasons that were heard."""
    return [(*key, count) for key, count in reasons.items()]


asked: collections.Counter[tuple[str, str]] = collections.Counter()


def ask() -> None:
    """Write down in `asked` what the code of a suite asks of loopy and of its units; imports loopy."""
    import loopy
    from loopy.kernel import LoopKernel
    from loopy.translation_unit import TranslationUnit

    for cls in (TranslationUnit, LoopKernel):
        _watch_class(cls)
    _watch_module(loopy, (TranslationUnit, LoopKernel))
    _watch_imports()


def _from_suite(depth: int) -> bool:
    return is_suite(sys._getframe(depth + 1).f_code.co_filename)


def _watch_class(cls: type) -> None:
    plain = cls.__getattribute__

    def getattribute(self: Any, name: str) -> Any:
        if _from_suite(1) and not name.startswith("__"):
            asked[("unit", name)] += 1
        return plain(self, name)

    cls.__getattribute__ = getattribute  # type: ignore[method-assign, assignment]
    for short in DUNDERS:
        name = f"__{short}__"
        if callable(getattr(cls, name, None)):
            setattr(cls, name, _noted(getattr(cls, name), name))


def _noted(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(method)
    def asking(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not _from_suite(1):
            return method(self, *args, **kwargs)
        asked[("unit", name)] += 1
        return _told(name, method, self, *args, **kwargs)

    return asking


def _told(name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function and write down what it raises."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        asked[("raises", f"{name}: {type(error).__name__}")] += 1
        raise


def _watch_module(loopy: types.ModuleType, units: tuple[type, ...]) -> None:
    class Module(types.ModuleType):
        def __getattribute__(self, name: str) -> Any:
            value = types.ModuleType.__getattribute__(self, name)
            if name.startswith("__") or not _from_suite(1):
                return value
            if isinstance(value, types.ModuleType):
                asked[("inside", f"loopy.{name}")] += 1
            return _function(value, name, units) if isinstance(value, types.FunctionType) else value

    loopy.__class__ = Module


def _function(function: Callable[..., Any], name: str, units: tuple[type, ...]) -> Callable[..., Any]:
    @functools.wraps(function)
    def asking(*args: Any, **kwargs: Any) -> Any:
        given = any(_holds(value, units) for value in (*args, *kwargs.values()))
        result = _told(name, function, *args, **kwargs)
        kinds = {(True, True): "transform", (False, True): "make", (True, False): "question", (False, False): "other"}
        asked[(kinds[given, _holds(result, units)], name)] += 1
        return result

    return asking


def _holds(value: object, units: tuple[type, ...]) -> bool:
    """Tell whether a value is a unit or a plain container with one in it."""
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, units) or (
        isinstance(value, list | tuple) and any(isinstance(one, units) for one in value)
    )


def _watch_imports() -> None:
    plain = builtins.__import__

    def importing(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if name.startswith("loopy.") and not name.endswith(".version") and _from_suite(1):
            asked[("inside", name)] += 1
        return plain(name, globals, locals, fromlist, level)

    builtins.__import__ = importing


def asked_rows() -> list[tuple[str, str, int]]:
    """Return what was written down since the start."""
    return [(kind, name, count) for (kind, name), count in sorted(asked.items())]
