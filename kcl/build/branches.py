"""Branches of a preprocessor that OpenCL C never takes: those for C++.

Headers that serve C++ as well include files that no OpenCL driver has. `__cplusplus` is the one macro whose state is
known without preprocessing: a compiler of OpenCL C may not define it.
"""

from __future__ import annotations

import re

_BLANK = r"[ \t\f\v]"
_CONDITION = re.compile(rf"^{_BLANK}*#{_BLANK}*(ifdef|ifndef|if|elif|elifdef|elifndef|else|endif)\b([^\n]*)", re.M)
_DEFINED = re.compile(rf"{_BLANK}*(!?){_BLANK}*defined{_BLANK}*\(?{_BLANK}*__cplusplus{_BLANK}*\)?{_BLANK}*")
_CHANGED = re.compile(rf"^{_BLANK}*#{_BLANK}*(?:define|undef){_BLANK}+__cplusplus\b", re.M)
_NOT_NEWLINE = re.compile(r"[^\n]")

_LIVE, _DEAD, _OVER, _UNKNOWN = "live", "dead", "over", "unknown"  # a branch; over: an earlier one was taken
_SKIPPED = frozenset({_DEAD, _OVER})
_NEXT = {_LIVE: _OVER, _OVER: _OVER, _DEAD: _UNKNOWN, _UNKNOWN: _UNKNOWN}


def is_plain_c(flags: tuple[str, ...]) -> bool:
    """Tell whether build options leave a program in OpenCL C."""
    return not any("c++" in flag.lower() or "__cplusplus" in flag or flag[:2] == "-x" for flag in flags)


def in_c(code: str) -> str:
    """Put blanks in the place of code for C++ only; `code` has no comments and no continued lines."""
    if "__cplusplus" not in code or _CHANGED.search(code):
        return code
    kept, begin = [], 0
    branches: list[str] = []  # that of each condition that is open
    for found in _CONDITION.finditer(code):
        is_skipped = not _SKIPPED.isdisjoint(branches)
        end = found.end() if is_skipped else found.start()
        kept.append(_blanks(code[begin:end]) if is_skipped else code[begin:end])
        begin = end
        _step(branches, found.group(1), found.group(2))
    return "".join([*kept, code[begin:] if _SKIPPED.isdisjoint(branches) else _blanks(code[begin:])])


def _step(branches: list[str], directive: str, condition: str) -> None:
    """Take note of a directive."""
    if directive in ("if", "ifdef", "ifndef"):
        branches.append(_first(directive, condition))
    elif directive == "endif":
        del branches[-1:]
    elif branches:
        branches[-1] = _NEXT[branches[-1]]


def _first(directive: str, condition: str) -> str:
    """Judge the first branch of a condition."""
    if directive == "if":
        found = _DEFINED.fullmatch(condition)
        if found is not None:
            return _LIVE if found[1] else _DEAD
        return _DEAD if condition.strip() == "__cplusplus" else _UNKNOWN
    if condition.strip() != "__cplusplus":
        return _UNKNOWN
    return _DEAD if directive == "ifdef" else _LIVE


def _blanks(code: str) -> str:
    return _NOT_NEWLINE.sub(" ", code)
