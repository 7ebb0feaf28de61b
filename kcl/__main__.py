"""`python -m kcl`, and the script `kcl`: the command line."""

import gc

# A command ends soon: looking for garbage while it imports and lists costs more than it frees.
gc.set_threshold(100_000)

try:
    from kcl.cli import main
except KeyboardInterrupt:  # a command that runs says the same
    raise SystemExit("\nAborted!") from None

if __name__ == "__main__":
    main()
