"""The child that talks to a remote, so that no client is imported into a user's process, and nothing can hang it.

It is isolated (`-I`): modules are found where the user's process finds them, but not in the directories of the program.
It gets address and secrets by a pipe, reads a bounded number of bytes in a bounded address space, and ends by itself.
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

# A push completes entries first, and tries again beside others.
SECONDS = {"pull": 30, "push": 1230}
_SPACE = 2 << 30  # bytes of address space
_WORDS = 1 << 16  # bytes, more than an outcome has
_QUIET = {
    "KCL_STRICT": "",
    "KCL_REPORT": "",
    "KCL_TRACE": "",
    "KCL_PROGRESS": "0",
    "KCL_REMOTE": "off",
}
# The shell leaves the child to init, so the user's process has none that it does not know. A shell gives a process in
# the background an empty input: it is kept as descriptor 2 on the way.
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
    """Have a child pull or push the packs of a project; return the outcome, None without an answer in `wait` seconds.

    `more` are arguments of `packs.pull` or `packs.push`. A child that has not answered goes on. It has the descriptors
    `kept` open. Raises OSError, and RemoteFault if this interpreter cannot be started again.
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
    """Do what is asked, leave a note on the outcome, and end."""
    started = time.monotonic()
    # The alarm ends this process, whatever a client does.
    signal.alarm(SECONDS[work])
    option.cache_dir(root)
    try:
        from kcl.bundle import contents
        from kcl.remote import packs

        if work == "push":
            # This starts a helper, whose compiler takes more than the bound.
            contents.complete()
        # Where the system refuses the bound, the alarm is left.
        with suppress(ImportError, ValueError, OSError):
            import resource

            most = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (_SPACE, most))
        outcome = getattr(packs, work)(project, address, **more)
    except BaseException as error:
        # A client may be written in Rust, whose panics are no Exceptions.
        outcome = Outcome(stores.fault(address, error))
    outcome = outcome._replace(seconds=time.monotonic() - started)
    # What is only seen leaves no note.
    if more.get("load", True):
        outcomes.write(outcomes.note_name(work, project, address), outcome)
    # The parent may have ended.
    with suppress(OSError):
        os.write(sys.stdout.fileno(), json.dumps(outcome).encode())


def _start(request: Mapping[str, Any], kept: tuple[int, ...]) -> int:
    """Start a child, and return a descriptor of what it says."""
    import subprocess

    if not settings.is_python():
        raise RemoteFault(
            "this program has Python inside, and can start no other: use `kcl pull` before it"
        )
    ended, end = os.pipe()
    try:
        subprocess.run(
            ["/bin/sh", "-c", _SHELL, sys.executable, "-I", "-c", _CODE],
            # Secrets go by the pipe, since everybody can read the arguments of a process.
            input=json.dumps(request).encode(),
            stdout=end,
            stderr=subprocess.DEVNULL,
            pass_fds=kept,
            # Ctrl-C is for the program.
            start_new_session=True,
            cwd="/",
            env={**settings.environment_alone(), **_QUIET},
            check=False,
        )
    except BaseException:
        os.close(ended)
        raise
    finally:
        # The child has the only open end then, so its death is seen.
        os.close(end)
    return ended


def _path() -> list[str]:
    """Return where this process finds modules, without the working directory and that of the program."""
    main = (
        getattr(sys.modules.get("__main__"), "__file__", None)
        or (getattr(sys, "argv", None) or [""])[0]
    )
    own = set[str]()
    # The working directory may have been removed.
    with suppress(OSError):
        own.add(os.path.realpath(os.path.dirname(os.path.abspath(str(main)))))
        own.add(os.path.realpath(os.getcwd()))
    # So no file beside the program passes for a module of a client.
    return [
        folder
        for folder in sys.path
        if os.path.isabs(folder) and os.path.realpath(folder) not in own
    ]
