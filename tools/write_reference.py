"""Write the reference pages that are made from the code: variables and commands.

python tools/write_reference.py

A test compares the pages with what this would write.
"""

from __future__ import annotations

import inspect
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import click  # noqa: E402  (after the path)
from schema import SCHEMA, Field, Printed  # noqa: E402

from kcl import cli  # noqa: E402
from kcl.base import settings  # noqa: E402
from kcl.base.settings.words import WORDS  # noqa: E402
from kcl.foreign.table import ROWS, CacheRow, Parser, placed_by  # noqa: E402

REFERENCE = ROOT / "doc" / "reference"
MADE = "<!-- made by tools/write_reference.py: change the code instead, then run it -->\n"

# What a foreign cache's switch does to the layers of kcl; the conditions stand in kcl.cache.layers.
EFFECTS = {
    "loopy": "generator layer off for loopy recipes",
    "pyopencl": "binary layer off, and the generator layer of `kcl.Source` recipes",
    "pyopencl-binary": "that of pyopencl's PersistentDict cache",
}
SAMPLES = ("", "0", "1", "no", "true", "x")

# Second names of commands.
SAME = {"wait": "flush"}

# What is neither a setting of kcl nor a switch of another cache.
OTHERS = (
    (
        "`XDG_CACHE_HOME`",
        "Root of all files if `KCL_CACHE_DIR` is not set; a relative path is ignored.",
    ),
    (
        "`POCL_CACHE_DIR`",
        "PoCL's own directory; the helper process reads PoCL's compiled code there.",
    ),
    (
        "`CUDA_CACHE_PATH`, `CUDA_CACHE_MAXSIZE`",
        "NVIDIA's own directory and its size; left to the driver.",
    ),
    (
        "`PYOPENCL_BUILD_OPTIONS`",
        "Options that pyopencl adds to every build: part of the program key.",
    ),
    (
        "`_LOOPY_SKIP_ARG_CHECKS`",
        "loopy leaves argument checks out of its invokers: part of the generator key.",
    ),
)


def pages() -> dict[pathlib.Path, str]:
    """Return the text of each page by its path."""
    return {
        REFERENCE / "environment.md": environment(),
        REFERENCE / "command-line.md": command_line(),
    }


def environment() -> str:
    """Write the page of variables, from the settings and the rows of foreign caches."""
    lines = [MADE, "# Environment", ""]
    lines += [
        "A layer reads its variables at its first use. `KCL_REPORT` is read at the first recipe or `kcl.loopy`,"
    ]
    lines += [
        "`KCL_PROMOTE` when a program is built from source. None is read while a kernel is launched.",
        "",
    ]
    lines += [
        "## kcl's own",
        "",
        *head("variable", "in the settings file", "values", "default", "effect"),
    ]
    for setting in settings.SETTINGS:
        in_file = "never" if setting.variable_only else f"`{setting.key}`"
        words = WORDS[setting.variable]
        lines.append(
            row(
                "none" if setting.file_only else f"`{setting.variable}`",
                in_file,
                words.values,
                words.default,
                f"{words.effect}. {words.more}".strip(),
            )
        )
    lines += [
        "",
        "A setting without a variable widens trust, or belongs to it: only the settings file has it.",
        "",
        "An unknown name of a layer in `KCL_NO_CACHE` switches all layers off, with a warning.",
        "",
    ]
    lines += [
        "The first of these that is set decides the place of the files: a call of `kcl.option.cache_dir(path)`,"
    ]
    lines += [
        "`KCL_CACHE_DIR`, the cache of a recorded checkout, `cache_dir` of the settings file, `XDG_CACHE_HOME`."
    ]
    lines += [
        "The settings file is `kcl/config.toml` below `$XDG_CONFIG_HOME` or `~/.config`. A variable, even an"
    ]
    lines += ["empty one, wins over it.", ""]
    lines += ["## Switches of the caches below", ""]
    lines += [
        "kcl parses each variable as its owner does. A value that the owner would reject counts as off.",
        "",
    ]
    lines += head("variable", "owner", "cache off with", "cache on with", "effect on kcl")
    for name, cache in sorted(ROWS.items()):
        for variable, parse in switches(cache).items():
            off = [shown(value) for value in SAMPLES if parse(value) is not None]
            on = [shown(value) for value in SAMPLES if parse(value) is None]
            lines.append(
                row(
                    f"`{variable}`",
                    cache.title,
                    ", ".join(off),
                    ", ".join(on),
                    EFFECTS.get(name, "none"),
                )
            )
    lines += [
        "",
        "A cache without its variable is on. A switch that a call flips counts too, if its module is",
    ]
    lines += [
        "loaded: " + "; ".join(dict.fromkeys(f"`{cache.flag[3]}`" for _, cache in flagged())) + ".",
        "",
        "`LOOPY_ABORT_ON_CACHE_MISS=1` counts for the generator layer as for loopy's own caches: a launch that no store",
        "has code for raises `NoSuchEntryError` of pytools. With the layer off the variable has no effect.",
        "",
    ]
    lines += places()
    lines += ["## Variables that change code", ""]
    lines += [
        "With these variables the driver generates other code while every OpenCL string stays the same. So each"
    ]
    lines += ["of them that is set is a part of the program key.", "", *head("variable", "read by")]
    for _, cache in sorted(ROWS.items()):
        lines += [row(f"`{variable}`", cache.title) for variable in cache.code_variables]
    lines += [
        "",
        "## Others",
        "",
        *head("variable", "effect"),
        *[row(*other) for other in OTHERS],
        "",
    ]
    return "\n".join(lines)


