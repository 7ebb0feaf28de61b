"""Run the ``console`` blocks of the documentation. A helper of tests.

A line that starts with ``$`` is a command for sh; the lines below it are what it prints. Spaces count once. What
differs from run to run or from machine to machine counts by its form (`steady`), and ``...`` stands for anything. A
command that would install or build is not run but checked: the target must be in the Makefile, the extra in setup.py.
"""

import doctest
import os
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[2]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Command(NamedTuple):
    """A command and what it prints; no expectation where nothing is shown."""

    text: str
    expected: str


def commands(block: str) -> list[Command]:
    """Take a block apart into commands."""
    found: list[Command] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], ""))
        elif found:
            found[-1] = found[-1]._replace(expected=f"{found[-1].expected}{line}\n")
        else:
            raise ValueError(f"a console block starts with a command, not with {line!r}")
    return found


def check_promise(command: str) -> bool:
    """Check a command that is not to be run; tell whether this is one."""
    words = command.split()
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
        assert set(words[1:]) <= set(targets), f"the Makefile has no target for {command!r}"
        return True
    installs = re.fullmatch(r'(?:python -m )?pip install "\.\[([a-z,]+)\]"', command)
    if installs:
        extras = re.findall(
            r'^        "([a-z]+)": ', (ROOT / "setup.py").read_text(encoding="utf-8"), re.M
        )
        assert set(installs[1].split(",")) <= set(extras), f"setup.py has no extra for {command!r}"
        return True
    return False


def python_in(directory: pathlib.Path) -> pathlib.Path:
    """Make a directory whose ``python`` is this interpreter, and whose ``kcl`` is the command under it."""
    binaries = directory / ".bin"
    if not binaries.exists():
        binaries.mkdir()
        for name, command in (
            ("python", f'"{sys.executable}"'),
            ("kcl", f'"{sys.executable}" -m kcl'),
        ):
            script = binaries / name
            script.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
            script.chmod(0o700)
    return binaries


def run(script: str, directory: pathlib.Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run a script of sh in a directory; return the exit status and all that it printed."""
    path = f"{python_in(directory)}:{os.path.dirname(sys.executable)}:{environment['PATH']}"  # mpiexec is of a wheel
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=directory,
        env=environment | {"PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        umask=0o022,
    )
    return done.returncode, done.stdout


# What differs from run to run, by its form: digests, dates, times and sizes with their units, numbers of many digits;
# and what differs from machine to machine: PoCL's device, Python.
_UNSTEADY = (
    (r'(?m)\bpthread-[^/\n]*?(?= {2}|, | in |"|$)', "<device>"),
    (r"\b3\.\d+\.\d+\.(alpha|beta|candidate|final)\.\d+\b", "<python>"),
    (
        r"[~/]\S*?\.\.\.\S*",
        "<path>",
    ),  # without its middle, which is as long as the other columns leave room
    (r"\b\d{4}-\d\d-\d\d( \d\d:\d\d(:\d\d)?)?", "<date>"),
    (r"(just now|<?\b\d+(\.\d+)? (us|ms|s|min|h|d) ago)", "<ago>"),
    (r"-?\b\d+(\.\d+)? (us|ms|s|min|h)\b|\b\d+\.\d\ds( \(\d+:\d\d:\d\d\))?", "<time>"),
    (r"\b\d+(\.\d+)? [kMGT]?B\b", "<size>"),
    (r"\b\d+ %", "<share>"),
    (r"\bprocess \d+|\b\d+ processes", "<processes>"),
    # one form for digests and numbers: some digests have decimal digits only
    (
        r"\b\d+\.\d{2,}(e[-+]?\d+)?\b|\b\d{9,}(\.\d+)?\b|\b[0-9a-f]{8,64}\b|\b\d{4,}\b(?!\.)",
        "<number>",
    ),
)


def steady(text: str) -> str:
    """Exchange what differs from run to run for its form."""
    for pattern, form in _UNSTEADY:
        text = re.sub(pattern, form, text)
    return text


def differs(expected: str, printed: str) -> str:
    """Return an empty text where the output is as expected, else how it differs."""
    checker = doctest.OutputChecker()
    forms = ((expected, printed), (steady(expected), steady(printed)))
    if not expected or any(checker.check_output(*pair, OPTIONS) for pair in forms):
        return ""
    return checker.output_difference(doctest.Example("", expected), printed, OPTIONS)
