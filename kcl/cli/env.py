"""`kcl env`: the variables, their readers and their effects; or the lines that switch caches and move them."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

import click

from kcl import caches
from kcl.base import settings
from kcl.base.text.tables import Column
from kcl.caches.shell import SHELLS, lines, made
from kcl.caches.table import ROWS
from kcl.cli import completion, output

# The effects of the switch of another cache on kcl's layers; the conditions stand in `kcl.cache.layers`.
EFFECTS = {
    "loopy": "generator layer off for loopy recipes",
    "pyopencl": "binary layer off, and the generator layer of `kcl.Source` recipes",
}
OTHERS = {
    settings.RUN: ("kcl", "set by kcl run: children under this interpreter have the integrations, too"),
    "PYOPENCL_BUILD_OPTIONS": ("pyopencl", "options of every build: part of the program key"),
    "_LOOPY_SKIP_ARG_CHECKS": ("loopy", "invokers without argument checks: part of the generator key"),
}
_FEW = 3
_HEAD = (
    Column("variable"),
    Column("value", 0, "middle", 12),
    Column("read by", 1, "names"),
    Column("effect", 0, "words", 20),
)
_UNSET = (Column("not set, read by", 0, "names"), Column("variables", 0, "names"))


class VariableLine(NamedTuple):
    """A variable: its value, None where it is not set, the names of its readers, and its effect now."""

    variable: str
    value: str | None
    read_by: tuple[str, ...]
    effect: str


@click.command()
@click.option(
    "--off",
    multiple=True,
    metavar="LAYER",
    shell_complete=completion.layers,
    help="Switch this off; may be given often, or be a list a,b.",
)
@click.option("--on", multiple=True, metavar="LAYER", shell_complete=completion.layers, help="Switch this on again.")
@click.option("--dir", "directory", metavar="PATH", help="Keep kcl's files and the drivers' caches below PATH.")
@click.option(
    "--shell",
    type=click.Choice(SHELLS),
    default="powershell" if sys.platform == "win32" else "sh",
    help="The shell that is to read the lines.",
    show_default=True,
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of variables, or what to set and to unset.")
def env(off: tuple[str, ...], on: tuple[str, ...], directory: str | None, shell: str, as_json: bool) -> None:
    """Show every variable that decides about a kernel cache, or print the lines that change them.

    Alone: each variable, its value, who reads it and what it does now. With --off, --on or --dir: lines for the
    shell, as in `eval "$(kcl env --off binary)"`; remarks go to stderr. LAYER is `generator`, `binary`, the name of
    another cache, see `kcl status`, or `all`: kcl's layers and the caches below them, without neighbours.

    Exits with 2 for a wish that no variable can fulfil.
    """
    if not (off or on or directory is not None):
        _show(as_json)
        return
    if directory == "" or not (_split((*off, *on)) or directory):
        raise click.UsageError("a wish is empty: name a layer, or a directory")
    try:
        wish = made(_split(off), _split(on), directory and os.path.abspath(directory))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    for remark in wish.remarks:
        output.complain(remark)
    if as_json:
        output.dump({"set": dict(wish.set), "unset": list(wish.unset)})
    else:
        click.echo("\n".join(lines(wish, shell)))


def _split(words: tuple[str, ...]) -> list[str]:
    return [name.strip() for word in words for name in word.split(",") if name.strip()]


def _show(as_json: bool) -> None:
    found = sorted(_lines(), key=lambda line: line.value is None)
    if as_json:
        output.dump([line._asdict() for line in found])
        return
    given = [line for line in found if line.value is not None]
    if given:
        cells = [(line.variable, line.value or "(empty)", ", ".join(line.read_by), line.effect) for line in given]
        output.table(_HEAD, cells)
        click.echo()
    unset: dict[str, list[str]] = {}
    for line in found[len(given) :]:
        unset.setdefault(", ".join(line.read_by), []).append(line.variable)
    output.table(_UNSET, [(readers, " ".join(names)) for readers, names in unset.items()])
    click.echo()
    chosen = settings.read()
    output.say(
        f"settings file: {settings.settings_file()}{'' if os.path.exists(settings.settings_file()) else ' (none)'}"
    )
    for text in chosen.rejected:
        output.say(text)


def _lines() -> list[VariableLine]:
    """Return a line for each variable: kcl's own, then those of the other caches, then those without a reader."""
    found = [_own(setting) for setting in settings.SETTINGS]
    variables: dict[str, list[str]] = {}
    for name, row in ROWS.items():
        for variable in (*row.variables, *row.limits, *row.code_variables):
            variables.setdefault(variable, []).append(name)
    for variable in ("HOME", "LOCALAPPDATA", "APPDATA", "TEMP", "USERPROFILE"):
        variables.pop(variable, None)  # all programs read them
    found += [_foreign(variable, names) for variable, names in variables.items()]
    found += [
        VariableLine(variable, settings.variable(variable), (reader,), effect)
        for variable, (reader, effect) in OTHERS.items()
    ]
    known = {line.variable for line in found}
    unknown = [name for name in settings.environment() if name.startswith("KCL_") and name not in known]
    return found + [VariableLine(name, settings.variable(name), (), "nobody reads it") for name in sorted(unknown)]


def _own(setting: settings.Setting) -> VariableLine:
    value = settings.variable(setting.variable)
    if value is None and setting.key in settings.from_file():
        value, source = settings.from_file()[setting.key], " (settings file)"
    else:
        source = ""
    return VariableLine(
        setting.variable, value, ("kcl",), setting.effect.partition(";")[0].partition(". ")[0].rstrip(".") + source
    )


def _foreign(variable: str, names: list[str]) -> VariableLine:
    value = settings.variable(variable)
    said: dict[str, list[str]] = {}
    for name in names:
        effect = _effect(variable, value, name)
        if len(names) > _FEW and effect.startswith("in "):
            effect = "places it"
        if effect:
            said.setdefault(effect, []).append(name)
    readers = ("kcl", *names) if variable == "XDG_CACHE_HOME" or _counts(variable, names) else tuple(names)
    words = [f"{', '.join(those)}: {effect}" if len(said) > 1 else effect for effect, those in said.items()]
    if value is not None:
        words += [EFFECTS[name] for name in names if name in EFFECTS and _is_off(variable, value, name)]
    return VariableLine(variable, value, readers, "; ".join(words))


def _counts(variable: str, names: list[str]) -> bool:
    """Tell whether kcl's layers obey a variable too."""
    switches = {switch.variable for name in names if name in EFFECTS for switch in ROWS[name].switches}
    return variable in switches or any(variable in ROWS[name].code_variables for name in names)


def _is_off(variable: str, value: str | None, name: str) -> bool:
    return any(each.variable == variable and each.parse(value) is not None for each in ROWS[name].switches)


def _effect(variable: str, value: str | None, name: str) -> str:
    """Say how a variable affects a cache now, or its purpose where it is not set."""
    row = ROWS[name]
    place = caches.place(name)
    if variable in row.limits:
        return "limits the size"
    if variable in row.code_variables:
        return "changes code: part of the program key"
    for switch in row.switches:
        if switch.variable == variable:
            verdict = switch.parse(value)
            if verdict is not None:
                return f"off ({verdict})" if verdict else "off"
            if value is None:
                return "can switch it off"
            return f"on, in {place.path}" if place.why == variable else "on"
    if value is None:
        return "can move it"
    return f"in {place.path}" if place.why == variable else f"not used: {place.why or 'it'} decides"
