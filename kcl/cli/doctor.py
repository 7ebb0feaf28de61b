"""`kcl doctor`: the faults around the caches, and their cures."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from kcl.base.text.layout import counted
from kcl.base.text.tables import Column
from kcl.cli import output

if TYPE_CHECKING:
    from kcl.inspect.doctor import Finding

_HEAD = (Column("", states=True), Column("check", 0, "words", 12), Column("found", 0, "words", 30))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list of findings.")
def doctor(as_json: bool) -> None:
    """Check platforms, packages, directories, variables and files, and name the cure of what is found.

    Loads every OpenCL driver; changes nothing. A problem keeps something from working, a warning costs time or space,
    a note is good to know.

    Exits with 0; with 1 where there is a problem.
    """
    from kcl.inspect import doctor

    found = list(doctor.run())
    if as_json:
        output.dump([{"check": check, **finding._asdict()} for check, finding in found])
    else:
        output.table(_HEAD, [line for one in found for line in _lines(*one)])
        counts = Counter([finding.severity for _check, finding in found])
        click.echo(", ".join(counted(counts[kind], kind, f"{kind}s") for kind in ("problem", "warning", "note")))
    raise SystemExit(output.FOUND if any(one.severity == doctor.PROBLEM for _check, one in found) else output.FINE)


def _lines(check: str, finding: Finding) -> list[tuple[str, str, str]]:
    """Return a line for a finding, and one for its cure."""
    lines = [(finding.severity, check, finding.words)]
    return [*lines, ("", "cure", finding.cure)] if finding.cure else lines
