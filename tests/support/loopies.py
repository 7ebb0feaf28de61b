"""loopy in the places where people have it: a wheel, an editable install, a checkout on the path, an archive."""

import importlib.util
import os
import pathlib
import shutil
import zipfile

EXPRESSION = "loopy/target/c/codegen/expression.py"
PLACES = ("wheel", "editable", "checkout", "archive")


class Loopy:
    """A copy of the loopy that is installed here, in one of `PLACES`; `path` is for `PYTHONPATH`."""

    def __init__(self, root: pathlib.Path, place: str) -> None:
        spec = importlib.util.find_spec("loopy")
        assert spec is not None
        assert spec.origin is not None
        installed = pathlib.Path(spec.origin).parents[1]
        (info,) = installed.glob("loopy-*.dist-info")
        site, source = root / "site-packages", root / "source"
        holder = site if place == "wheel" else source
        shutil.copytree(installed / "loopy", holder / "loopy")
        self.folder = holder
        paths = [holder]
        if place == "wheel":
            shutil.copytree(info, site / info.name)
        elif place == "editable":
            (site / info.name).mkdir(parents=True)
            shutil.copy(info / "METADATA", site / info.name)
            record = f"__editable__.loopy.pth,sha256=x,9\n{info.name}/RECORD,,\n"
            (site / info.name / "RECORD").write_text(record)
            paths.append(site)
        elif place == "archive":
            paths = [root / "modules.zip"]
            with zipfile.ZipFile(paths[0], "w") as archive:
                for file in sorted(source.rglob("*.py")):
                    archive.write(file, file.relative_to(source))
        self.path = os.pathsep.join(map(str, paths))

    def edit(self, before: str, after: str, file: str = EXPRESSION) -> None:
        """Replace a text in a file of loopy, as an editor does."""
        path = self.folder / file
        text = path.read_text()
        assert before in text, f"{before!r} is not in {file}"
        path.write_text(text.replace(before, after))
