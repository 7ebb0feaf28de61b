"""Units that are made through the face, for tests of what is recorded."""

import kcl.loopy as lp
from kcl.frontends.loopy import unmade

VERSION = {"lang_version": (2018, 2)}


def make(text="a[i] = i", **keywords):
    """Make a unit through the face."""
    return lp.make_kernel("{[i]: 0<=i<16}", text, **{**VERSION, **keywords})


def waits(value):
    """Tell whether nothing was carried out for a value."""
    record = unmade.record_of(value)
    return record is not None and not record.is_made
