"""`Size`, by which a recipe asks about one size of a call; and the values seen so far, for `fixed="auto"`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kcl.base import computed_once, process, settings
from kcl.cache import layers
from kcl.cache.key import Key, Part
from kcl.cache.run_memo import RunMemo

MULTIPLES = (64, 16, 4)
LARGEST = 4096  # `fixed="auto"` fixes no larger value
_HAS = "a kcl.Size has `multiple`, `fixed` and `assume(knl)` only"


class Size:
    """One size of a call, as a recipe gets it. Only the questions that the recipe asks distinguish variants.

    >>> @kcl.kernel(sizes={"n": "x.shape[0]"})
    ... def tripled(n: kcl.Size):
    ...     import loopy as lp
    ...     knl = n.assume(lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 3*x[i]", lang_version=(2018, 2)))
    ...     return lp.split_iname(knl, "i", 16, inner_tag="unr")
    >>> event, (y,) = tripled()(queue, x=np.ones(32))
    >>> y.sum().item()
    96.0
    """

    __slots__ = ("_answers", "_name", "_rule", "_value")

    def __init__(self, name: str, value: int, rule: int | Values) -> None:
        self._name = name
        self._value = value  # 0 if it is unknown
        self._rule = rule  # the largest value that is fixed, or with "auto" the values seen so far
        self._answers: dict[str, int | None] = {}

    @property
    def multiple(self) -> int:
        """The largest of 1, 4, 16 and 64 that divides the size."""
        answer = self._answers["multiple"] = find_multiple(self._value)
        return answer

    @property
    def fixed(self) -> int | None:
        """The value if it is small enough to be a constant, else None: see `kcl.sizes`."""
        if "fixed" not in self._answers:
            self._answers["fixed"] = _fixed(self, self._value, counts=True)
        return self._answers["fixed"]

    def assume(self, knl: Any) -> Any:
        """Return the unit with the assumption that this size is a multiple of `multiple`; the parameter has its name.

        >>> @kcl.kernel(sizes={"n": "x.shape[0]"})
        ... def same(n):
        ...     import loopy as lp
        ...     return n.assume(lp.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]", lang_version=(2018, 2)))
        >>> same().explain(queue, n=48).splitlines()[-1]
        '  sizes: n = 48: multiple 16'
        """
        if self.multiple == 1:
            return knl
        # Imported late, since only recipes for loopy need the face.
        from kcl.frontends.loopy import face

        return face.call("assume", (knl, f"{self._name} mod {self.multiple} = 0"), {})

    def _refuse(self, *_given: Any) -> Any:
        raise TypeError(
            f"{_HAS}: {self._name} is not the number itself, so that one variant serves many sizes"
        )

    def __getattr__(self, _name: str) -> Any:
        return self._refuse()

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in Size.__slots__:
            self._refuse()
        object.__setattr__(self, name, value)


# Set on the class, since Python looks operators up there, without `__getattr__`.
_REFUSED = """eq ne lt le gt ge hash bool str repr format int index float iter len call reduce_ex
    add radd sub rsub mul rmul neg pow rpow truediv rtruediv floordiv rfloordiv mod rmod"""
for _name in _REFUSED.split():
    setattr(Size, f"__{_name}__", Size._refuse)


def answers(size: Size, value: int, has_run: bool = True) -> bool:
    """Return True if all answers that a recipe got from a size would be the same for another value.

    Until the recipe `has_run` this is only known for the size's own value, since the recipe may still ask anything.
    """
    if value == size._value or not has_run:
        return value == size._value
    multiple = find_multiple(value)
    if size._answers.get("multiple", multiple) != multiple:
        return False
    fixed = size._answers.get("fixed", value)
    return fixed == value or (fixed is None and _fixed(size, value) is None)


def describe(size: Size, value: int) -> str:
    """Describe the answers that the recipe got about a value."""
    replies = size._answers
    words = [f"multiple {replies['multiple']}"] if "multiple" in replies else []
    if "fixed" in replies:
        rule = size._rule
        few = f"one of at most {rule.most}" if isinstance(rule, Values) else f"at most {rule}"
        words.append(f"fixed, {few}" if replies["fixed"] else "not fixed")
    return f"{size._name} = {value or 'any'}: {', '.join(words) or 'not asked'}"


def find_multiple(value: int) -> int:
    """Return the largest of 1, 4, 16 and 64 that divides a number; 1 for 0."""
    return next((multiple for multiple in MULTIPLES if value and value % multiple == 0), 1)


def _fixed(size: Size, value: int, counts: bool = False) -> int | None:
    """Return the value if the rule fixes it, else None. With `counts` it is added to the values seen, for "auto"."""
    if isinstance(size._rule, Values):
        return size._rule.fixed(size._name, value, counts)
    return value if 0 < value <= size._rule else None


class Values(process.LockedState):
    """The values of each size that calls of a recipe had, for `fixed="auto"`; a run memo keeps them for later runs.

    The memo is found by module, name and sizes of the recipe. Two projects that share these lose at most a variant.
    """

    def __init__(self, key: Key, most: int) -> None:
        super().__init__()
        self._key = key
        self.most = most

    def fixed(self, name: str, value: int, counts: bool) -> int | None:
        """Return the value if the size had few values so far, else None; with `counts` it is added to them.

        With `KCL_NO_CACHE=1` or `shapes` nothing is fixed, read or written.
        """
        off = layers.generator().off() and layers.binary().off()
        if off or settings.SHAPES in settings.read().no_cache or not 0 < value <= LARGEST:
            return None
        with self.lock:
            seen = self._values.setdefault(name, [])
            # One value more than `most` is kept, which shows that there are too many.
            if counts and value not in seen and len(seen) <= self.most > 0:
                seen.append(value)
                RunMemo(self._key).write(self._values)
            return value if len({*seen, value}) <= self.most else None

    @computed_once
    def _values(self) -> dict[str, list[int]]:
        # Types are checked, since a memo comes from a file.
        return {
            name: [value for value in seen if type(value) is int]
            for name, seen in RunMemo(self._key).read().items()
            if type(seen) is list
        }


class SeenSizes:
    """Recipe, by the digest of its key, -> the values of its sizes."""

    def __init__(self) -> None:
        self.values: dict[str, Values] = {}


_state = process.own(SeenSizes)


def find_values(function: Any, names: Iterable[str], most: int) -> Values:
    """Return the values of a recipe's sizes so far, in this process and in earlier runs."""
    module = function.__module__
    # The module of each program is `__main__`, so the program's name is used instead.
    place = f"{settings.driver_name() if module == '__main__' else module} {function.__qualname__}"
    key = Key([Part("recipe", place), *(Part("size", name) for name in names)])
    return _state().values.setdefault(f"{key.digest} {most}", Values(key, most))
