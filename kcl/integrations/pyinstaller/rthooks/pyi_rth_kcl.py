"""Runs at the start of a frozen application: if kcl started it as a helper process, it does only the helper's work."""

import sys

if sys.argv[1:2] == ["--kcl-helper"]:
    from kcl.drivers.pocl.helper import main

    # This call ends the process.
    main(sys.argv[2:])
sys._kcl_helper = "--kcl-helper"  # type: ignore[attr-defined]
