"""Child processes that build and launch programs for a parent: the driver may hang or crash there.

The parent sends questions through a pipe and gets an answer to each, so it knows at which program the child died. The
child also ends itself if a question takes too long, since the parent may have died.
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
    """The result for a candidate of a tuning, or for a program: a word such as "ok" or "crashes", and details."""

    outcome: str
    detail: str = ""


# The verdict of a candidate that was not tried yet.
OPEN = Verdict("")


class ChildFault(Exception):
    """A child failed: it died, it was stopped because a question took too long, or it cannot launch the default."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(": ".join(verdict[:2]))
        self.verdict = verdict


class Answerer:
    """The parent's side of a child that answers one question at a time. `end` kills it and returns its exit status."""

    pipe: Connection

    def ask(self, seconds: float, verb: str, *arguments: Any) -> Any:
        """Call a method of the child and return its answer; if none comes in time, kill the child and raise ChildFault."""
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
    """A Python process that runs `main` of a module, with an environment and options of the interpreter."""

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
        """Send the first message, from which the child makes the object that answers."""
        # If the child has gone, the first question will find out.
        with suppress(OSError):
            self.pipe.send(question)

    def end(self) -> int:
        """Kill the process and return its exit status."""
        self.process.kill()
        self.pipe.close()
        return self.process.wait()


def ended(status: int) -> str:
    """Describe the exit status of a process: the name of a signal, or "status 3"."""
    return signal.Signals(-status).name if status < 0 else f"status {status}"


def limit(more: int | None = None) -> None:
    """Switch core files off; unless `more` is None, limit this process to 4 GiB and `more` bytes above its present size."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if more is not None:
            with process.proc("self/statm") as stream:
                now = int(stream.read().split()[0]) * resource.getpagesize()
            most = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY + more, most))


def serve(descriptor: int, made_of: Callable[[Any], Any]) -> None:
    """Run a child: make an object from the parent's first message, answer by its methods, and end the process."""
    limit()
    pipe = Connection(descriptor)
    answer(pipe, made_of(pipe.recv()))
    # Without clean-up, in which a driver might hang.
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
