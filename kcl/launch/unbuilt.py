"""The error of a program that does not compile: kernel, recipe, log, and the source lines that the log names."""

from __future__ import annotations

import os
import re
from typing import Any

from kcl.launch.refusals import place, worded

_FAILED = "clBuildProgram failed: BUILD_PROGRAM_FAILURE"
# "error: FILE:LINE:COLUMN: words" of PoCL, "FILE:LINE:COLUMN: error: words" of clang itself.
_PLACES = (
    re.compile(r"error: ([^:]+):(\d+):\d+: "),
    re.compile(r"([^:]+):(\d+):\d+: (?:fatal )?error\b"),
)


def not_built(kernel: str, recipe: Any, error: Exception, text: str) -> Exception | None:
    """Return the error of a program that does not compile, with kernel, place of the recipe, and source lines added."""
    words = str(error).replace(_FAILED, "").lstrip(" -\n")
    said = f"the program of kernel {kernel!r}{place(recipe)} does not compile\n\n{with_lines(words, text)}"
    return worded(error, said + cure_of_build(words))


def cure_of_build(log: str) -> str:
    """Return the cure where a build log shows that PoCL's LLVM does not know the CPU; empty for any other log."""
    return "\n\n`python -m kcl doctor` has the cure" if "unknown target CPU" in log else ""


def with_lines(log: str, text: str) -> str:
    """Write below each message of a log the source line that it names, unless the log has it there."""
    lines = log.split("\n")
    said = []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        said.append(line)
        meant = _meant(line, text)
        if meant and meant not in below:
            said.append(f"    {meant}")
    return "\n".join(said)


def _meant(message: str, text: str) -> str:
    """Return the line that a message names by file and number; empty for a message without one."""
    found = next(filter(None, (pattern.match(message) for pattern in _PLACES)), None)
    if found is None:
        return ""
    lines, number = _lines(found[1], text), int(found[2])
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def _lines(path: str, text: str) -> list[str]:
    """Return the lines of a header, or those of the text for a name that the driver gave it while it compiled."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read().split("\n")
    except OSError:
        return text.split("\n") if os.path.splitext(path)[1] in ("", ".cl") else []
