"""`python -m kcl`: the command line."""

from kcl.cli import main

main()
