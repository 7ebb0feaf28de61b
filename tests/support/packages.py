"""Installed packages that tests write, import, and change after their import."""

import importlib
import sys


def write_packages(folder, files, **required):
    """Write modules, and for each distribution the record of its modules and what it requires."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for name, others in required.items():
        modules = [file for file in files if file.partition("/")[0].partition(".")[0] == name]
        about = folder / f"{name}-1.dist-info"
        about.mkdir()
        (about / "RECORD").write_text("".join(f"{file},sha256=1,1\n" for file in modules))
        (about / "METADATA").write_text("".join(f"Requires-Dist: {one}\n" for one in others))


def import_again(*names):
    """Import modules anew."""
    for name in names:
        sys.modules.pop(name, None)
    return [importlib.import_module(name) for name in names]
