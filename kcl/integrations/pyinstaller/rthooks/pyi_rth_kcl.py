"""The start of a bundle with kcl: one that kcl started is the helper process, and runs no program of the user."""

import sys

if sys.argv[1:2] == ["--kcl-helper"]:
    from kcl.drivers.pocl.helper import main

    # The helper ends the process.
    main(sys.argv[2:])
sys._kcl_helper = "--kcl-helper"  # type: ignore[attr-defined]
