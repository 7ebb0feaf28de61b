"""A small project of real files whose recipe is keyed in real processes."""

import hashlib
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]

CHILD = """
import json, sys
sys.path.insert(0, {kcl!r})
sys.path.insert(0, {root!r})
{before}
import recipes
from kcl.frontends.loopy.callables.content import content
from kcl.frontends.pure import key_parts
from kcl.generate.declarations import RecipeCall
print(json.dumps({found}))
"""
PURE = 'key_parts(RecipeCall("build", recipes.build, dict({}), (), "1", pure=True))'


class Project:
    """Files in a directory, and the key of the pure recipe `build` of recipes.py in a process of its own."""

    def __init__(self, root: pathlib.Path, files: dict[str, str]) -> None:
        self.root = root
        for name, text in files.items():
            self.write(name, text)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def edit(self, name: str, before: str, after: str) -> None:
        text = (self.root / name).read_text()
        assert before in text, f"{before!r} is not in {name}"
        self.write(name, text.replace(before, after))

    def parts(self, arguments: str, before: str = "") -> dict[str, str]:
        """Return the parts of the key."""
        return self._printed(PURE.format(arguments), before)

    def content(self, value: str, before: str = "") -> dict[str, str]:
        """Return the parts that a value which an expression names leads to."""
        return self._printed(f"content({value}).parts", before)

    def _printed(self, found: str, before: str) -> dict[str, str]:
        places = {"kcl": str(ROOT), "root": str(self.root)}
        program = CHILD.format(found=found, before=before, **places)
        child = subprocess.run(
            [sys.executable, "-B", "-c", program], cwd=self.root, capture_output=True, text=True
        )
        assert child.returncode == 0, child.stderr
        parts = json.loads(child.stdout)
        assert len(dict(parts)) == len(parts), parts
        return dict(parts)


class Site:
    """A site-packages folder with one installed distribution."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root / "site-packages"
        self.root.mkdir(parents=True)

    def install(
        self, files: dict[str, str], name: str = "thing", version: str = "1.0", extra: str = ""
    ) -> None:
        """Write files and the record of them, as pip does."""
        lines = []
        for file, text in files.items():
            path = self.root / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            lines.append(f"{file},sha256={hashlib.sha256(text.encode()).hexdigest()},{len(text)}")
        info = f"{name}-{version}.dist-info"
        (self.root / info).mkdir(exist_ok=True)
        lines += [f"{info}/INSTALLER,sha256=abc,4", f"{info}/RECORD,,", *extra.splitlines()]
        (self.root / info / "RECORD").write_text("\n".join(lines) + "\n")

    @property
    def before(self) -> str:
        return f"sys.path.insert(1, {str(self.root)!r})"

    def content(self, project: Project, value: str = "recipes.thing.make") -> dict[str, str]:
        return project.content(value, before=self.before)
