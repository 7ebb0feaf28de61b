"""`kcl doctor`: the faults around the caches, and their cures."""

from __future__ import annotations

from collections import Counter

import click

from kcl.base.text.layout import counted
from kcl.base.text.tables import Column, Columns
from kcl.cli import output
from kcl.inspect.doctor import PROBLEM, Finding, run

_COLUMNS: Columns[Finding] = (
    (Column(""), lambda finding: finding.severity),
    (Column("check", 0, "words", 12), lambda finding: finding.check),
    (Column("found", 0, "words", 30), lambda finding: finding.words),
)


@click.command()
@output.replies("a list of findings")
def doctor() -> output.Reply:
    """Check platforms, packages, directories, variables and files, and name the cure of what is found.

    Loads every OpenCL driver; changes nothing. A problem keeps something from working, a warning costs time or space,
    a note is good to know.

    Exits with 0; with 1 if there is a problem.
    """
    findings = list(run())
    counts = Counter([finding.severity for finding in findings])

    def show() -> None:
        # A cure stands below its finding, in a row of its own.
        pairs = [(finding, Finding("", finding.cure, check="cure")) for finding in findings]
        output.table(_COLUMNS, [row for pair in pairs for row in pair if row.words])
        kinds = [counted(counts[kind], kind, f"{kind}s") for kind in ("problem", "warning", "note")]
        click.echo(", ".join(kinds))

    return lambda: [finding._asdict() for finding in findings], show, bool(counts[PROBLEM])
