"""`kcl show`: the details of one entry."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import IO, Any

import click

from kcl import drivers
from kcl.base import settings
from kcl.base.text.layout import counted, shortened
from kcl.base.text.markup import Html
from kcl.base.text.names import of_parameters
from kcl.cache.entry import Entry
from kcl.choices.tuning import views
from kcl.cli import ls as listing
from kcl.cli import output, pages
from kcl.cli.from_bundle import from_bundle
from kcl.errors import meant
from kcl.inspect import inventory
from kcl.inspect.catalogue import CacheEntry, Catalogue
from kcl.inspect.inventory import ListedEntry

# Name of a part of an entry -> (option that prints it, help of the option).
_ASKED = {
    "source": ("--source", "The OpenCL C."),
    "log": ("--log", "What the compiler said."),
    "options": ("--options", "The build options, one a line."),
    "invoker": ("--invoker", "The Python code that launches it."),
    "parts": ("--key", "The parts of the key."),
    "path": ("--file", "The path of its file, of generated code of its database."),
    "asm": ("--asm", "The native code in the binary; needs objdump, but for PTX."),
    "tuned": ("--tuning", "The choices that were measured for a kernel, and their outcomes."),
}
_ELF = b"\x7fELF"
_INDENT = 12  # the column in which the values of an entry begin
# The parts of generated code, which are the same for all devices.
_OF_CODE = {"source", "options", "invoker"}
_DESCRIBED = {"options", "parts", "path"}  # in the JSON of every entry
# Part -> the only layer whose entries have it.
_ONLY = {"invoker": settings.GENERATOR, **dict.fromkeys(("log", "binary", "asm"), settings.BINARY)}


def _add_flags(command: Any) -> Any:
    """Add the options of `_ASKED` to a command."""
    # click shows the option first that was added last.
    for name, (flag, words) in reversed(_ASKED.items()):
        command = output.flag(flag, name, help=words)(command)
    return command


@click.command()
@from_bundle
@click.argument("key")
@_add_flags
@click.option(
    "--binary", type=click.File("wb"), metavar="FILE", help="Write the program binary there."
)
@pages.html_option
@output.replies("a list of entries, with the texts that are asked for")
def show(key: str, binary: IO[bytes] | None, html: str | None, **flags: bool) -> output.Reply:
    """Show all about one entry.

    KEY is the start of its digest or the name of a kernel. A kernel that has one entry in each layer is shown with
    all. What is asked for by an option is printed as it is, and nothing else. `--tuning --html PAGE` draws the
    choices.

    Exits with 0; with 1 if there is no such entry, several are meant, which are listed, it is damaged, or has not
    what is asked for.
    """
    if flags["tuned"] or html:
        return _show_tuned(key, html)
    wanted = [name for name in _ASKED if flags[name]]
    catalogue = Catalogue()
    rows = _choose(key, [*wanted, *(["binary"] if binary else [])], catalogue)
    entries = [*zip(rows, map(_read, rows), catalogue.describe(rows), strict=True)]
    row, entry, _described = entries[0]
    if binary:
        binary.write(_read_part(row, entry, "binary"))

    def show() -> None:
        if wanted:
            click.echo("\n".join(_PIECES[name](row, entry) for name in wanted))
        elif not binary:
            output.say("\n\n".join(_describe(*parts) for parts in entries), _INDENT)

    return lambda: [_describe_in_full(*parts, wanted) for parts in entries], show, False


def _show_tuned(kernel: str, html: str | None) -> output.Reply:
    """Show the tuning tables of a kernel."""
    tables = views.tables(kernel)
    if not tables:
        output.fail(f"nothing was measured for a kernel {kernel!r}: `kcl tune DRIVER` measures")
    if html:
        pages.write(html, kernel, "Time by that of the default", map(_draw, tables))
    text = "\n\n".join("\n".join(views.lines(table, with_facts=True)) for table in tables)
    print_text = partial(click.echo, "" if html else output.paint(text), nl=not html)
    return lambda: [views.described(table) for table in tables], print_text, False


def _draw(table: views.TableFile) -> Html:
    """Return a drawing of a table's candidates: the ratio of their time to that of the default, with its noise."""
    candidates = views.candidates(table)
    longest = max(
        (row.ratio * (1 + row.noise) for _label, _kind, row in candidates if row.ratio), default=1
    )
    return pages.fill(
        "tuning",
        title=f"{table.kernel} on {table.device}",
        choices=[
            pages.fill(
                "choice",
                label=label,
                kind=kind,
                ratio=f"{row.ratio or 0.0:.3f}",
                noise=f"{row.noise:.3f}",
                longest=str(longest),
                words="; ".join(filter(None, (views.ratio(row), views.speed(row), row.detail))),
            )
            for label, kind, row in candidates
        ],
    )


