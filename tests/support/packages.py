"""Installed packages that tests write, import, and change after their import."""

import base64
import hashlib
import importlib
import pathlib
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


def describe(site: pathlib.Path, name: str, version: str = "1.0") -> None:
    """Write what an installer writes beside a package or a module: its metadata, and a record of its files."""
    about = site / f"{name}-{version}.dist-info"
    about.mkdir(exist_ok=True)
    files = [site / f"{name}.py", *(site / name).rglob("*")]
    lines = [_recorded(path, site) for path in sorted(files) if path.is_file()]
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (about / "RECORD").write_text("\n".join([*lines, f"{about.name}/RECORD,,"]) + "\n")


def _recorded(path: pathlib.Path, site: pathlib.Path) -> str:
    content = path.read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return f"{path.relative_to(site)},sha256={digest},{len(content)}"
