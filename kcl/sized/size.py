"""What a recipe may ask of one size of a call, and the values that it has seen."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from typing import Any

from kcl.base import process, settings
from kcl.cache import layers, places
from kcl.cache.key import Key, Part
from kcl.cache.run_memo import RunMemo
from kcl.record import face

MULTIPLES = (64, 16, 4)
LARGEST = 4096  # no larger value is fixed
_HAS = "a kcl.Size has `multiple`, `fixed` and `assume(knl)` only"


class Size:
    """What a recipe may ask of one size of a call; what it does not ask makes no variant.

    >>> @kcl.kernel(sizes={"n": "x.shape[0]"})
    ... def tripled(n: kcl.Size):
    ...     import loopy as lp
    ...     knl = n.assume(lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 3*x[i]", lang_version=(2018, 2)))
    ...     return lp.split_iname(knl, "i", 16, inner_tag="unr")
    >>> event, (y,) = tripled()(queue, x=np.ones(32))
    >>> y.sum().item()
    96.0
    """

    __slots__ = ("_answers", "_name", "_value", "_values")

    def __init__(self, name: str, value: int, values: Values) -> None:
        self._name = name
        self._value = value  # 0: nothing is known
        self._values = values
        self._answers: dict[str, int | None] = {}

    @property
    def multiple(self) -> int:
        """The largest of 1, 4, 16 and 64 that divides the size."""
        answer = self._answers["multiple"] = multiple_of(self._value)
        return answer

    @property
    def fixed(self) -> int | None:
        """The value, if the recipe has seen few values of this size; else None."""
        if "fixed" not in self._answers:
            self._answers["fixed"] = self._values.fixed(self._name, self._value)
        return self._answers["fixed"]

    def assume(self, knl: Any) -> Any:
        """Return the unit with the assumption that holds for this size, for loopy's parameter of the same name.

        >>> @kcl.kernel(sizes={"n": "x.shape[0]"})
        ... def same(n):
        ...     import loopy as lp
        ...     return n.assume(lp.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]", lang_version=(2018, 2)))
        >>> same().explain(queue, n=48).splitlines()[-1]
        '  sizes: n = 48: multiple 16'
        """
        if self.multiple == 1:
            return knl
        return face.call("assume", (knl, f"{self._name} mod {self.multiple} = 0"), {})

    def _refuse(self, *_given: Any) -> Any:
        raise TypeError(
            f"{_HAS}: {self._name} is not the number itself, so that one variant serves many sizes"
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = __bool__ = __str__ = (
        __repr__
    ) = _refuse
    __format__ = __int__ = __index__ = __float__ = __iter__ = __len__ = __reduce_ex__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = __pow__ = __rpow__ = (
        _refuse
    )
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __call__ = (
        _refuse
    )

    def __getattr__(self, _name: str) -> Any:
        return self._refuse()

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in Size.__slots__:
            self._refuse()
        object.__setattr__(self, name, value)


def answers(size: Size, value: int) -> bool:
    """Return True if a size would answer for another value as it did for its own."""
    given = size._answers
    if given.get("multiple", 1) != (multiple_of(value) if "multiple" in given else 1):
        return False
    fixed = given.get("fixed", value)
    return fixed == value or (fixed is None and size._values.is_general(size._name, value))


def said(size: Size, value: int) -> str:
    """Describe what the recipe was told of a value."""
    given = size._answers
    words = [f"multiple {given['multiple']}"] if "multiple" in given else []
    if "fixed" in given:
        words.append(
            f"fixed, one of at most {size._values.most}" if given["fixed"] else "not fixed"
        )
    return f"{size._name} = {value or 'any'}: {', '.join(words) or 'not asked'}"


def multiple_of(value: int) -> int:
    """Return the largest of 1, 4, 16 and 64 that divides a number; 1 for 0."""
    return next((one for one in MULTIPLES if value and value % one == 0), 1)


class Values:
    """The values that a recipe has seen of each size of which it asks `fixed`; a memo has them for later runs.

    The memo belongs to module, name and sizes of the recipe: two projects that share these lose a variant at most.
    """

    def __init__(self, key: Key, most: int) -> None:
        self._key = key
        self.most = 0 if settings.SHAPES in settings.read().no_cache else most
        self._lock = threading.Lock()
        self._values: dict[str, list[int]] | None = None

    def fixed(self, name: str, value: int) -> int | None:
        """Return the value if it is one of few; a new value counts from now on."""
        if not 0 < value <= LARGEST or not self.most:
            return None
        with self._lock:
            values = self._read()
            seen = values.setdefault(name, [])
            if value not in seen and len(seen) <= self.most:
                seen.append(value)
                if _remembers():
                    RunMemo(places.SHAPES, self._key).write(values)
            return value if len(seen) <= self.most else None

    def is_general(self, name: str, value: int) -> bool:
        """Return True if the size is not fixed for this value; the value does not count."""
        if not 0 < value <= LARGEST or not self.most:
            return True
        with self._lock:
            seen = self._read().get(name, [])
        return len({*seen, value}) > self.most

    def _read(self) -> dict[str, list[int]]:
        if self._values is None:
            left = RunMemo(places.SHAPES, self._key).read() if _remembers() else {}
            self._values = {
                name: [one for one in seen if type(one) is int]
                for name, seen in left.items()
                if type(seen) is list
            }
        return self._values


class State:
    """What is known of each recipe, by the digest of its key."""

    def __init__(self) -> None:
        self.values: dict[str, Values] = {}


_state = process.own(State)


def values_of(function: Any, names: Iterable[str], most: int) -> Values:
    """Return what is known of the sizes of a recipe, in this process and by earlier runs."""
    module = function.__module__ or ""
    if module == "__main__":
        module = os.path.basename(getattr(sys.modules.get("__main__"), "__file__", None) or "")
    key = Key(
        [
            Part("module", module),
            Part("recipe", function.__qualname__),
            *(Part("size", one) for one in names),
        ]
    )
    return _state().values.setdefault(f"{key.digest} {most}", Values(key, most))


def _remembers() -> bool:
    """Return True if a layer is on: else nothing of kcl is opened or written."""
    return not (layers.generator().off() and layers.binary().off())