def _choose(key: str, wanted: Sequence[str], catalogue: Catalogue) -> list[ListedEntry]:
    """Return the entries that `key` names, at most one of each layer; end the command if there are none or more."""
    rows = inventory.find_named(key, catalogue.rows)
    if not rows:
        output.complain(*catalogue.faults)
        near = meant(key, catalogue.list_kernels())
        output.fail(
            f"no entry has a key that starts with {key!r}, or a kernel of that name{near}; kcl ls lists all"
        )
    layers = {_ONLY[name] for name in wanted if name in _ONLY} or settings.LAYERS
    # The same entry may exist twice, here and in a site directory.
    fitting = {(row.layer, row.digest): row for row in rows if row.layer in layers}.values()
    if not fitting:
        output.fail(f"{key}: an entry of the {rows[0].layer} layer has no {wanted[0]}")
    groups = [[row for row in fitting if row.layer == layer] for layer in settings.LAYERS]
    code, programs, tables = groups
    if len(code) == 1 and wanted and set(wanted) <= _OF_CODE and len(programs) > 1:
        # The programs are those of several devices, and have the same code.
        return code
    if max(map(len, groups)) > 1:
        output.complain(
            f"{key!r} is the beginning or the kernel of {len(fitting)} entries; give more digits of one:"
        )
        output.table(listing.COLUMNS, catalogue.describe([*fitting]), err=True)
        output.end(True)
    # If a part was asked for, take it from the program, if there is one.
    return (programs or code or tables) if wanted else [*code, *programs, *tables]


def _describe(row: ListedEntry, entry: Entry, about: CacheEntry) -> str:
    """Describe an entry in lines of a name and a value; a line without a value is left out."""
    metadata, room = entry.metadata, output.find_width()
    sizes = [f"{name} {output.format_size(len(part))}" for name, part in entry.parts.items()]
    is_program = about.layer == settings.BINARY
    tables = () if is_program else views.tables(about.kernel)
    measured = sum(len(table.rows) for table in tables)
    facts = {
        "kernel": about.kernel,
        "layer": about.layer,
        "key": about.key,
        "platform": _join(metadata.get("platform"), "name", "version"),
        "device": _join(metadata.get("device"), "name", "driver"),
        "recipe": about.recipe,
        "parameters": of_parameters(about.parameters),
        "front end": str(metadata.get("front_end", "")),
        "options": " ".join(_write_options(entry)) or "none",
        "functions": ", ".join(metadata.get("kernels", ())),
        "arguments": ", ".join(
            f"{name} ({dtype or 'any'} {kind})"
            for name, kind, dtype, _required in metadata.get("arguments", ())
        ),
        "dtypes": listing.write_dtypes(about.dtypes) if is_program else "",
        "built": f"{output.format_date(about.built)}, in {output.format_seconds(about.build_seconds)}",
        "uses": f"{about.uses}, last {output.format_ago(about.last_used)}"
        if about.uses
        else "none",
        "complete": _write_completeness(metadata),
        "size": f"{output.format_size(about.bytes)} on disk; {', '.join(sizes)}",
        "file": shortened(row.file, room - _INDENT) if room else row.file,
        "tuning": f"{counted(measured, 'size', 'sizes')} measured: kcl show {about.kernel} --tuning"
        if measured
        else "",
    }
    for number, key in enumerate(about.partners, 1):
        facts[f"partner {number}" if len(about.partners) > 1 else "partner"] = key
    return "\n".join(f"{name:10}  {value}" for name, value in facts.items() if value)


def _describe_in_full(
    row: ListedEntry, entry: Entry, about: CacheEntry, wanted: Sequence[str]
) -> dict[str, Any]:
    """Write an entry as JSON."""
    return {
        **about._asdict(),
        "file": row.file,
        "parts": [list(part) for part in entry.key.parts],
        "metadata": entry.metadata,
        "sizes": {name: len(part) for name, part in entry.parts.items()},
        **{name: _PIECES[name](row, entry) for name in wanted if name not in _DESCRIBED},
    }


