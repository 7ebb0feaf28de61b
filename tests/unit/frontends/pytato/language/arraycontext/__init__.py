"""A context whose method transforms units, and a persistent dictionary of its own, as real ones have."""

import carried
from loopy.tools import LoopyKeyBuilder
from pytools.persistent_dict import WriteOncePersistentDict


class Context:
    def __init__(self, queue, factor=1, options=None, keep=""):
        self.queue = queue
        self.factor = factor
        self.options = options
        self._freeze_prg_cache = {}
        self.cache = (
            WriteOncePersistentDict("tests of graphs", LoopyKeyBuilder(), container_dir=keep)
            if keep
            else None
        )

    def transform_loopy_program(self, t_unit):
        if self.cache is not None:
            try:
                return self.cache[t_unit]
            except KeyError:
                pass
        made = scaled(t_unit, self.factor * EXTRA)
        if self.cache is not None:
            self.cache[t_unit] = made
        return made


EXTRA = 1  # a test edits this line


def scaled(t_unit, factor):
    carried.calls.append("scaled")
    kernel = t_unit.default_entrypoint
    made = [one.copy(expression=one.expression * factor) for one in kernel.instructions]
    return t_unit.with_kernel(kernel.copy(instructions=made))


def warned(t_unit):
    import warnings

    warnings.warn("the unit stays as it is", stacklevel=1)
    return t_unit


def refused(t_unit):
    raise ValueError(f"no transformation for {t_unit.default_entrypoint.name}")
