"""`kcl doctor`: the faults around the caches, and their cures."""

from __future__ import annotations

from collections import Counter

import click

from kcl.base.text.layout import counted
from kcl.base.text.tables import Column
from kcl.cli import output
from kcl.inspect.doctor import OK, PROBLEM, WARNING, Finding, run
from kcl.remote import state

_HEAD = (Column(""), Column("check", 0, "words", 12), Column("found", 0, "words", 30))


@click.command()
@output.replies("a list of findings")
def doctor() -> output.Reply:
    """Check platforms, packages, directories, variables and files, and name the cure of what is found.

    Loads every OpenCL driver; changes nothing. A problem keeps something from working, a warning costs time or space,
    a note is good to know.

    Exits with 0; with 1 where there is a problem.
    """
    fine, fault = state.attempt()
    tried = [("remote", Finding(WARNING if fault else OK, fault or fine))] if fault or fine else []
    findings = [*run(), *tried]
    return (
        lambda: [{"check": check, **finding._asdict()} for check, finding in findings],
        lambda: _show(findings),
        any(finding.severity == PROBLEM for _check, finding in findings),
    )


def _show(findings: list[tuple[str, Finding]]) -> None:
    lines = []
    for check, finding in findings:
        lines.append((finding.severity, check, finding.words))
        if finding.cure:
            lines.append(("", "cure", finding.cure))
    output.table(_HEAD, lines)
    counts = Counter([finding.severity for _check, finding in findings])
    click.echo(
        ", ".join(
            counted(counts[kind], kind, f"{kind}s") for kind in ("problem", "warning", "note")
        )
    )
