"""Item: a kernel that is to be made ready, as `kcl.prepare` takes it, and the result of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcl.handle import Kernel, described


class PreparationItem(NamedTuple):
    """A kernel, and the values that a call would give: dtypes, types, arrays or scalars by name.

    `fault` is the reason why a worker could not prepare it; it is empty where no worker tried.
    """

    kernel: Kernel
    values: dict[str, Any]
    fault: str = ""

    @property
    def label(self) -> str:
        """The kernel with its parameters."""
        return described(self.kernel)


def item(one: Any) -> PreparationItem:
    """Return the item of an element of the list of `kcl.prepare`; raises TypeError for another element."""
    if isinstance(one, Kernel):
        return PreparationItem(one, {})
    if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], Kernel) and isinstance(one[1], Mapping):
        return PreparationItem(one[0], dict(one[1]))
    cure = f"; call it: {one.__name__}()" if callable(one) and hasattr(one, "__name__") else ""
    raise TypeError(f"kcl.prepare takes kernels, or pairs (kernel, {{name: dtype or array}}), not {one!r}{cure}")
