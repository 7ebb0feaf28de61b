"""`kcl run`: its arguments and its help. `kcl.integrations.runner` runs the program."""

from __future__ import annotations

import click


@click.command(
    context_settings={"allow_interspersed_args": False},
    short_help="Run a program warm.",
)
@click.option(
    "--off",
    multiple=True,
    metavar="LAYER",
    help="Switch this off, as kcl env does; may be given often, or be a list a,b.",
)
@click.option(
    "--strict",
    multiple=True,
    metavar="hit|fault",
    help="Raise at what is no hit, or at a fault of a cache.",
)
@click.option("--report", is_flag=True, help="Print the report as the program ends.")
@click.option("--explain", is_flag=True, help="Print what missed, and why, as the program ends.")
@click.option(
    "--fresh",
    is_flag=True,
    help="Use empty caches, of all layers, that are removed as the program ends.",
)
@click.option(
    "--trace", metavar="FILE", help="Add what took how long to FILE, for Perfetto or speedscope."
)
@click.option("-m", "module", metavar="MODULE", help="Run this module, as python -m does.")
@click.option("-c", "code", metavar="CODE", help="Run this text, as python -c does.")
@click.argument("program", nargs=-1, metavar="[PROGRAM] [ARGS]...")
def run(**_given: object) -> None:
    """Run a program that was not written for kcl: its kernels of pyopencl and loopy go through kcl's layers.

    PROGRAM is a script, a folder or an archive with a module `__main__`, or `-` for standard input. What follows it is
    the program's. It runs in this process as Python would run it; its children inherit kcl.

    Exits with the status of the program; with 2 for a wrong use.
    """
    # `kcl.__main__` handles a command line that names a program, so none was named here.
    raise click.UsageError(
        "name a program: kcl run driver.py, kcl run -m package.module, or kcl run -c CODE"
    )
