"""A small language of arrays with the names of pytato that kcl knows."""

from .array import *  # noqa: F403
from .target.loopy import generate_loopy

__all__ = ["generate_loopy"]
