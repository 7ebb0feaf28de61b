"""The page of what ran: `doc/explanation/reliability.md`, from measured/faults.json and measured/soak.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from faults_rows import BAD, ROWS, TESTS, Row

WITHOUT = " (without kcl)"
HEAD = """\
<!-- made by tools/faults.py --page: run `make faults`, then that -->

# Reliability: what was done to kcl, and what came of it

kcl never changes a result and never fails a run. An entry that is absent, torn, altered, foreign, too new or too slow
is a miss. kcl does not promise that entries survive a crash. [Trust](trust.md) says what other users can do.

`make faults` shows this. Each row below makes one kind of fault in the caches, many times. The same rules judge each
case: the numbers of the kernel are right, the run raises no error, gets no signal, does not hang, and leaves no
descriptor and no temporary file. Without the fault the next runs hit. Where a later run costs a process of its own,
every fourth failing operation and every tenth flipped entry has a later run. A case that breaks one of these rules is
bad. The tests run a sample of each row.

"""
FOOT = """\

## Notes

"Missed again" are rows of a database whose index is damaged in a way that SQLite does not notice. No number is wrong,
and the code is generated again. A put whose row is not found again sets the file aside.

The operations on files fail in the process: a call of kcl's code into `os`, `fcntl` or `open` raises the error. Calls
that SQLite and OpenCL drivers make in C are not among them. Runs with many cases use Intel's driver where it is
installed, because it hands out binaries at once; the rows with PoCL in their name, and flipped entries end to end, run
on PoCL 3.0, the wheel. [The table of PoCLs](../reference/compatibility.md) has the damage of PoCL's own cache for PoCL 3.1,
6.0 and 7.1. kcl repairs the files of a program that has a complete entry; a program that no entry holds ends as without
kcl. The corpus of the fuzzer is made from ten entries of all shapes by the seed. A loss of power is the shutdown
of a mounted ext4 without its journal. The rows that mount file systems or give files away need root;
without that right a row is left out.

Repeat one case with `python tools/faults.py --row NAME --seed SEED --only NUMBER`.
"""


def page(state: Mapping[str, Any], soak: Mapping[str, Any] | None = None) -> str:
    """Return the page, with the outcome of a soak where there is one."""
    return HEAD + "\n".join([*_lines(state), *(_soaked(soak) if soak else ())]) + "\n" + FOOT


def _lines(state: Mapping[str, Any]) -> Iterator[str]:
    yield "| fault | how | cases | of the full number | bad | what came of it | longest case | date, seed |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in ROWS:
        yield _line(row.name, row, state.get(row.name))
    yield ""
    yield "## Without kcl"
    yield ""
    yield "The same with pyopencl alone: with a binary in a file of the program's own, and with PoCL's cache."
    yield ""
    yield "| fault | cases | bad | what came of it |"
    yield "|---|---|---|---|"
    for row in ROWS:
        if row.baseline and (known := state.get(row.name + WITHOUT)):
            bad = bad_of(known)
            yield f"| {row.name} | {known['done']:,} | {bad} ({bad / known['done']:.1%}) | {_outcomes(known)} |"
    yield ""
    yield "## What tests of the suite show"
    yield ""
    yield "| fault | how | tests | result |"
    yield "|---|---|---|---|"
    for tests in TESTS:
        known = state.get(tests.name)
        result = f"{known['tests']}, {known['date']}" if known else "did not run for this page"
        yield f"| {tests.name} | {tests.how} | `{tests.file}` | {result} |"


def _soaked(soak: Mapping[str, Any]) -> Iterator[str]:
    ended, series = soak["processes"], soak["series"]
    yield ""
    yield "## All at once"
    yield ""
    yield "`make soak` puts one cache under drivers, threads, kills, damage, `kcl gc` and `kcl purge` at once."
    yield ""
    yield "| what | how much |"
    yield "|---|---|"
    yield f"| minutes, date, seed | {soak['seconds'] / 60:.0f}, {soak['date']}, {soak['seed']} |"
    yield f"| launches of the drivers that lived all the time | {soak['launches']:,} |"
    yield f"| processes that came and went | {', '.join(f'{ended[how]:,} {how}' for how in sorted(ended))} |"
    yield f"| files damaged or removed | {sum(soak['faults'].values()):,} |"
    yield f"| commands of kcl | {sum(soak['commands'].values()):,} |"
    yield f"| wrong numbers; exceptions | {len(soak['wrong'])}; {len(soak['exceptions'])} |"
    flat = ", ".join(name for name in series if series[name]["flat"])
    yield f"| flat over the time | {flat} |"
    yield f"| processes left; hits afterwards | {soak['left']}; {'all' if soak['hits'] else 'not all'} |"


def _line(name: str, row: Row, known: Mapping[str, Any] | None) -> str:
    if known is None:
        return f"| {name} | {row.how} | | did not run | | | | |"
    done, full = row.unit * known["done"], row.unit * row.full
    share = "all" if done >= full else f"{done / full:.0%} of {full:,}"
    memory = f"; {known['memory']} MiB at most" if row.memory else ""
    cells = [
        name,
        row.how,
        f"{done:,}",
        share,
        str(bad_of(known)),
        _outcomes(known) + memory,
        f"{known['slowest']:.1f} s",
    ]
    return f"| {' | '.join(cells)} | {known['date']}, {known['seed']} |"


def bad_of(known: Mapping[str, Any]) -> int:
    """Count the cases of a row that broke a rule."""
    return sum(count for outcome, count in known["outcomes"].items() if outcome.startswith(BAD))


def _outcomes(known: Mapping[str, Any]) -> str:
    counted: dict[str, int] = {}
    for outcome, count in known["outcomes"].items():
        word = outcome.partition(":")[0] if outcome.startswith("exception") else outcome
        counted[word] = counted.get(word, 0) + count
    return "; ".join(
        f"{outcome.replace('|', '/')} {count:,}" for outcome, count in sorted(counted.items())
    )
