"""`kcl report`: the look-ups of the last run of a driver, kernel by kernel, as text, JSON or a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import click

from kcl.base.text.markup import Html
from kcl.cli import output, pages
from kcl.inspect import kernels, summary
from kcl.inspect.explain import misses
from kcl.inspect.history import journal
from kcl.inspect.kernels import KernelRow, Run, find_last_run


@click.command()
@click.argument("driver", required=False)
@pages.html_option
@output.flag(
    "--fail-on-miss",
    help="Exit with 1 if a look-up was no hit, and list them all. For CI.",
)
@output.replies("the run, its layers and its kernels")
def report(driver: str | None, html: str | None, fail_on_miss: bool) -> output.Reply:
    """Show the last run: layers, kernels with their look-ups, what missed and why.

    DRIVER is the file that ran, by its name or its path, or the package of `python -m`; without one the run that ended
    last is shown, of any. Nothing is run again: all comes from what processes left, and from the entries. Processes of
    the same file that were alive at the same time are one run.

    `--html` writes a page that needs no network and no script: a bar for each kernel, with its OpenCL C.

    `--fail-on-miss` lists all look-ups that were no hits with their reasons, where KCL_STRICT=hit ends a run at the
    first. A layer that is switched off does not count.

    Exits with 0; with 1 if no such run is known, and under `--fail-on-miss` if a look-up was no hit.
    """
    # With this option all misses are shown.
    run = find_last_run(driver, 0 if fail_on_miss else kernels.MOST_EXPLAINED)
    if run is None:
        fault = journal.find_fault()
        of = f" of {driver!r}" if driver else ""
        output.fail(f"the last run cannot be read: {fault}" if fault else f"no run{of} is known")
    shared = collect_facts(run)
    if html:
        pages.write(
            html,
            run.driver or "python",
            f"{output.format_date(run.ended)}, {shared['processes']}",
            fill_page(run, shared),
        )
    return (
        run.describe,
        lambda: [*map(output.say, [] if html else _write_lines(run, shared))],
        fail_on_miss and any(not miss.reason.startswith("off: ") for miss in run.misses),
    )


def collect_facts(run: Run) -> dict[str, str]:
    """Return the texts that are the same on a terminal and on a page, by name."""
    first, *others = run.processes
    left_out = [misses.LEFT_OUT.format(run.left_out)] if run.left_out else []
    return {
        "processes": f"{len(run.processes)} processes" if others else f"process {first}",
        "layers": "\n".join(summary.write_table(run.layers)),
        "kernels": "\n".join(kernels.write_table(run.rows)),
        "misses": "\n".join([*misses.write_lines(run.misses), *left_out]),
    }


def _write_lines(run: Run, shared: Mapping[str, str]) -> list[str]:
    """Write a run for a terminal."""
    remarks = summary.fold_prose([*run.remarks, *misses.find_pending().described()])
    return [
        f"{run.driver or 'python'}, {shared['processes']}, {output.format_ago(run.ended)}",
        shared["layers"],
        "",
        shared["kernels"],
        *(["", shared["misses"]] if shared["misses"] else []),
        *(["", *remarks] if remarks else []),
    ]


def fill_page(run: Run, shared: Mapping[str, str]) -> Html:
    """Return the content of the page of a run, without the frame; `shared` has the texts of `collect_facts`."""
    return pages.fill(
        "report",
        kernels=_draw_bars(run.rows),
        misses="\n".join([shared["misses"] or "Every look-up was a hit.", *run.remarks]),
        layers=shared["layers"],
    )


def _draw_bars(rows: Sequence[KernelRow]) -> Iterator[Html]:
    """Yield a bar for each kernel; a click opens its OpenCL C."""
    longest = max((sum(row.lengths.values()) for row in rows), default=1.0) or 1.0
    for row, label in zip(rows, kernels.name_rows(rows), strict=True):
        spent, saved = map(output.format_seconds, row.spent)
        yield pages.fill(
            "kernel",
            label=label,
            kind=row.looks[0].outcome,
            words=f"{spent} spent, {saved} saved",
            source=row.source,
            longest=str(longest),
            **{name: str(length) for name, length in row.lengths.items()},
            layers="; ".join(
                f"{layer}: {kernels.write_outcome(row.of(layer))}"
                for layer in kernels.choose_layers([row])
            ),
        )
