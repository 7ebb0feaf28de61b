"""Launch COUNT kernels of the family as a program does that imported loopy before it called `kcl.install()`.

python drive_heads.py attribute|names COUNT

`attribute`: functions are called as `lp.make_kernel(...)`. `names`: they were imported by name.
"""

from __future__ import annotations

import pathlib
import re
import sys
import types

import loopy as lp


def kernels(kind: str) -> types.ModuleType:
    """Return the module of the kernels with its imports of loopy at its head."""
    path = pathlib.Path(__file__).with_name("kernels.py")
    text = path.read_text(encoding="utf-8").replace("    import loopy as lp\n", "")
    module = types.ModuleType("kernels")
    sys.modules["kernels"] = module
    vars(module).update(__file__=str(path), lp=lp)
    if kind == "names":
        text = re.sub(r"\blp\.(\w+)\(", r"\1(", text)
        vars(module).update({name: getattr(lp, name) for name in dir(lp) if not name.startswith("_")})
    exec(compile(text, str(path), "exec"), vars(module))
    return module


def main() -> None:
    """Install kcl now that loopy is there, and run the driver."""
    kind, count = sys.argv[1:]
    kernels(kind)
    import kcl

    kcl.install()
    import drive_loopy

    sys.argv = ["drive_loopy.py", count]
    drive_loopy.main()


if __name__ == "__main__":
    main()
