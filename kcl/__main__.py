"""`python -m kcl`, and the script `kcl`: the command line."""

import sys


def main() -> None:
    """Do what the command line asks for; a program is run without what the other commands import."""
    if sys.argv[1:2] == ["run"]:
        from kcl.integrations import runner

        if runner.main(sys.argv[2:]):
            return
    _command()


def _command() -> None:
    import gc

    # A command ends soon: looking for garbage while it imports and lists costs more than it frees.
    gc.set_threshold(1_000_000)
    try:
        from kcl import cli
    except KeyboardInterrupt:  # a command that runs says the same
        raise SystemExit("\nAborted!") from None
    cli.main()


if __name__ == "__main__":
    main()
