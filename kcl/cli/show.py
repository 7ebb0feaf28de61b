"""`kcl show`: the details of one entry."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
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
from kcl.errors import CacheFault, meant
from kcl.inspect import inventory
from kcl.inspect.catalogue import CacheEntry, Catalogue
from kcl.inspect.inventory import ListedEntry, Refusal

# By the name of what is asked for: the option, and its help.
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
# Generated code is the same for all devices.
_OF_CODE = {"source", "options", "invoker"}
_DESCRIBED = {"options", "parts", "path"}  # in the JSON of every entry
_ONLY = {"invoker": settings.GENERATOR, **dict.fromkeys(("log", "binary", "asm"), settings.BINARY)}


def _add_flags(command: Any) -> Any:
    """Give a command the options that say what to print."""
    # The option that is added last stands first in the help.
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
def show(key: str, binary: IO[bytes] | None, html: str | None, **asked: bool) -> output.Reply:
    """Show all about one entry.

    KEY is the start of its digest or the name of a kernel. A kernel that has one entry in each layer is shown with
    all. What is asked for by an option is printed as it is, and nothing else. `--tuning --html PAGE` draws the
    choices.

    Exits with 0; with 1 where there is no such entry, several are meant, which are listed, it is damaged, or has not
    what is asked for.
    """
    if asked["tuned"] or html:
        return _show_tuned(key, html)
    wanted = [name for name in _ASKED if asked[name]]
    faults: list[Refusal] = []
    catalogue = Catalogue(faults)
    summaries = _choose(key, [*wanted, *(["binary"] if binary else [])], catalogue, faults)
    entries = [*zip(summaries, map(_read, summaries), catalogue.describe(summaries), strict=True)]
    if binary:
        binary.write(_read_part(*entries[0][:2], "binary"))

    def shown() -> None:
        if wanted:
            click.echo("\n".join(_PIECES[name](*entries[0][:2]) for name in wanted))
        elif not binary:
            output.say("\n\n".join(_describe(*parts) for parts in entries), _INDENT)

    return (lambda: [_describe_in_full(*parts, wanted) for parts in entries], shown, False)


def _show_tuned(kernel: str, html: str | None) -> output.Reply:
    """Show the tables of a kernel, by its name."""
    tables = views.tables(kernel)
    if not tables:
        output.fail(f"nothing was measured for a kernel {kernel!r}: `kcl tune DRIVER` measures")
    if html:
        pages.write(html, kernel, "Time by that of the default", map(_draw, tables))
    text = "\n\n".join("\n".join(views.lines(table, with_facts=True)) for table in tables)
    show = partial(click.echo, "" if html else output.paint(text), nl=not html)
    return (lambda: [views.described(table) for table in tables], show, False)


def _draw(table: views.TableFile) -> Html:
    """Draw the candidates of a table: their time by that of the default, with noise."""
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


def _choose(
    key: str, wanted: Sequence[str], catalogue: Catalogue, faults: list[Refusal]
) -> list[ListedEntry]:
    """Return the entries that are meant, at most one of each layer; end the command where there is none or more."""
    rows = inventory.find_named(key, catalogue.rows)
    if not rows:
        output.complain(*faults)
        near = meant(key, catalogue.list_kernels())
        output.fail(
            f"no entry has a key that starts with {key!r}, or a kernel of that name{near}; kcl ls lists all"
        )
    layers = {_ONLY[name] for name in wanted if name in _ONLY}
    # An entry may have a copy.
    fitting = list(
        {(row.layer, row.digest): row for row in rows if not layers or row.layer in layers}.values()
    )
    if not fitting:
        output.fail(f"{key}: an entry of the {rows[0].layer} layer has no {wanted[0]}")
    code, programs, tables = (
        [row for row in fitting if row.layer == layer] for layer in settings.LAYERS
    )
    if len(code) == 1 and wanted and set(wanted) <= _OF_CODE and len(programs) > 1:
        # The programs of several devices were made of it.
        return code
    if max(map(len, (code, programs, tables))) > 1:
        output.complain(
            f"{key!r} is the beginning or the kernel of {len(fitting)} entries; give more digits of one:"
        )
        output.table(
            listing.HEAD,
            [listing.write_cells(line) for line in catalogue.describe(fitting)],
            err=True,
        )
        output.end(True)
    # A text that is asked for is that of the program, if there is one.
    return [*tables, *code, *programs][-1:] if wanted else [*code, *programs, *tables]


def _describe(summary: ListedEntry, entry: Entry, line: CacheEntry) -> str:
    """Describe an entry in lines of a name and a value."""
    metadata, numbered, room = entry.metadata, len(line.partners) > 1, output.find_width()
    sizes = ", ".join(
        f"{name} {output.format_size(len(part))}" for name, part in entry.parts.items()
    )
    tables = views.tables(line.kernel) if line.layer != settings.BINARY else ()
    measured = sum(len(table.rows) for table in tables)
    facts = {
        "kernel": line.kernel,
        "layer": line.layer,
        "key": line.key,
        "platform": _join(metadata.get("platform"), "name", "version"),
        "device": _join(metadata.get("device"), "name", "driver"),
        "recipe": line.recipe,
        "parameters": of_parameters(line.parameters),
        "front end": str(metadata.get("front_end", "")),
        "options": " ".join(_write_options(entry)) or "none",
        "functions": ", ".join(metadata.get("kernels", ())),
        "arguments": ", ".join(
            f"{name} ({dtype or 'any'} {kind})"
            for name, kind, dtype, _required in metadata.get("arguments", ())
        ),
        "dtypes": listing.write_dtypes(line.dtypes) if line.layer == settings.BINARY else "",
        "built": f"{output.format_date(line.built)}, in {output.format_seconds(line.build_seconds)}",
        "uses": f"{line.uses}, last {output.format_ago(line.last_used)}" if line.uses else "none",
        "complete": _write_completeness(metadata),
        "size": f"{output.format_size(line.bytes)} on disk; {sizes}",
        "file": shortened(summary.file, room - _INDENT) if room else summary.file,
        "tuning": f"{counted(measured, 'size', 'sizes')} measured: kcl show {line.kernel} --tuning"
        if measured
        else "",
        **{
            f"partner {number}" if numbered else "partner": key
            for number, key in enumerate(line.partners, 1)
        },
    }
    return "\n".join(f"{name:10}  {value}" for name, value in facts.items() if value)


def _describe_in_full(
    summary: ListedEntry, entry: Entry, line: CacheEntry, wanted: Sequence[str]
) -> dict[str, Any]:
    """Write an entry as JSON."""
    return {
        **line._asdict(),
        "file": summary.file,
        "parts": [list(part) for part in entry.key.parts],
        "metadata": entry.metadata,
        "sizes": {name: len(part) for name, part in entry.parts.items()},
        **{name: _PIECES[name](summary, entry) for name in wanted if name not in _DESCRIBED},
    }


# By the name of what is asked for: its text.
_PIECES: dict[str, Callable[[ListedEntry, Entry], str]] = {
    "source": lambda summary, entry: _read_text(summary, entry, "source.cl"),
    "log": lambda summary, entry: _read_text(summary, entry, "build.log"),
    "invoker": lambda summary, entry: _read_text(summary, entry, "invoker.py"),
    "parts": lambda _, entry: "\n".join(f"{name} = {value}" for name, value in entry.key.parts),
    "options": lambda _, entry: "\n".join(_write_options(entry)),
    "path": lambda summary, _: summary.file,
    "asm": lambda summary, entry: disassemble(_read_part(summary, entry, "binary")),
}


def _read_text(summary: ListedEntry, entry: Entry, part: str) -> str:
    return _read_part(summary, entry, part).decode("utf-8", "replace").rstrip("\n")


def _read_part(summary: ListedEntry, entry: Entry, name: str) -> bytes:
    part = entry.parts.get(name)
    if part is None:
        output.fail(
            f"{summary.address} has no {name}; it has {', '.join(entry.parts) or 'no parts'}"
        )
    return part


def _read(summary: ListedEntry) -> Entry:
    try:
        return summary.read()
    except (KeyError, CacheFault, OSError, ValueError) as error:
        output.fail(f"{summary.layer}: {summary.address} cannot be read: {error}")


def _write_options(entry: Entry) -> list[str]:
    """Return the build options; an include directory that is described by its place is written in angles."""
    return [
        option if isinstance(option, str) else f"{option[0]}<{option[1]} {option[2]}>"
        for option in entry.metadata.get("options", ())
    ]


def _write_completeness(metadata: dict[str, Any]) -> str:
    if "specialisations" not in metadata:
        return ""
    sizes = ", ".join(
        f"{kernel}: {' '.join(map(str, compiled))}"
        for kernel, compiled in metadata["specialisations"].items()
    )
    return f"{'yes' if metadata.get('complete') else 'no'}; compiled for {sizes or 'no size'}"


def _join(described: Any, *names: str) -> str:
    fields = described or {}
    return ", ".join(str(fields[name]) for name in names if fields.get(name))


def disassemble(binary: bytes) -> str:
    """Return the native code of a program binary as text: PoCL's and Intel's through objdump, PTX as it is.

    End the command for an unknown binary, or if objdump is missing.
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
    """Return what objdump prints of a file with this content, without the lines that name the file."""
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
