"""The page of what `make compat` found, and its summary: tables of the records that the runs left."""

from __future__ import annotations

import collections
import pathlib
import platform
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any

Records = dict[str, dict[str, dict[str, dict[str, Any]]]]  # suite -> run -> test -> record

BEGIN, END = "<!-- made by make compat: begin -->", "<!-- made by make compat: end -->"
VERSIONS = ("kcl", "loopy", "pyopencl", "islpy", "pymbolic", "pytools", "numpy", "pocl-binary-distribution", "pytest")
LAUNCHES = {"__call__", "executor"}
PRINTS = {"__str__", "__repr__"}
CODE = {"generate_code", "generate_code_v2", "generate_header", "generate_body"}
SHOWN = 40
KEPT_FROM = ("bypass", "error")  # outcomes of look-ups that import loopy in every run

# What a test asks, from the least to the most; a test is what the last of these says that holds.
CATEGORIES = {
    "launch": "only make, transform and launch",
    "compare": "the same, and `lp.auto_test_vs_ref`",
    "code": "the same, and read generated code",
    "print": "the same, and print a unit",
    "error": "the same, and expect an error",
    "inside": "look inside a unit, or use loopy's modules",
    "none": "make no unit",
}
PASSING = ("passed", "xfailed", "skipped")


def summary(found: Records) -> str:
    """Return the page's tables as they are, for a terminal."""
    return "\n".join(tables(found))


def write(page: pathlib.Path, found: Records) -> None:
    """Put the tables between the two marks of the page."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    lines = "\n".join([BEGIN, "", *versions(), "", *tables(found), "", END])
    page.write_text(before + lines + after, encoding="utf-8")


def broken(found: Records) -> list[str]:
    """Name the tests that pass without kcl and not with it."""
    return [line for runs in found.values() for line in broken_of(runs)]


def broken_of(runs: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    lines = []
    for run in ("first", "second"):
        for test, record in runs.get(run, {}).items():
            if passes_without(runs, test) and not passes(record):
                lines.append(f"`{test}`, {run} run: {record['outcome']}: {error(record)}")
    return lines


def passes(record: dict[str, Any] | None) -> bool:
    """Tell whether a test ended as its author wants."""
    return record is not None and record["outcome"] in PASSING


def passes_without(runs: dict[str, dict[str, dict[str, Any]]], test: str) -> bool:
    """Tell whether a test passes without kcl, under both seeds where both runs are there."""
    there = [runs[run][test] for run in ("asked", "without") if test in runs.get(run, {})]
    return bool(there) and all(map(passes, there))


def versions() -> list[str]:
    """Say what ran."""
    named = [f"{name} {metadata.version(name)}" for name in VERSIONS if installed(name)]
    return [f"Python {platform.python_version()}, {', '.join(named)}; {device()}."]


def installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def device() -> str:
    """Name the OpenCL device that the suites run on."""
    import pyopencl as cl

    return str(cl.get_platforms()[0].get_devices()[0].platform.version).strip()


def tables(found: Records) -> Iterator[str]:
    """Write all tables and lists."""
    yield from ["### Tests that pass", "", *counts(found), ""]
    yield from listed("These pass without kcl and fail with it:", prefixed(found, broken_of))
    yield from listed("These fail without kcl:", prefixed(found, failing_without))
    yield from ["### Tests that do not import loopy in the second run", "", *shares(found), ""]
    yield from ["### What made loopy be imported", "", *makers(found)]


def prefixed(found: Records, lines: Any) -> list[str]:
    return [f"{suite}: {line}" for suite, runs in found.items() for line in lines(runs)]


def failing_without(runs: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    records = {
        **runs.get("asked", {}),
        **{test: one for test, one in runs.get("without", {}).items() if not passes(one)},
    }
    return [f"`{test}`: {error(record)}" for test, record in records.items() if not passes(record)]


def error(record: dict[str, Any]) -> str:
    """Return what a test failed with, without paths of this machine or characters that mean something on the page."""
    said = re.sub(r"/\S*/", "", record.get("error", ""))[:160]
    return f"`{said.replace('`', chr(39))}`" if said else ""


def listed(title: str, lines: list[str]) -> Iterator[str]:
    """Write a list; say so where it is empty."""
    yield from [title, "", *(f"- {line}" for line in lines or ["none"]), ""]


def counts(found: Records) -> Iterator[str]:
    """Count what passes in each run; seconds without kcl leave out importing loopy, which comes before the tests."""
    yield from head("suite", "tests", "without kcl", "first run", "second run", "s without", "s first", "s second")
    for suite, runs in found.items():
        passed = [
            sum(map(passes, runs.get(run, {}).values())) if run in runs else "-"
            for run in ("without", "first", "second")
        ]
        seconds = [
            f"{sum(one['seconds'] for one in runs[run].values()):.0f}" if run in runs else "-"
            for run in ("without", "first", "second")
        ]
        yield row(suite, max(map(len, runs.values())), *passed, *seconds)


def shares(found: Records) -> Iterator[str]:
    """Count the tests that pass without kcl, by what they ask, and those of them that leave loopy alone."""
    yield from head("what the tests do", "tests", "pass in the second run", "do not import loopy", "share")
    rows: dict[str, list[tuple[bool, bool]]] = collections.defaultdict(list)
    for runs in alone(found):
        for test, record in runs.get("asked", {}).items():
            if record["outcome"] == "passed" and test in runs.get("second", {}):
                second = runs["second"][test]
                rows[category(record["asked"])].append((passes(second), second["loopy"] is False))
    for name, words in CATEGORIES.items():
        if name in rows:
            tests, passed, without = (
                len(rows[name]),
                sum(one for one, _ in rows[name]),
                sum(both[1] for both in rows[name]),
            )
            yield row(words, tests, passed, without, f"{without / tests:.0%}")


def alone(found: Records) -> list[dict[str, dict[str, dict[str, Any]]]]:
    """Return the suites whose tests have processes of their own: the tutorial's blocks share one."""
    return [runs for suite, runs in found.items() if suite != "tutorial"]


