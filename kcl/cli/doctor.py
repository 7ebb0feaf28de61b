"""`kcl doctor`: what is wrong around the caches, and what cures it."""

from __future__ import annotations

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
        output.dump([finding._asdict() for finding in found])
    else:
        output.table(_HEAD, [line for finding in found for line in _lines(finding)])
        counts = {kind: sum(finding.severity == kind for finding in found) for kind in ("problem", "warning", "note")}
        click.echo(", ".join(counted(count, kind, f"{kind}s") for kind, count in counts.items()))
    raise SystemExit(output.FOUND if any(finding.severity == doctor.PROBLEM for finding in found) else output.FINE)


def _lines(finding: Finding) -> list[tuple[str, str, str]]:
    """Return a line for what was found, and one for its cure."""
    lines = [(finding.severity, finding.check, finding.words)]
    return [*lines, ("", "cure", finding.cure)] if finding.cure else lines
