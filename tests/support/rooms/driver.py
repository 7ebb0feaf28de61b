"""A driver in one file: it says of itself which part of the key it adds, and counts what it is asked for."""

from kcl.cache.key import Part
from kcl.programs.driver import Driver

ASKED: list[str] = []


class Counting(Driver):
    """A plain driver whose programs count for a device of another generation."""

    def identity(self, device):
        ASKED.append("identity")
        return (*super().identity(device), Part("generation", "7"))

    def completed(self, program, slot, entry):
        ASKED.append("completed")
        return super().completed(program, slot, entry)

    def loaded(self, _slot, _entry):
        ASKED.append("loaded")


ROW = (__name__, "Counting")
