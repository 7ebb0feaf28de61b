"""`python -m kcl`, and the script `kcl`: the command line."""

import sys


def main() -> None:
    """Run the command of the command line; running a program does without the imports of the other commands."""
    if sys.argv[1:2] == ["run"]:
        from kcl.integrations import runner

        if runner.main(sys.argv[2:]):
            return
    _command()


def _command() -> None:
    import gc

    # A command ends soon: garbage collection during its imports and listings costs more than it frees.
    gc.set_threshold(1_000_000)
    try:
        from kcl import cli
    except KeyboardInterrupt:
        # A running command prints the same words.
        raise SystemExit("\nAborted!") from None
    cli.main()


if __name__ == "__main__":
    main()