# Part -> function that returns its text.
_PIECES: dict[str, Callable[[ListedEntry, Entry], str]] = {
    "source": lambda row, entry: _read_text(row, entry, "source.cl"),
    "log": lambda row, entry: _read_text(row, entry, "build.log"),
    "invoker": lambda row, entry: _read_text(row, entry, "invoker.py"),
    "parts": lambda _row, entry: "\n".join(f"{name} = {value}" for name, value in entry.key.parts),
    "options": lambda _row, entry: "\n".join(_write_options(entry)),
    "path": lambda row, _entry: row.file,
    "asm": lambda row, entry: disassemble(_read_part(row, entry, "binary")),
}


def _read_text(row: ListedEntry, entry: Entry, part: str) -> str:
    return _read_part(row, entry, part).decode("utf-8", "replace").rstrip("\n")


def _read_part(row: ListedEntry, entry: Entry, name: str) -> bytes:
    if name not in entry.parts:
        output.fail(f"{row.address} has no {name}; it has {', '.join(entry.parts) or 'no parts'}")
    return entry.parts[name]


def _read(row: ListedEntry) -> Entry:
    faults = inventory.Faults()
    entry = row.read(faults)
    if entry is None:
        output.fail("\n".join(map(str, faults)) or f"{row.place} was removed")
    return entry


def _write_options(entry: Entry) -> list[str]:
    """Return the build options; an include directory that is described by its place is written in angles."""
    return [
        option if isinstance(option, str) else f"{option[0]}<{option[1]} {option[2]}>"
        for option in entry.metadata.get("options", ())
    ]


def _write_completeness(metadata: Mapping[str, Any]) -> str:
    """Say if a binary is complete, and for which sizes of work-groups it has code; empty if it cannot be partial."""
    compiled = metadata.get("specialisations")
    if compiled is None:
        return ""
    sizes = [f"{name}: {' '.join(map(str, own))}" for name, own in compiled.items()]
    complete = "yes" if metadata.get("complete") else "no"
    return f"{complete}; compiled for {', '.join(sizes) or 'no size'}"


def _join(facts: Any, *names: str) -> str:
    """Join some values of a platform or device with commas; empty for entries that have no device."""
    return ", ".join(str(facts[name]) for name in names if facts and facts.get(name))


def disassemble(binary: bytes) -> str:
    """Return the native code of a program binary as text: by objdump for PoCL and Intel; PTX is text already.

    Ends the command for an unknown binary, or if objdump is missing.
    """
    try:
        files = drivers.own_files(binary)
    except ValueError as error:
        output.fail(f"this PoCL binary cannot be taken apart: {error}")
    if not files and binary.startswith(_ELF):
        # Intel's container looks like ELF too, and has the object file inside.
        files = {"object file": binary[max(binary.find(_ELF, 1), 0) :]}
    if not files:
        text = binary.rstrip(b"\0").decode("utf-8", "replace")
        if ".version" in text and ".target" in text:
            return text
        output.fail(
            "this is neither PTX nor a binary that kcl can take apart; --binary FILE writes it as it is"
        )
    native = [
        (path, content) for path, content in sorted(files.items()) if content.startswith(_ELF)
    ]
    if not native:
        output.fail("the binary holds no native code, only what the driver compiles from it")
    return "\n".join(f"{path}\n{_run_objdump(content)}" for path, content in native)


def _run_objdump(content: bytes) -> str:
    """Return the output of objdump for a file with this content, without the lines that contain the file's name."""
    if shutil.which("objdump") is None:
        output.fail(
            "objdump is not installed: it comes with binutils; --binary FILE writes the binary"
        )
    with tempfile.NamedTemporaryFile(suffix=".so") as stream:
        stream.write(content)
        # objdump reads the file by its name.
        stream.flush()
        command = ["objdump", "-d", "--no-show-raw-insn", stream.name]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        output.fail(f"objdump does not take it: {done.stderr.strip()}")
    return "\n".join(line for line in done.stdout.splitlines() if stream.name not in line).strip(
        "\n"
    )