def category(asked: Iterable[tuple[str, str, int]]) -> str:
    """Return what a test does, by its most demanding question."""
    kinds = {one_category(kind, name) for kind, name, _ in asked}
    if not kinds & {"made"}:
        return "none"
    ranked = [name for name in CATEGORIES if name in kinds]
    return ranked[-1] if ranked else "launch"


def one_category(kind: str, name: str) -> str:
    if kind in ("make", "transform", "other"):
        return {"make": "made"}.get(kind, "launch")
    if kind == "unit":
        return "launch" if name in LAUNCHES else "print" if name in PRINTS else "inside"
    if kind == "question":
        return "compare" if name == "auto_test_vs_ref" else "code" if name in CODE else "inside"
    return "error" if kind == "raises" else "inside"


def makers(found: Records) -> Iterator[str]:
    """Count the tests of the second run that import loopy, by what it was for."""
    tests: dict[str, list[str]] = collections.defaultdict(list)
    for runs in alone(found):
        for test, record in runs.get("second", {}).items():
            if record["loopy"] and passes_without(runs, test):
                for question in questions(record):
                    tests[question].append(test)
    yield from head("for", "tests", "one of them")
    ranked = sorted(tests.items(), key=lambda item: (-len(item[1]), item[0]))
    for question, names in ranked[:SHOWN]:
        yield row(question, len(names), f"`{names[0]}`")
    if ranked[SHOWN:]:
        yield row(f"{len(ranked) - SHOWN} others", sum(len(names) for _, names in ranked[SHOWN:]), "")


def questions(record: dict[str, Any]) -> set[str]:
    """Return what kcl says that units were made for, or else the line that imports loopy."""
    if record["made"]:
        return {f"`{question.split(' of ')[0].split(':')[0]}`" for question, _, _ in record["made"]}
    reasons = {reason.split("; ")[0] for _, outcome, reason, _ in record.get("reasons", ()) if outcome in KEPT_FROM}
    if reasons:
        return {f"a look-up: {reason[:100]}" for reason in reasons}
    line = record["by"].get("line", "")
    return {f"the line `{line[:60]}`" if line else "nothing that was seen"}


def head(*titles: str) -> Iterator[str]:
    yield from [row(*titles), row(*["---"] * len(titles))]


def row(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
