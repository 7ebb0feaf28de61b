"""Imported by recipes alone, in their bodies."""

from truth import unseen_too

SHIFT = 10


def shifted(n):
    return n + SHIFT


def deeper():
    return unseen_too.VALUE
