"""Do what drive_kcl.py does, and say at the end which share of the processor time went into the remote.

python drive_writing.py COUNT
"""

from __future__ import annotations

import atexit
import importlib

import drive_kcl
from drive_recorded import say, timed

if __name__ == "__main__":
    atexit.register(say)
    ask = timed(importlib.import_module)("kcl.remote.ask")
    ask.before_a_miss = timed(ask.before_a_miss)
    ending = timed(importlib.import_module)("kcl.remote.ending")
    ending.at_exit = timed(ending.at_exit)
    drive_kcl.main()