def switches(cache: CacheRow) -> dict[str, Parser]:
    """Return the switches of a cache that are not its directory."""
    moving = set(map(placed_by, cache.places))
    return {name: parse for name, parse in cache.switches.items() if name not in moving}


def places() -> list[str]:
    """Write where the foreign caches lie, and when their owners read that."""
    lines = ["## Where the caches below lie", ""]
    lines += ["The first place with a value decides: a variable that is set, or the default."]
    lines += [
        "`user:NAME` is the user's cache directory of platformdirs, which ignores a relative `XDG_CACHE_HOME`."
    ]
    lines += [
        "The first column has the names for commands. A command changes a neighbour only if you name it.",
        "",
    ]
    lines += [
        "They are those of Linux; elsewhere a cache may lie at another place, and then it shows as empty.",
        "",
    ]
    lines += head("name", "cache", "places", "read")
    for name, cache in sorted(ROWS.items()):
        title = f"{cache.title}, a neighbour" if cache.neighbour else cache.title
        listed = ", ".join(f"`{template}`" for template in cache.places) or "no cache of its own"
        lines.append(row(f"`{name}`", title, listed, cache.read))
    return [*lines, ""]


def flagged() -> list[tuple[str, CacheRow]]:
    """Return the caches that have a switch in their module."""
    return [(name, cache) for name, cache in sorted(ROWS.items()) if cache.flag is not None]


def command_line() -> str:
    """Write the page of commands, from click's own description of them."""
    lines = [MADE, "# Command line", ""]
    lines += [
        "`kcl` and `python -m kcl` are the same. You may rely on the output of `--json`: later versions may add"
    ]
    lines += [
        "members, but remove none and change no meaning. Times are in seconds since 1970, spans in seconds.",
        "",
        "A terminal shows how look-ups ended in colours, unless `NO_COLOR` is set. Your shell completes commands, options",
        'and the names of kernels after `eval "$(_KCL_COMPLETE=bash_source kcl)"`; `zsh_source` and `fish_source` are for',
        "the other shells. Each command has `-h` and `--help`.",
        "",
    ]
    context = click.Context(cli.main, info_name="kcl", **cli.main.context_settings)
    lines += described(cli.main, context, "kcl")
    for name in cli.main.list_commands(context):
        command = cli.main.get_command(context, name)
        assert command is not None
        if name in SAME:
            lines += [
                f"## kcl {name}",
                "",
                f"The same as [`kcl {SAME[name]}`](#kcl-{SAME[name]}).",
                "",
            ]
            continue
        lines += [f"## kcl {name}", ""]
        lines += described(
            command, click.Context(command, info_name=name, parent=context), f"kcl {name}"
        )
        for said in SCHEMA.get(name, ()):
            lines += printed(said)
    return "\n".join(lines)


def described(command: click.Command, context: click.Context, name: str) -> list[str]:
    """Write what a command does and which options it takes."""
    lines = [f"`{' '.join([name, *command.collect_usage_pieces(context)])}`", ""]
    lines += [inspect.cleandoc(command.help or ""), ""]
    rows = []
    for parameter in command.get_params(context):
        help_record = parameter.get_help_record(context)
        if (
            help_record is None
            or not isinstance(parameter, click.Option)
            or "--help" in parameter.opts
        ):
            continue
        rows.append(row(f"`{help_record[0]}`", help_record[1]))
    return [*lines, *head("option", "effect"), *rows, ""] if rows else lines


def printed(said: Printed) -> list[str]:
    """Write what a command prints with `--json`."""
    lines: list[str] = []
    for table, members in said.tables.items():
        fields = members
        what = "a list, of which each member has" if said.type.startswith("list") else "an object"
        if said.extends and not table:
            what += f" what [`kcl {said.extends}`](#kcl-{said.extends}) prints, and"
            (extended,) = SCHEMA[said.extends]
            fields = tuple(field for field in members if field not in extended.tables[""])
        wish = f" and {said.wish}" if said.wish else ""
        title = f"Each `{table}` has" if table else f"`--json`{wish} prints {what}"
        lines += [
            f"{title}:",
            "",
            *head("name", "type", "is"),
            *[member(field) for field in fields],
            "",
        ]
    return lines


def member(field: Field) -> str:
    """Write a member of an object."""
    asked = "" if field.always else ", if you ask for it"
    return row(
        f"`{field.name}`", field.type.replace("<", "`").replace(">", "`") + asked, field.words
    )


def head(*titles: str) -> list[str]:
    """Write the head of a table."""
    return [row(*titles), f"|{'---|' * len(titles)}"]


def row(*cells: str) -> str:
    """Write a row of a table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def shown(value: str) -> str:
    """Write a value, the empty one in words."""
    return f"`{value}`" if value else "empty"


def main() -> None:
    """Write the pages that changed and name them."""
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
