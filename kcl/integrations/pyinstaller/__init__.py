"""PyInstaller: it finds these hooks by an entry point of kcl's wheel, and makes bundles in which kcl works."""

import os


def folders() -> list[str]:
    """Return the folders of the hooks."""
    return [os.path.dirname(__file__)]
