"""`kcl report`: the look-ups of the last run of a driver, kernel by kernel, as text, JSON or a page.

The page is one file of HTML that needs no network and no script. It shows what the terminal shows, and the OpenCL C of
each kernel. `page.html` is its template. A policy in its head forbids the browser to load anything. All texts go
through `kcl.base.text.markup`, which escapes them: names, sources and messages come from users.
"""

from __future__ import annotations

import pkgutil
import string
import sys
from collections.abc import Iterator, Mapping, Sequence

import click

import kcl
from kcl.base.text import tables
from kcl.base.text.layout import WIDTH, folded
from kcl.base.text.markup import Html, element, join, text
from kcl.cli import output
from kcl.cli.output import Reply
from kcl.inspect import inventory, kernels, summary
from kcl.inspect.explain import misses
from kcl.inspect.history import journal
from kcl.inspect.kernels import KernelRow, Run, last_run


@click.command()
@click.argument("driver", required=False)
@click.option(
    "--html", type=click.Path(dir_okay=False, allow_dash=True), help="Write one page of HTML there."
)
@click.option(
    "--fail-on-miss",
    is_flag=True,
    help="Exit with 1 if a look-up was no hit, and list them all. For CI.",
)
@output.replies("the run, its layers and its kernels")
def report(driver: str | None, html: str | None, fail_on_miss: bool) -> Reply:
    """Show the last run: layers, kernels with their look-ups, what missed and why.

    DRIVER is the file that ran, by its name or its path, or the package of `python -m`; without one the run that ended
    last is shown, of any. Nothing is run again: all comes from what processes left, and from the entries. Processes of
    the same file that were alive at the same time are one run.

    `--html` writes a page that needs no network and no script. It adds the OpenCL C.

    `--fail-on-miss` lists all look-ups that were no hits with their reasons, where KCL_STRICT=hit ends a run at the
    first. A layer that is switched off does not count.

    Exits with 0; with 1 where no such run is known, and under `--fail-on-miss` where a look-up was no hit.
    """
    run = last_run(driver, sys.maxsize if fail_on_miss else kernels.EXPLAINED)
    if run is None:
        fault = journal.fault()
        of = f" of {driver!r}" if driver else ""
        output.fail(f"the last run cannot be read: {fault}" if fault else f"no run{of} is known")
    shared, failed = (
        facts(run),
        fail_on_miss and any(not one.reason.startswith("off: ") for one in run.told),
    )
    if html:
        with click.open_file(html, "w", encoding="utf-8") as stream:
            stream.write(page(run, shared))
        told = None if html == "-" else f"written: {html}"
        return Reply(run.described, lambda: output.say(told) if told else None, failed)
    return Reply(run.described, lambda: output.say("\n".join(_lines(run, shared))), failed)


def facts(run: Run) -> dict[str, str]:
    """Write what the terminal and the page have in common."""
    left = [f"{run.untold} earlier ones are left out: kcl explain --limit 0"] if run.untold else []
    return {
        "processes": f"{len(run.processes)} processes"
        if len(run.processes) > 1
        else f"process {run.processes[0]}",
        "layers": "\n".join(tables.lines(summary.HEAD, summary.cells(run.layers))),
        "kernels": "\n".join(kernels.lines(run.rows)),
        "misses": "\n".join([*misses.lines(run.told), *left]),
    }


def _lines(run: Run, shared: Mapping[str, str]) -> list[str]:
    """Write a run for a terminal."""
    title = f"{run.driver or 'python'}, {shared['processes']}, {output.ago(run.ended)}"
    missed = ["", shared["misses"]] if shared["misses"] else []
    remarks = [
        line
        for each in (*run.remarks, *misses.pending().described())
        for line in folded(each, WIDTH)
    ]
    return [
        title,
        shared["layers"],
        "",
        shared["kernels"],
        *missed,
        *([""] if remarks else []),
        *remarks,
    ]


def page(run: Run, shared: Mapping[str, str]) -> str:
    """Return the page of a run as HTML; `shared` are the texts of the terminal."""
    template = pkgutil.get_data("kcl.cli", "page.html")
    assert template is not None
    found = {
        **shared,
        "driver": run.driver or "python",
        "when": f"{output.date(run.ended)}, {shared['processes']}",
        "version": kcl.__version__,
        "misses": "\n".join([shared["misses"] or "Every look-up was a hit.", *run.remarks]),
    }
    escaped = {name: text(value) for name, value in found.items()}
    return string.Template(template.decode()).substitute(escaped, sources=join(_sources(run.rows)))


def _sources(rows: Sequence[KernelRow]) -> Iterator[Html]:
    """Yield the OpenCL C of each kernel, of which only the name shows until the reader opens it."""
    for row, label in zip(rows, kernels.labels(rows), strict=True):
        entry = inventory.read(row.stored[0], []) if row.stored else None
        if entry is not None and "source.cl" in entry.parts:
            code = element("code", entry.parts["source.cl"].decode("utf-8", "replace"))
            title = element("summary", element("code", label))
            yield element("details", title, element("pre", code, tabindex="0"))
