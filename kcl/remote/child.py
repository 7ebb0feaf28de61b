"""The child that talks to a remote, so that no client is imported into a user's process, and nothing can hang it.

It is isolated (`-I`): modules are found where the user's process finds them, but not in the directories of the program.
It gets address and secrets by a pipe, reads a bounded number of bytes in a bounded address space, and ends by itself.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kcl.base import settings
from kcl.base.settings import option
from kcl.errors import CacheFault
from kcl.remote.stores import RemoteFault

SECONDS = {"pull": 30, "attempt": 30, "push": 630}  # a push completes entries first
_SPACE = 2 << 30  # bytes of address space
_PIPE = 60_000  # bytes that a pipe takes without a reader
_QUIET = {"KCL_STRICT": "", "KCL_REPORT": "", "KCL_TRACE": "", "KCL_PROGRESS": "0", "KCL_REMOTE": "off"}
_CODE = """\
import json, os, sys
from importlib import util
with os.fdopen(int(sys.argv[1]), "rb") as stream:
    asked = json.load(stream)
sys.path += asked["path"]
spec = util.spec_from_file_location("kcl", asked["kcl"] + "/__init__.py", submodule_search_locations=[asked["kcl"]])
sys.modules["kcl"] = module = util.module_from_spec(spec)
spec.loader.exec_module(module)
from kcl.remote import child
child.main(asked)
"""


def start(asked: Mapping[str, Any], lock: int | None = None) -> int:
    """Start a child that does what is asked; return a descriptor for `wait`.

    The child keeps `lock` open, a descriptor. The shell leaves it to init, so the user's process has no child that it
    does not know. Raises OSError, and RemoteFault if this interpreter cannot be started again.
    """
    import subprocess

    if os.name != "posix" or not os.path.basename(sys.executable or "").startswith(("python", "pypy")):
        raise RemoteFault("this program has Python inside, and can start no other: use `kcl pull` before it")
    root = os.path.dirname(option.folder("kcl"))
    request = json.dumps({"kcl": settings.PACKAGE, "path": _path(), "root": root, **asked}).encode()
    if len(request) > _PIPE:
        raise RemoteFault("sys.path is too long to be handed on: use `kcl pull` before this program")
    reader, writer = os.pipe()
    ended, end = os.pipe()
    try:
        os.write(writer, request)
        os.close(writer)
        command = ["/bin/sh", "-c", '"$0" "$@" &', sys.executable, "-I", "-c", _CODE, str(reader)]
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=end,
            stderr=subprocess.DEVNULL,
            pass_fds=(reader,) if lock is None else (reader, lock),
            start_new_session=True,
            cwd="/",
            env={**settings.environment_alone(), **_QUIET},
        ).wait()
    except BaseException:
        os.close(ended)
        raise
    finally:
        os.close(reader)
        os.close(end)
    return ended


def wait(ended: int, seconds: float) -> bytes | None:
    """Wait for the end of a child, and close its descriptor; return the outcome in JSON, None if time was over."""
    said, end = b"", time.monotonic() + seconds
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(ended, selectors.EVENT_READ)
            while selector.select(max(0.0, end - time.monotonic())):
                more = os.read(ended, _PIPE)
                if not more:
                    return said
                said += more
        return None
    finally:
        os.close(ended)


def main(asked: Mapping[str, Any]) -> None:
    """Do what is asked, leave a note on the outcome, and end."""
    work = asked["work"]
    given: dict[str, Any] = {}
    if work == "push":  # bounded as it asks the remote: before, it starts a helper whose compiler takes more
        signal.alarm(SECONDS[work])
        given = {"file": asked.get("file", ""), "before_asking": _bound}
    else:
        _bound()
    option.cache_dir(asked["root"])
    from kcl.remote import driver, notes, packs

    name, address = asked["driver"], asked["address"]
    found = packs.outcome(getattr(packs, work), name, address, **given)._replace(terms=driver.terms(address))
    if work != "attempt":
        with suppress(OSError, CacheFault):
            notes.write(notes.of(work, driver.digest(name)), found)
    with suppress(OSError):  # the parent may have ended
        os.write(sys.stdout.fileno(), json.dumps(found).encode())


def _bound() -> None:
    """Bound the time and the space of this process from now on."""
    signal.alarm(SECONDS["pull"])
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_SPACE, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _path() -> list[str]:
    """Return where this process finds modules, without the working directory and that of the program."""
    main = getattr(sys.modules.get("__main__"), "__file__", None) or (getattr(sys, "argv", None) or [""])[0]
    own = {os.path.realpath(os.path.dirname(os.path.abspath(str(main))))}
    with suppress(OSError):
        own.add(os.path.realpath(os.getcwd()))
    return [one for one in sys.path if os.path.isabs(one) and os.path.realpath(one) not in own]
