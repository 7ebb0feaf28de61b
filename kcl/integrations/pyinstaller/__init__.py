"""Hooks for PyInstaller, which finds them by an entry point of kcl's wheel, so that kcl works in frozen applications."""

import os


def folders() -> list[str]:
    """Return the folders of the hooks."""
    return [os.path.dirname(__file__)]
