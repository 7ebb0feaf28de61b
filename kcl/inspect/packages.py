"""The packages that generate and run kernels, for `kcl doctor`: their releases, their files, and what kcl lacks in them."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
from contextlib import suppress
from importlib import metadata

from kcl.base import settings
from kcl.generate import distributions
from kcl.generate.distributions import PackagePlace

# The releases that kcl's tests run with, by their first numbers.
TESTED = {
    "loopy": ("2025.2",),
    "pymbolic": ("2025.1",),
    "islpy": ("2025.2", "2026.2"),
    "pytools": ("2025.2", "2026.1"),
    "pyopencl": ("2024.3", "2025.1", "2025.2", "2026.1"),
}
WHEEL = "a wheel"
# The edited files that are named, at most.
_MOST = 3
_SECONDS = 60


def installed() -> dict[str, tuple[str, str]]:
    """Return the installed packages: name -> (version, description of its files)."""
    versions = {}
    for name in TESTED:
        if place := distributions.place_of(name):
            # A package on the path without a record of its installation has no version.
            owner = None
            with suppress(metadata.PackageNotFoundError):
                owner = metadata.distribution(name)
            versions[name] = (
                owner.version if owner else "unknown",
                _describe_files(name, place, owner),
            )
    return versions


def _describe_files(name: str, place: PackagePlace, owner: metadata.Distribution | None) -> str:
    """Say where the files of a package are from: a wheel, edited or not, a folder, or an archive."""
    folder = place.path
    if not os.path.exists(folder):
        return f"in the archive {place.directory}"
    files = [file for file in (owner and owner.files) or () if file.parts[0] == name]
    if os.path.join(folder, "__init__.py") not in {str(file.locate()) for file in files}:
        return f"{'editable in' if owner else 'of'} the folder {folder}"
    edited = [str(file) for file in files if not _is_as_recorded(file)]
    if not edited:
        return WHEEL
    more = f" and {len(edited) - _MOST} more" if len(edited) > _MOST else ""
    return f"{WHEEL} with edited files: {', '.join(edited[:_MOST])}{more}"


def _is_as_recorded(file: metadata.PackagePath) -> bool:
    """Return True if a file has the digest that was recorded at its installation, or if none was recorded."""
    if file.hash is None:
        return True
    try:
        digest = hashlib.new(file.hash.mode, file.read_binary()).digest()
    except OSError:
        return False
    return base64.urlsafe_b64encode(digest).decode().rstrip("=") == file.hash.value


def is_tested(name: str, version: str, kind: str) -> bool:
    """Return True if kcl's tests run with this release as it was published."""
    return kind == WHEEL and any(
        f"{version}.".startswith(f"{release}.") for release in TESTED[name]
    )


def faults(names: list[str]) -> list[str]:
    """Import packages with kcl in a new process; return kcl's warnings, or the error of the import."""
    code = f"import kcl; kcl.install(); import {', '.join(names)}"
    # The caches are off, because another check finds damaged ones.
    switches = {"LOOPY_NO_CACHE": "1", "PYOPENCL_NO_CACHE": "1", "KCL_STRICT": ""}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=settings.environment() | switches,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    lines = done.stderr.strip().splitlines()
    if done.returncode:
        return [f"the import fails: {lines[-1] if lines else done.returncode}"]
    return [words for line in lines if (words := line.partition("CacheWarning: ")[2])]
