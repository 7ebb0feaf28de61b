"""A child that answers questions about programs: a driver that builds or launches one may hang, or end its process.

The parent asks by a pipe and gets an answer to each question, so it knows which program killed or stopped the child. A
question that takes too long ends the child, too, since the parent may have died.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from kcl.base import process

MEMORY = 4 << 30  # bytes that a limited child may take beyond what it has
_ORPHAN_SECONDS = 10.0
# The child looks for modules where its parent does.
_CODE = "import sys; fd, *sys.path[:] = sys.argv[1:]; from {} import main; main(int(fd))"


class Verdict(NamedTuple):
    """What became of a candidate of a tuning, or of a program: a word such as "ok" or "crashes", and the detail."""

    outcome: str
    detail: str = ""


# The verdict of a candidate that was not judged yet.
OPEN = Verdict("")


class ChildFault(Exception):
    """What a child could not do: it died or was stopped at a question, or it cannot launch the default."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(": ".join(verdict[:2]))
        self.verdict = verdict


class Answerer:
    """The parent's end of a process that answers questions, one at a time; `end` ends it and returns its status."""

    pipe: Connection

    def ask(self, seconds: float, verb: str, *arguments: Any) -> Any:
        """Return the answer; if there is none in some seconds, the process is ended and ChildFault is raised."""
        try:
            self.pipe.send((seconds, verb, *arguments))
            if self.pipe.poll(seconds):
                return self.pipe.recv()
        except (EOFError, OSError):
            raise ChildFault(Verdict("crashes", ended(self.end()))) from None
        self.end()
        raise ChildFault(Verdict("hangs", f"no result in {seconds:.3g} s"))

    def end(self) -> int:
        raise NotImplementedError


class PythonChild(Answerer):
    """A process that runs the function `main` of a module, with these options of Python and variables."""

    def __init__(self, module: str, environment: Mapping[str, str], *options: str) -> None:
        self.pipe, end = Pipe()
        command = [sys.executable, *options, "-c", _CODE.format(module), str(end.fileno())]
        null = subprocess.DEVNULL
        with end:
            self.process = subprocess.Popen(
                [*command, *map(os.path.abspath, sys.path)],
                stdin=null,
                stdout=null,
                stderr=null,
                pass_fds=[end.fileno()],
                start_new_session=True,
                env=environment,
            )

    def begin(self, question: Any) -> None:
        """Send what all questions are about."""
        # If the child has gone, its first answer will be missing.
        with suppress(OSError):
            self.pipe.send(question)

    def end(self) -> int:
        """End the process, whatever it does."""
        self.process.kill()
        self.pipe.close()
        return self.process.wait()


def ended(status: int) -> str:
    """Return the words for the status of a process that ended."""
    return signal.Signals(-status).name if status < 0 else f"status {status}"


def limit(more: int | None = None) -> None:
    """Have this process write no core; unless `more` is None, let it have 4 GiB and that beyond what it has now."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if more is not None:
            with process.proc("self/statm") as stream:
                now = int(stream.read().split()[0]) * resource.getpagesize()
            most = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY + more, most))


def serve(descriptor: int, made_of: Callable[[Any], Any]) -> None:
    """Answer the questions of the parent at a descriptor by what is made of its first message, and end this process."""
    limit()
    pipe = Connection(descriptor)
    answer(pipe, made_of(pipe.recv()))
    # Nothing of a driver runs as the process ends.
    os._exit(0)


def answer(pipe: Connection, of: Any) -> None:
    """Answer the parent's questions, which name methods of an object, until it closes the pipe or takes too long."""
    with suppress(EOFError):
        while True:
            seconds, verb, *arguments = pipe.recv()
            # The alarm ends this process, since the parent may have died.
            signal.setitimer(signal.ITIMER_REAL, seconds + _ORPHAN_SECONDS)
            pipe.send(getattr(of, verb)(*arguments))
            signal.setitimer(signal.ITIMER_REAL, 0)
