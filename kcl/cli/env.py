"""`kcl env`: the variables, their readers and their effects; or the lines that switch caches and move them."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

import click

from kcl import foreign
from kcl.base import settings
from kcl.base.settings.words import WORDS
from kcl.base.text.tables import Column, Columns
from kcl.cli import output
from kcl.foreign.shell import SHELLS, lines, plan_change
from kcl.foreign.table import ROWS
from kcl.remote.stores import shown

# Cache -> the effect on kcl's layers of switching it off; `kcl.cache.layers` has the conditions.
EFFECTS = {
    "loopy": "generator layer off for loopy recipes",
    "pyopencl": "binary layer off, and the generator layer of `kcl.Source` recipes",
}
OTHERS = {
    settings.RUN: (
        "kcl",
        "set by kcl run: children under this interpreter have the integrations, too",
    ),
    "PYOPENCL_BUILD_OPTIONS": ("pyopencl", "options of every build: part of the program key"),
    "_LOOPY_SKIP_ARG_CHECKS": (
        "loopy",
        "invokers without argument checks: part of the generator key",
    ),
}
# The variables with addresses, which may hold passwords, and the one that holds nothing but secrets.
_SECRETS = ("KCL_REMOTE", "KCL_REMOTE_UNSIGNED")
_HIDDEN = "KCL_REMOTE_HEADERS"


class VariableUse(NamedTuple):
    """A variable: its value or None if it is not set, the software that reads it, and its present effect."""

    variable: str
    value: str | None
    read_by: tuple[str, ...]
    effect: str


_SET: Columns[VariableUse] = (
    (Column("variable"), lambda line: line.variable),
    (Column("value", 0, "middle", 12), lambda line: line.value or "(empty)"),
    (Column("read by", 1, "names"), lambda line: ", ".join(line.read_by)),
    (Column("effect", 0, "words", 20), lambda line: line.effect),
)
_UNSET: Columns[tuple[str, list[str]]] = (
    (Column("not set, read by", 0, "names"), lambda group: group[0]),
    (Column("variables", 0, "names"), lambda group: " ".join(group[1])),
)


@click.command()
@click.option(
    "--off",
    multiple=True,
    metavar="LAYER",
    help="Switch this off; may be given often, or be a list a,b.",
)
@click.option("--on", multiple=True, metavar="LAYER", help="Switch this on again.")
@click.option(
    "--dir",
    "directory",
    metavar="PATH",
    help="Keep kcl's files and the drivers' caches below PATH.",
)
@click.option(
    "--shell",
    type=click.Choice(list(SHELLS)),
    default="powershell" if sys.platform == "win32" else "sh",
    help="The shell that is to read the lines.",
    show_default=True,
)
@output.replies("a list of variables, or what to set and to unset")
def env(
    off: tuple[str, ...], on: tuple[str, ...], directory: str | None, shell: str
) -> output.Reply:
    """Show every variable that decides about a kernel cache, or print the lines that change them.

    Alone: each variable, its value, who reads it and what it does now. With --off, --on or --dir: lines for the
    shell, as in `eval "$(kcl env --off binary)"`. LAYER is `generator`, `binary`, the name of
    another cache, see `kcl status`, or `all`: kcl's layers and the caches below them, without neighbours.

    Exits with 2 for a wish that no variable can fulfil.
    """
    if not (off or on or directory is not None):
        variables = sorted(_collect_lines(), key=lambda line: line.value is None)
        return lambda: [line._asdict() for line in variables], lambda: _show(variables), False
    if directory == "" or not (_split((*off, *on)) or directory):
        raise click.UsageError("a wish is empty: name a layer, or a directory")
    with output.usage():
        wish = plan_change(_split(off), _split(on), directory and os.path.abspath(directory))
    return (
        lambda: {
            "set": {name: value for name, value in wish.items() if value is not None},
            "unset": [name for name, value in wish.items() if value is None],
        },
        lambda: click.echo("\n".join(lines(wish, shell))),
        False,
    )


def _split(words: tuple[str, ...]) -> list[str]:
    return [name.strip() for word in words for name in word.split(",") if name.strip()]


def _show(variables: list[VariableUse]) -> None:
    present = [line for line in variables if line.value is not None]
    if present:
        output.table(_SET, present)
        click.echo()
    unset: dict[str, list[str]] = {}
    # `variables` is sorted so that those without a value come last.
    for line in variables[len(present) :]:
        unset.setdefault(", ".join(line.read_by), []).append(line.variable)
    output.table(_UNSET, unset.items())
    click.echo()
    file = settings.settings_file()
    there = "" if os.path.exists(file) else " (none)"
    for words in (f"settings file: {file}{there}", *settings.read().rejected):
        output.say(words)


def _collect_lines() -> list[VariableUse]:
    """Return a line for each variable: kcl's own, then those of the other caches, then those without a reader."""
    lines = [_describe_own(setting) for setting in settings.SETTINGS]
    readers: dict[str, list[str]] = {}
    for name, row in ROWS.items():
        for variable in (*row.variables, *row.code_variables):
            # All programs read `HOME`.
            if variable != "HOME":
                readers.setdefault(variable, []).append(name)
    lines += [_describe_foreign(variable, names) for variable, names in readers.items()]
    lines += [
        VariableUse(variable, settings.variable(variable), (reader,), effect)
        for variable, (reader, effect) in OTHERS.items()
    ]
    described = {line.variable for line in lines}
    environment = sorted(settings.environment().items())
    return lines + [
        VariableUse(name, value, (), "nobody reads it")
        for name, value in environment
        if name.startswith("KCL_") and name not in described
    ]


def _describe_own(setting: settings.Setting) -> VariableUse:
    value, effect = settings.variable(setting.variable), WORDS[setting.variable].effect
    if setting.file_only:
        ignored = "; the variable counts for nothing" if value is not None else ""
        value, effect = None, f"{effect} (settings file alone{ignored})"
    if value is None and setting.key in settings.from_file():
        value, effect = settings.from_file()[setting.key], f"{effect} (settings file)"
    if value and setting.variable in _SECRETS:
        value = ", ".join(shown(address.strip()) for address in value.split(","))
    if value and setting.variable == _HIDDEN:
        value = "(not shown)"
    return VariableUse(setting.variable, value, ("kcl",), effect)


def _describe_foreign(variable: str, names: list[str]) -> VariableUse:
    value = settings.variable(variable)
    for_kcl = not EFFECTS.keys().isdisjoint(names) or any(
        variable in ROWS[name].code_variables for name in names
    )
    return VariableUse(
        variable,
        value,
        ("kcl", *names) if for_kcl else tuple(names),
        "; ".join(dict.fromkeys(_describe_effect(variable, value, name) for name in names)),
    )


def _describe_effect(variable: str, value: str | None, name: str) -> str:
    """Return the effect of a variable on a cache now, or its purpose if it is not set."""
    row, place = ROWS[name], foreign.place(name)
    if variable in row.code_variables:
        return "changes code: part of the program key"
    parse = row.switches.get(variable)
    verdict = parse and parse(value)
    if verdict is not None:
        off = f"off ({verdict})" if verdict else "off"
        return f"{off}; {EFFECTS[name]}" if name in EFFECTS else off
    if value is None:
        return "can switch it off" if parse else "can move it"
    if place.why == variable:
        return "places it" if variable == "XDG_CACHE_HOME" else f"in {place.path}"
    return "on" if parse else f"{name}: not used, {place.why or 'it'} decides"
