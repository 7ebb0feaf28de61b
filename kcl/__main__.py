"""`python -m kcl`, and the script `kcl`: the command line."""

import sys


def main() -> None:
    """Run the command line. `kcl run` is handled first, without importing the other commands."""
    if sys.argv[1:2] == ["run"]:
        from kcl.integrations import runner

        if runner.main(sys.argv[2:]):
            return
    _command()


def _command() -> None:
    import gc

    # A command ends soon, so garbage collection costs more than it frees.
    gc.set_threshold(1_000_000)
    try:
        from kcl import cli
    except KeyboardInterrupt:
        # The same words as an interrupt of a running command prints.
        raise SystemExit("\nAborted!") from None
    cli.main()


if __name__ == "__main__":
    main()
