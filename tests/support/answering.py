"""A child that answers a few questions, one of which kills it and one of which is not answered."""

import os
import signal
import time
from multiprocessing.connection import Connection

from kcl.drivers.child import answer


class Answers:
    """The answers, about what the parent has sent first."""

    def __init__(self, asked: str) -> None:
        self._asked = asked

    def about(self) -> str:
        return self._asked

    def added(self, one: int, other: int) -> int:
        return one + other

    def dies(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def hangs(self) -> None:
        time.sleep(600)


def main(descriptor: int) -> None:
    """Answer the parent."""
    pipe = Connection(descriptor)
    answer(pipe, Answers(pipe.recv()))
