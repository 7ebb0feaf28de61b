"""The child process that talks to the remote, so that the user's process imports no client and cannot hang.

The child runs isolated (`python -I`): it finds modules where the user's process does, but not in the program's own
directories. It gets the address and secrets by a pipe, has a bounded address space, and ends itself after a fixed time.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kcl.base import settings
from kcl.base.settings import option
from kcl.remote import outcomes, stores
from kcl.remote.outcomes import Outcome
from kcl.remote.stores import RemoteFault

# The time that the child has. A push takes long: it completes entries first, and retries while others push.
SECONDS = {"pull": 30, "push": 1230}
_SPACE = 2 << 30  # bytes of address space
_WORDS = 1 << 16  # bytes to read of an answer; no outcome is longer
_QUIET = {
    "KCL_STRICT": "",
    "KCL_REPORT": "",
    "KCL_TRACE": "",
    "KCL_PROGRESS": "0",
    "KCL_REMOTE": "off",
}
# The shell ends at once, so init becomes the child's parent, and the user's process has no child unknown to it. A
# shell gives a background process an empty input, so the pipe is passed as descriptor 2 meanwhile.
_SHELL = '{ "$0" "$@" <&2 2>/dev/null & } 2<&0'
_CODE = """\
import json, sys
from importlib import util
request = json.load(sys.stdin)
sys.path += request["path"]
spec = util.spec_from_file_location("kcl", request["kcl"] + "/__init__.py", submodule_search_locations=[request["kcl"]])
sys.modules["kcl"] = module = util.module_from_spec(spec)
spec.loader.exec_module(module)
from kcl.remote import child
child.main(**request)
"""


def run(
    work: str, project: str, address: str, wait: float, kept: tuple[int, ...] = (), **more: Any
) -> Outcome | None:
    """Let a child pull or push the packs of a project; return the outcome, or None if `wait` seconds pass without one.

    `more` has arguments of `packs.pull` or `packs.push`. The child inherits the descriptors in `kept`, and continues if it
    is not waited for. Raises OSError, and RemoteFault if Python cannot be started again from this process.
    """
    root = option.get_cache_dir()
    request = {"work": work, "project": project, "address": address, "root": root, "more": more}
    ended = _start({**request, "kcl": settings.PACKAGE, "path": _path()}, kept)
    try:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        answer = os.read(ended, _WORDS) if poll.poll(max(0.0, wait) * 1000) else None
    finally:
        os.close(ended)
    return Outcome(*json.loads(answer)) if answer else None


def main(
    work: str, project: str, address: str, root: str, more: Mapping[str, Any], **_start: Any
) -> None:
    """Run in the child: pull or push, write a note about the outcome, and answer the parent."""
    started = time.monotonic()
    # The alarm ends this process even if a client library hangs.
    signal.alarm(SECONDS[work])
    option.cache_dir(root)
    try:
        from kcl.bundle import contents
        from kcl.remote import packs

        if work == "push":
            # Done before the bound on memory, since this may start a compiler, which needs more.
            contents.complete()
        # Some systems refuse this bound; the alarm still works there.
        with suppress(ImportError, ValueError, OSError):
            import resource

            most = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (_SPACE, most))
        outcome = getattr(packs, work)(project, address, **more)
    except BaseException as error:
        # A client may be written in Rust: its panics are not of class Exception.
        outcome = Outcome(stores.fault(address, error))
    outcome = outcome._replace(seconds=time.monotonic() - started)
    # A pull that loads nothing, as `kcl doctor` makes it, is not noted.
    if more.get("load", True):
        outcomes.write(outcomes.note_name(work, project, address), outcome)
    # The parent may have ended, and its end of the pipe with it.
    with suppress(OSError):
        os.write(sys.stdout.fileno(), json.dumps(outcome).encode())


def _start(request: Mapping[str, Any], kept: tuple[int, ...]) -> int:
    """Start a child; return the descriptor from which its answer can be read."""
    import subprocess

    if not settings.is_python():
        raise RemoteFault(
            "this program has Python inside, and can start no other: use `kcl pull` before it"
        )
    ended, end = os.pipe()
    try:
        subprocess.run(
            ["/bin/sh", "-c", _SHELL, sys.executable, "-I", "-c", _CODE],
            # Secrets go through the pipe, since all users can see the arguments of a process.
            input=json.dumps(request).encode(),
            stdout=end,
            stderr=subprocess.DEVNULL,
            pass_fds=kept,
            # So Ctrl-C reaches only the user's program.
            start_new_session=True,
            cwd="/",
            env={**settings.environment_alone(), **_QUIET},
            check=False,
        )
    except BaseException:
        os.close(ended)
        raise
    finally:
        # Then only the child has this end of the pipe, so the parent notices its death.
        os.close(end)
    return ended


def _path() -> list[str]:
    """Return `sys.path` without relative paths, the working directory and the directory of the program."""
    main = (
        getattr(sys.modules.get("__main__"), "__file__", None)
        or (getattr(sys, "argv", None) or [""])[0]
    )
    own = set[str]()
    # The working directory may have been removed.
    with suppress(OSError):
        own.add(os.path.realpath(os.path.dirname(os.path.abspath(str(main)))))
        own.add(os.path.realpath(os.getcwd()))
    # So no file beside the program is imported in place of a client library's module.
    return [
        folder
        for folder in sys.path
        if os.path.isabs(folder) and os.path.realpath(folder) not in own
    ]
