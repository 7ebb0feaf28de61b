"""The errors of kcl: one class per decision that a caller can take.

KclError
 +-- RecipeError        the recipe returned a value that no front end accepts: mend the recipe
 +-- CacheMiss          KCL_STRICT=hit and a look-up did not hit: read the reason, run once without it
 +-- CacheFault         a fault of the cache itself; reaches the user only under KCL_STRICT=fault
 |    +-- DamagedEntry        the bytes of an entry differ from the written ones
 |    +-- UnusableDirectory   a directory is missing, belongs to another user, or is writable by others
 +-- SettingError       KCL_STRICT has an unknown value, and a typo must not switch a check off: mend the variable
 +-- PrepareError       kcl.prepare could not make some of its kernels ready: the others are
 +-- UnknownInput       an input that decides a recipe's outcome is unknown: the look-up is bypassed
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


class KclError(Exception):
    """Base of every error that kcl raises itself.

    >>> issubclass(kcl.RecipeError, kcl.KclError), issubclass(kcl.CacheMiss, kcl.KclError)
    (True, True)
    """


class RecipeError(KclError, TypeError):
    """A recipe returned something that no front end accepts.

    >>> @kcl.kernel
    ... def wrong():
    ...     return 42
    >>> wrong()(queue)
    Traceback (most recent call last):
    kcl.errors.RecipeError: ...
    """


class CacheMiss(KclError):
    """A look-up did not hit although ``KCL_STRICT=hit`` demands it.

    >>> with kcl.option.cache_dir("/tmp/nothing-is-here"):
    ...     os.environ["KCL_STRICT"] = "hit"
    ...     doubled()(queue, x=x)
    Traceback (most recent call last):
    kcl.errors.CacheMiss: generator layer, kernel 'doubled': miss: not in the cache ...
    """


class CacheFault(KclError):
    """The cache failed; the run goes on from source unless ``KCL_STRICT=fault`` is set.

    >>> with kcl.option.cache_dir("/dev/null/cache"):
    ...     os.environ["KCL_STRICT"] = "fault"
    ...     doubled()(queue, x=x)
    Traceback (most recent call last):
    kcl.errors.UnusableDirectory: ...
    """


class DamagedEntry(CacheFault):
    """The bytes of an entry are torn or altered, or belong to another key or format.

    A look-up moves a damaged entry into the quarantine. Under ``KCL_STRICT=fault`` it raises this error.

    >>> issubclass(kcl.DamagedEntry, kcl.CacheFault)
    True
    """


class UnusableDirectory(CacheFault):
    """A cache directory cannot be used, or cannot be trusted.

    >>> os.mkdir("open")
    >>> os.chmod("open", 0o777)
    >>> with kcl.option.cache_dir(os.path.abspath("open")):
    ...     os.environ["KCL_STRICT"] = "fault"
    ...     doubled()(queue, x=x)
    Traceback (most recent call last):
    kcl.errors.UnusableDirectory: others can write ... (mode 0777), and a cache of code is code: chmod go-w ...
    """


class SettingError(KclError):
    """``KCL_STRICT`` has a value that is not understood: every look-up raises this, since a typo would hide all misses.

    >>> with kcl.option.cache_dir("/tmp/anywhere"):
    ...     os.environ["KCL_STRICT"] = "hits"
    ...     doubled()(queue, x=x)
    Traceback (most recent call last):
    kcl.errors.SettingError: KCL_STRICT: 'hits' is not one of hit, fault; write hit, fault or hit,fault
    """


class PrepareError(KclError):
    """`kcl.prepare` could not make some kernels ready; the others are.

    `errors` has a pair for each that failed: the kernel with its parameters, and its error. The first error is the
    cause of this one.

    >>> kcl.prepare([doubled(), doubled(factor="?")], context, processes=1)
    Traceback (most recent call last):
    kcl.errors.PrepareError: 1 of 2 kernels could not be prepared:
      doubled(factor='?'): ...
    """

    def __init__(self, total: int, errors: list[tuple[str, Exception]]) -> None:
        lines = [
            f"{kernel}: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            for kernel, error in errors
        ]
        super().__init__(
            "\n  ".join([f"{len(errors)} of {total} kernels could not be prepared:", *lines])
        )
        self.errors = errors


class UnknownInput(KclError):
    """Something that decides a recipe's outcome cannot be known before it runs.

    kcl handles it: the look-up is bypassed, and the event gives the reason.

    >>> issubclass(kcl.UnknownInput, kcl.KclError)
    True
    """


def meant(name: str, names: Iterable[str]) -> str:
    """Return the known names near a name, as a suggestion in brackets; empty if no name is near."""
    import difflib

    near = " or ".join(map(repr, difflib.get_close_matches(name, names, 2)))
    return f" (did you mean {near}?)" if near else ""


def refuse_unknown(names: Iterable[str], layers: Collection[str]) -> None:
    """Raise ValueError if one of the names is none of these layers or caches."""
    for name in names:
        if name not in layers:
            raise ValueError(
                f"{name!r} is no layer{meant(name, layers)}: take one of {', '.join(layers)}"
            )
