"""Packages as an installer leaves them."""

import base64
import hashlib
import pathlib


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
