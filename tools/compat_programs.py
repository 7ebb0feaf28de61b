"""Run programs, each in a process of its own, or the blocks of a page in one: one JSON line for each.

python tools/compat_programs.py --compat-out=FILE --compat-timeout=N --compat-limit=N [--compat-ask] PROGRAM ...
"""

from __future__ import annotations

import argparse
import atexit
import doctest
import json
import pathlib
import runpy
import signal
import subprocess
import sys
import time
from typing import Any

import compat_watch


def main() -> None:
    options = parsed()
    if options.one:
        one(pathlib.Path(options.programs[0]), pathlib.Path(options.compat_out), options.compat_ask)
        return
    out = pathlib.Path(options.compat_out)
    done = {json.loads(line)["test"] for line in out.read_text().splitlines()} if out.exists() else set()
    for program in map(pathlib.Path, options.programs[: options.compat_limit or None]):
        if (program.suffix == ".rst" and done) or program.name in done:
            continue
        for record in carried_out(program, options):
            print(f"{record['test']}: {record['outcome']}, {record['seconds']} s", flush=True)
            with out.open("a") as file:
                file.write(json.dumps(record) + "\n")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--compat-out", required=True)
    parser.add_argument("--compat-timeout", type=float, default=120.0)
    parser.add_argument("--compat-limit", type=int, default=0)
    parser.add_argument("--compat-ask", action="store_true")
    parser.add_argument("--one", action="store_true", help="this is the child")
    parser.add_argument("programs", nargs="+")
    return parser.parse_args()


def carried_out(program: pathlib.Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run one program or page in a child; return its records."""
    note = pathlib.Path(options.compat_out).with_suffix(".child")
    note.unlink(missing_ok=True)
    asking = ["--compat-ask"] if options.compat_ask else []
    command = [sys.executable, __file__, "--one", f"--compat-out={note}", *asking, str(program)]
    begun, text = time.monotonic(), ""
    limit = options.compat_timeout * (10 if program.suffix == ".rst" else 1)
    try:
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, **pipes, text=True, errors="replace", timeout=limit)
        text, how = done.stdout, ended(done.returncode)
    except subprocess.TimeoutExpired:
        how = "timeout"
    seconds = round(time.monotonic() - begun, 3)
    found = json.loads(note.read_text()) if note.exists() else {"loopy": None, "by": {}, "made": []}
    note.unlink(missing_ok=True)
    if "blocks" in found:
        return found["blocks"]
    error = {} if how == "passed" else {"error": ([how, *text.strip().splitlines()])[-1][:300], "trace": text[-4000:]}
    return [{"test": program.name, "outcome": how, "seconds": seconds, **error, **found, "output": text[-4000:]}]


def ended(status: int) -> str:
    if status < 0:
        return f"crashed ({signal.Signals(-status).name})"
    return "failed" if status else "passed"


def one(program: pathlib.Path, note: pathlib.Path, asking: bool) -> None:
    """Be the child: run a program, or the blocks of a page."""
    watch = compat_watch.install()
    if asking:
        compat_watch.ask()
    if "/face/" in str(program):
        import kcl  # noqa: F401

        compat_watch.hear()
    blocks: list[dict[str, Any]] = []

    def write() -> None:
        found = {"loopy": "loopy" in sys.modules, "by": watch.found(), "made": compat_watch.made()}
        found |= {"events": compat_watch.events(), "reasons": compat_watch.reason_rows()}
        found |= {"asked": compat_watch.asked_rows()} if asking else {}
        note.write_text(json.dumps({"blocks": blocks} if blocks else found))

    atexit.register(write)  # before anybody else: runs last
    sys.argv = [str(program)]
    if program.suffix == ".rst":
        run_page(program, watch, blocks, asking)
    else:
        runpy.run_path(str(program), run_name="__main__")


def run_page(page: pathlib.Path, watch: compat_watch.ImportWatch, blocks: list[dict[str, Any]], asking: bool) -> None:
    """Run the blocks of a page one after the other, as sphinx's doctest builder compares them."""
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL | doctest.DONT_ACCEPT_TRUE_FOR_1
    test = doctest.DocTestParser().get_doctest(page.read_text(encoding="utf-8"), {}, page.name, str(page), 0)
    state: dict[str, Any] = {"loopy": "loopy" in sys.modules, "asked": {}}

    def record(example: doctest.Example, outcome: str, said: str) -> None:
        before, state["loopy"] = state["loopy"], "loopy" in sys.modules
        first = state["loopy"] and not before
        row = {
            "test": f"line {example.lineno + 1}",
            "outcome": outcome,
            "seconds": round(time.monotonic() - state["begun"], 3),
        }
        row |= {
            "loopy": state["loopy"],
            "first": first,
            "by": watch.found() if first else {},
            "made": compat_watch.made(),
        }
        if asking:
            row["asked"] = compat_watch.asked_rows()
            compat_watch.asked.clear()
        if outcome != "passed":
            row |= {
                "error": (said.strip().splitlines() or [""])[-1][:300],
                "trace": f">>> {example.source}{said}"[-4000:],
            }
        blocks.append(row)

    class Runner(doctest.DocTestRunner):
        def report_start(self, *_: Any) -> None:
            state["begun"] = time.monotonic()

        def report_success(self, _out: Any, _test: Any, example: Any, got: str) -> None:
            record(example, "passed", got)

        def report_failure(self, _out: Any, _test: Any, example: Any, got: str) -> None:
            record(example, "failed", got)

        def report_unexpected_exception(self, _out: Any, _test: Any, example: Any, exc_info: Any) -> None:
            record(example, "failed", "".join(doctest._exception_traceback(exc_info)))  # type: ignore[attr-defined]

    Runner(verbose=False, optionflags=flags).run(test, out=lambda _text: None, clear_globs=False)


if __name__ == "__main__":
    main()
