"""Units that are made through the face, for tests of what is recorded."""

import kcl.loopy as lp
from kcl.frontends.loopy import unmade

VERSION = {"lang_version": (2018, 2)}


def make(text="a[i] = i", module=lp, **keywords):
    """Make a unit through the face, or by loopy itself."""
    return module.make_kernel("{[i]: 0<=i<16}", text, **{**VERSION, **keywords})


def waits(value):
    """Return True if nothing was carried out for a value."""
    record = unmade.record_of(value)
    return record is not None and not record.is_made


def thing(name):
    """Return what stands for a thing of loopy's where loopy is not imported yet."""
    return unmade.member(name) if "." in name else unmade.kind_of(name)
