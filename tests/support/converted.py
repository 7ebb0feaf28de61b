"""Run the programs of examples/converted in one process; print as JSON what each printed, and whether loopy came along.

python converted.py FOLDER/PROGRAM...
"""

import contextlib
import io
import json
import pathlib
import runpy
import sys

import kcl
from kcl import integrations

PROGRAMS = pathlib.Path(__file__).parents[2] / "examples" / "converted"


def printed(name: str) -> str:
    """Run a program as the main module; returns what it printed. Where it installed kcl, it is uninstalled."""
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            runpy.run_path(str(PROGRAMS / f"{name}.py"), run_name="__main__")
    finally:
        if integrations.is_installed():
            kcl.uninstall()
    return output.getvalue()


def main() -> None:
    """Run what the command line names."""
    seen = {}
    for name in sys.argv[1:]:
        seen[name] = {"printed": printed(name), "loopy": "loopy" in sys.modules}
    kcl.flush()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
