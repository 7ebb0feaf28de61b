"""A context whose method transforms units, and a persistent dictionary of its own, as real ones have."""

import carried
from loopy.tools import LoopyKeyBuilder
from pytools.persistent_dict import PersistentDict, WriteOncePersistentDict


class ArrayContext:
    pass


class Context(ArrayContext):
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
        if self.factor == 4:  # this one is not stored
            return made
        if self.cache is not None:
            self.cache[t_unit] = made
        return made


class RanksContext(Context):
    """A context of one rank of many."""

    def __init__(self, queue, communicator):
        super().__init__(queue, 2.0)
        self.communicator = communicator

    def by_rank(self, t_unit):
        return scaled(t_unit, self.communicator.rank + self.communicator.Get_size() + 1)

    def agreed(self, t_unit):
        return scaled(t_unit, self.communicator.allreduce(2.0))


class Scaling:
    """An owner of a transformation that is no context."""

    def __init__(self, factor):
        self.np = factor
        self.factors = [factor]

    def scaled(self, t_unit):
        return scaled(t_unit, self.np)

    def in_list(self, t_unit):
        return scaled(t_unit, self.factors[0])

    def asking(self, t_unit):
        return scaled(t_unit, self.np.choose())

    def counting(self, t_unit):
        self.np += 1
        return scaled(t_unit, self.np)


class Pair(tuple):
    def scaled(self, t_unit):
        return scaled(t_unit, self[0])


def tuned(t_unit, folder):
    try:
        factor = PersistentDict("tests of factors", LoopyKeyBuilder(), container_dir=folder)["one"]
    except KeyError:
        factor = 1
    return scaled(t_unit, factor)


def by_constant(t_unit):
    return scaled(t_unit, EXTRA)


def by_tag(t_unit, tag):
    return scaled(t_unit, tag.factor)


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
