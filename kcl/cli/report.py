"""`kcl report`: the look-ups of the last run of a driver, kernel by kernel, as text, JSON or a page."""

from __future__ import annotations

import click

from kcl.base.text.layout import counted
from kcl.cli import output
from kcl.cli.output import Reply
from kcl.inspect import kernels
from kcl.inspect import summary as tables
from kcl.inspect.explain import misses
from kcl.inspect.history import journal
from kcl.inspect.kernels import Run, last_run


@click.command()
@click.argument("driver", required=False)
@click.option("--html", type=click.Path(dir_okay=False, allow_dash=True), help="Write one page of HTML there.")
@output.replies("the run, its layers and its kernels")
def report(driver: str | None, html: str | None) -> Reply:
    """Show the last run: layers, kernels with their look-ups, what missed and why, and what is in the cache.

    DRIVER is the name of the file that ran; without one the run that ended last is shown, of any. Nothing is run again:
    all comes from what processes left as they ended, and from the entries. Processes of the same file that were alive
    at the same time are one run.

    `--html` writes a page that needs no network and no script. It adds the OpenCL C and, where objdump is installed,
    the assembly.

    Exits with 0; with 1 where no such run is known.
    """
    output.complain_of_off()
    run = last_run(driver)
    if run is None:
        fault = journal.fault()
        of = f" of {driver!r}" if driver else ""
        output.fail(f"the last run cannot be read: {fault}" if fault else f"no run{of} is known")
    if html:
        from kcl.cli.page import page

        with click.open_file(html, "w", encoding="utf-8") as stream:
            stream.write(page(run, in_the_cache(run)))
    said = "\n".join(lines(run)) if not html else f"written: {html}" if html != "-" else ""
    return Reply(run.described, lambda: output.say(said) if said else None)


def lines(run: Run) -> list[str]:
    """Write a run for a terminal."""
    many = f"{len(run.processes)} processes" if len(run.processes) > 1 else f"process {run.processes[0]}"
    said = [f"{run.driver or 'python'}, {many}, {output.ago(run.over)}", *tables.layer_lines(run.layers)]
    said += ["", *kernels.lines(run.rows)]
    if run.told:
        said += ["", *misses.lines(run.told)]
    if run.untold:
        said.append(f"{run.untold} earlier ones are left out: kcl explain --limit 0")
    remarks = [line for each in (*run.remarks, *misses.pending().described()) for line in tables.wrapped(each)]
    return [*said, "", *remarks, f"in the cache: {in_the_cache(run)}"]


def in_the_cache(run: Run) -> str:
    """Write what lies in the layers now."""
    held = [f"{one.layer} {counted(one.entries, 'entry', 'entries')}, {output.size(one.size)}" for one in run.held]
    return "; ".join(held)
