"""`kcl tune`: run a program and tune its kernels at their first launches, or list what was measured."""

from __future__ import annotations

import gc
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kcl.base import settings
from kcl.choices.tuning import views
from kcl.cli import output
from kcl.integrations import runner

if TYPE_CHECKING:
    from kcl.choices.tuning.chooser import ByTable


@click.command(
    context_settings={"allow_interspersed_args": False},
    short_help="Tune a program's kernels.",
)
@click.option(
    "--level",
    type=click.IntRange(0, 2),
    default=1,
    help="1 (default): a short search; 2: all, if few.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    help="For each kernel and size: 60.",
)
@click.option(
    "--total", type=click.FloatRange(0, min_open=True), help="For the whole program: no limit."
)
@click.option(
    "--only", multiple=True, metavar="KERNEL", help="Tune this kernel; may be given often."
)
@output.flag("--again", help="Measure what was measured before.")
@output.flag("--anyway", help="Tune also under MPI or a batch scheduler.")
@output.flag("--list", "listed", help="Show what was measured, and what the last run chose.")
@click.option("-m", "module", metavar="MODULE", help="Run this module, as python -m does.")
@click.argument("program", nargs=-1, metavar="[PROGRAM] [ARGS]...")
def tune(
    listed: bool, module: str | None, program: tuple[str, ...], anyway: bool, **options: Any
) -> None:
    """Run a program, and tune its recipes that have a space: each at the first launch with other sizes.

    PROGRAM is a script, or a folder or an archive with a module `__main__`. What follows it is the program's. Each
    launch goes on with the fastest choice, which later runs find. What is tried is printed on stderr. Ctrl-C ends the
    program; what is known is kept, and the next `kcl tune` goes on with it.

    Exits with the status of the program; with 1 if a kernel could not be tuned, or none was launched that has a space;
    with 2 for a wrong use.
    """
    if listed:
        show()
        return
    words = (module, *program) if module else program
    if not words:
        raise click.UsageError(
            "name a program: kcl tune driver.py, or kcl tune -m package.module; or --list"
        )
    if settings.batch() and not anyway:
        raise click.UsageError(
            f"{settings.batch()} is set, and every rank would tune: run one process, or say --anyway"
        )
    from kcl.choices.tuning import chooser

    session = Session(**options)
    # `sys.exit` lets the outcomes so far be stored.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Python's default thresholds, since the program may run long.
    gc.set_threshold(700, 10, 10)
    chooser.tune_untuned(session.tune)
    runner.as_main("module" if module else "script", words[0], words[1:])
    session.end()


def show() -> None:
    """Print the tables, and what the last run decided."""
    for table in views.tables():
        click.echo("\n".join([*views.lines(table), ""]))
    decisions = views.decisions()
    click.echo("the last run:" if decisions else "the last run decided nothing")
    for decision in decisions:
        click.echo(f"  {decision}")


class Session:
    """The tunings of one program; they may take `total` seconds together, or without it any time."""

    def __init__(
        self, only: tuple[str, ...], seconds: float, total: float | None, **options: Any
    ) -> None:
        self._only, self._options, self._seconds = only, options, seconds
        self._left = total or float("inf")
        self._seen: set[str] = set()
        self._is_tuned = True

    def tune(self, kernel: ByTable, queue: Any, arguments: dict[str, Any]) -> None:
        """Tune a kernel before its launch; an error is printed, and the launch follows in any case."""
        self._seen.add(kernel.name)
        if self._only and kernel.name not in self._only:
            return
        if self._left <= 0:
            self._complain(f"{kernel.name} is not tuned: no time of --total is left")
            return
        from kcl.choices.tuning import chooser

        # Not while a recipe runs, which may itself launch a kernel.
        chooser.tune_untuned(None)
        began, seconds = time.monotonic(), min(self._seconds, self._left)
        try:
            options = {**self._options, "search": None, "tolerance": None, "anyway": True}
            tuning = kernel.tune(queue, arguments, seconds=seconds, **options)
            output.say(str(tuning), err=True)
            self._is_tuned = self._is_tuned and tuning.was_time
        except KeyboardInterrupt:
            self._stop()
        except Exception as error:
            self._complain(f"{kernel.name} is not tuned: {type(error).__name__}: {error}")
        finally:
            self._left -= time.monotonic() - began
            # The next launch with other sizes is tuned again.
            chooser.tune_untuned(self.tune)

    def end(self) -> None:
        """Exit with status 1 if a kernel was not launched or could not be tuned."""
        missing = [name for name in self._only if name not in self._seen]
        if missing or not self._seen:
            launched = f"; it launched {', '.join(sorted(self._seen))}" if self._seen else ""
            output.fail(
                f"the program launched no kernel {' and no '.join(missing) or 'with a space'}{launched}"
            )
        if not self._is_tuned:
            sys.exit(1)

    def _complain(self, words: str) -> None:
        self._is_tuned = False
        output.complain(words)

    def _stop(self) -> NoReturn:
        output.complain("stopped: what is known is kept, and the next `kcl tune` goes on with it")
        # If Ctrl-C has interrupted `exec` or `eval`, `python -m` would end by the signal; another `exec` prevents that.
        exec("")
        sys.exit(130)
