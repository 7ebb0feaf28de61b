"""Pairs of pure recipes: another file that decides the result is another key, and another place is not.

What a callable of loopy counts by is tried in `families/test_callables.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from reaching import Project

FAR = "def build():\n    from {} import VALUE\n    return VALUE\n"
FUNCTION = "def optional():\n    from gpu import thing\n    return thing\ndef f():\n    return 3\n"
# Files beside a recipe that imports one of them in its body; the file with a 3 is edited.
IMPORTED: dict[str, dict[str, str]] = {
    "two modules away": {
        "recipes": FAR.format("far"),
        "far": "from farther import VALUE\n",
        "farther": "VALUE = 3\n",
    },
    "by a star": {
        "recipes": FAR.format("far"),
        "far": "from farther import *\n",
        "farther": "VALUE = 3\n",
    },
    "package around the module": {
        "recipes": FAR.format("package.near"),
        "package/__init__": "import builtins\nbuiltins.ADDED = 3\n",
        "package/near": "VALUE = ADDED\n",
    },
    "folder without a package": {
        "recipes": FAR.format("folder.near"),
        "folder/near": "VALUE = 3\n",
    },
    "relative import in a try": {
        "recipes": FAR.format("package.near"),
        "package/__init__": "",
        "package/near": "try:\n    from .far import VALUE\nexcept ImportError:\n    VALUE = 0\n",
        "package/far": "VALUE = 3\n",
    },
    "import for its effect": {
        "recipes": "import near\ndef build():\n    import far\n    return near.TABLE\n",
        "near": "TABLE = []\n",
        "far": "import near\nnear.TABLE.append(3)\n",
    },
    "import that is not reached, and fails": {
        "recipes": "def build():\n    import helper\n    return helper.f()\n",
        "gpu/__init__": "raise RuntimeError('no GPU')\n",
        "gpu/thing": "",
        "helper": FUNCTION,
    },
}


@pytest.mark.parametrize("files", IMPORTED.values(), ids=IMPORTED)
def test_imported(tmp_path: Path, files: Mapping[str, str]) -> None:
    """A module that the body imports counts by its files, wherever it lies, and does not run for the key."""
    texts = {f"{name}.py": text for name, text in files.items()}
    edited = {name: text.replace("3", "4") for name, text in texts.items()}
    assert edited != texts
    keys = [
        Project(tmp_path / name, each).parts("", action="assert 'far' not in sys.modules")
        for name, each in (("before", texts), ("beside", texts), ("after", edited))
    ]
    assert keys[0] == keys[1] != keys[2]
