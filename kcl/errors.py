"""The errors of kcl: one class per decision that a caller can take.

KclError
 +-- RecipeError        the recipe returned something that no front end accepts: mend the recipe
 +-- CacheMiss          KCL_STRICT=hit and a look-up did not hit: read the reason, run once without it
 +-- CacheFault         a fault of the cache itself; reaches the user only under KCL_STRICT=fault
 |    +-- DamagedEntry        the bytes of an entry are not what was written
 |    +-- UnusableDirectory   a directory is missing, not ours, or writable by others
 |    +-- WrongEntry          KCL_VERIFY found that an entry is not what its recipe or its source gives
 +-- UnknownInput       what decides a recipe's outcome cannot be known: the look-up is bypassed
"""

from __future__ import annotations


class KclError(Exception):
    """Base of every error that kcl raises itself."""


class RecipeError(KclError, TypeError):
    """A recipe returned something that no front end accepts."""


class CacheMiss(KclError):
    """A look-up did not hit although ``KCL_STRICT=hit`` demands it."""


class CacheFault(KclError):
    """The cache failed; the run goes on from source unless ``KCL_STRICT=fault`` is set."""


class DamagedEntry(CacheFault):
    """The bytes of an entry are torn, altered, of another key or of another format."""


class UnusableDirectory(CacheFault):
    """A cache directory cannot be used, or cannot be trusted."""


class WrongEntry(CacheFault):
    """What is stored, or was just generated, is not what the recipe generates or what the source computes."""


class UnknownInput(KclError):
    """Something that decides a recipe's outcome cannot be known before it runs."""
