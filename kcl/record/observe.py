"""Watch a recipe while it runs on a miss: the files that it reads, and its actions that no key can hold.

The interpreter's audit events tell of files, processes and the network (PEP 578). An audit hook cannot be taken away,
so kcl adds one at the first miss of a process, and it sleeps between recipes. Environment, working directory and file
status raise no audit event: while a recipe runs, kcl wraps the functions of `os` that tell them. It also wraps the
functions that start threads: a thread that the recipe starts is observed with it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from types import FrameType
from typing import Any, NamedTuple

from kcl.base import process

_UNKNOWABLE = {
    "socket.connect": "connected to a network address",
    "socket.bind": "opened a network address",
    "socket.getaddrinfo": "looked up a network address",
    "subprocess.Popen": "started a process",
    "os.system": "started a process",
    "os.posix_spawn": "started a process",
    "os.exec": "started a process",
    "os.fork": "started a process",
    "os.listdir": "listed a directory",
    "os.scandir": "listed a directory",
    "os.chdir": "changed the working directory",
    "urllib.Request": "asked the network",
    "sqlite3.connect": "opened a database",
}


class ReadRefusal(NamedTuple):
    """An input that no key can hold, the declaration that cures it, and the path that it is about."""

    what: str
    cure: str
    path: str


class Observations:
    """The reads and actions of one recipe while it ran."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.links: dict[str, None] = {}
        self.variables: dict[str, None] = {}
        self.working_directory = False
        self.refusals: dict[ReadRefusal, None] = {}
        self.threads: list[Observations] = []

    def refuse(self, what: str, cure: str = "version", path: Any = "") -> None:
        """Note an action that no key can hold."""
        text = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
        self.refusals[ReadRefusal(what, cure, text)] = None

    def gather(self) -> None:
        """Add the observations of the threads until now. Copies are read, because a thread may go on."""
        for thread in list(self.threads):
            thread.gather()
            self.files.update(thread.files.copy())
            self.links.update(thread.links.copy())
            self.variables.update(thread.variables.copy())
            self.refusals.update(thread.refusals.copy())
            self.working_directory |= thread.working_directory


class State(process.LockedState):
    """The changes of kcl to the interpreter: whether the audit hook is there, and the functions that are wrapped."""

    def __init__(self) -> None:
        super().__init__()
        self.installed = False
        self.watchers = 0  # recipes that run now
        self.wrapped: list[tuple[Any, str, Any]] = []


_patches = process.shared(State)
_state = threading.local()


@contextmanager
def observing() -> Iterator[Observations]:
    """Collect the actions of this thread until the block ends, and those of the threads that it starts."""
    patches = _patches()
    if not patches.installed:
        patches.installed = True
        sys.addaudithook(_hook)
    observed = Observations()
    try:
        with _collecting(observed), _watching(patches):
            yield observed
    finally:
        observed.gather()


def unobserved() -> AbstractContextManager[None]:
    """Leave out the actions of kcl and of the front end."""
    return _collecting(None)


@contextmanager
def _collecting(observed: Observations | None) -> Iterator[None]:
    """Collect the actions of this thread in `observed`; collect nothing where that is None."""
    before = getattr(_state, "observed", None)
    _state.observed = observed
    try:
        yield
    finally:
        _state.observed = before


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    observed = getattr(_state, "observed", None)
    if observed is None:
        return
    if event == "open":
        path = arguments[0]
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str) or _is_import():
            return
        if _writes(arguments):
            observed.refuse(f"wrote {os.path.basename(path)}")
        else:
            observed.files[path] = None
    elif event in _UNKNOWABLE and not _is_import():
        if event in ("os.listdir", "os.scandir"):
            observed.refuse(_UNKNOWABLE[event], "reads", os.curdir if arguments[0] is None else arguments[0])
        else:
            observed.refuse(_UNKNOWABLE[event])
    elif event in _STARTS and not isinstance(arguments[0], _Observed):
        observed.refuse("started a thread in a way that kcl does not watch")


def _writes(arguments: tuple[Any, ...]) -> bool:
    _path, mode, flags = arguments
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool(isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _is_import() -> bool:
    """Tell whether an import or a traceback acts: imported code counts by the names that a recipe reaches in it.

    The actions of a user's module during its import are the user's. The walk ends at the line itself, since a driver
    may launch its kernels while it is imported.
    """
    for frame, name in _callers(sys._getframe(2)):
        if _is_of_user(frame, name):
            return False
        if _is_of_import(frame, name) or name in _LIKE_IMPORT:
            return True
        if name == "kcl.generate.run":
            return False
    return False


def _callers(frame: FrameType | None) -> Iterator[tuple[FrameType, str]]:
    """Yield a frame and its callers, each with the name of its module."""
    while frame is not None:
        yield frame, str(frame.f_globals.get("__name__"))
        frame = frame.f_back


# A traceback reads lines, and `kcl.caches` makes a private directory for a module that cannot be imported without one.
_LIKE_IMPORT = frozenset({"linecache", "kcl.caches"})


def _is_of_import(frame: FrameType, name: str) -> bool:
    """Tell whether a frame imports a module. A loader's `get_data` alone reads a file for its caller."""
    return name.startswith("importlib._bootstrap") and frame.f_code.co_name != "get_data"


_GENERATORS = ("loopy", "islpy", "pymbolic", "cgen", "genpy", "pytools", "pyopencl", "numpy", "kcl")


@contextmanager
def _watching(patches: State) -> Iterator[None]:
    """Wrap the functions of `os` for the first recipe that runs, and unwrap them after the last one."""
    with patches.lock:
        if not patches.watchers:
            # In Python 3.10 pathlib has its own class that holds functions of os.
            accessor = getattr(sys.modules.get("pathlib"), "_NormalAccessor", None)
            for owner in filter(None, (os, accessor)):
                for name in _FUNCTIONS.keys() & vars(owner).keys():
                    # A function in C binds to no object; a static method does the same, wherever code keeps it.
                    _replace(owner, name, staticmethod(_seen(getattr(owner, name), _FUNCTIONS[name])))
            for owner, name in _starters():
                _replace(owner, name, _observing(getattr(owner, name)))
            for environment in (os.environ, *([os.environb] if os.supports_bytes_environ else ())):
                patches.wrapped.append((environment, "__class__", type(environment)))
                environment.__class__ = _Environment
        patches.watchers += 1  # last: functions that were wrapped in part are wrapped again
    try:
        yield
    finally:
        with patches.lock:
            patches.watchers -= 1
            while patches.wrapped and not patches.watchers:
                setattr(*patches.wrapped[-1])
                patches.wrapped.pop()


def _seen(original: Callable[..., Any], saw: Callable[..., None]) -> Callable[..., Any]:
    def wrapper(*arguments: Any, **keywords: Any) -> Any:
        observed = getattr(_state, "observed", None)
        if observed is not None and _is_users():
            saw(observed, *arguments)
        return original(*arguments, **keywords)

    return wrapper


def _replace(owner: Any, name: str, value: Any) -> None:
    _patches().wrapped.append((owner, name, vars(owner)[name]))  # as the owner kept it, for example as a static method
    setattr(owner, name, value)


_STARTS = frozenset({"_thread.start_new_thread", "_thread.start_joinable_thread"})


class _Observed:
    """The function of a thread that a recipe starts; it is observed for the recipe."""

    def __init__(self, function: Callable[..., object], observed: Observations) -> None:
        self.function = function
        self.observed = Observations()
        observed.threads.append(self.observed)

    def __call__(self, *arguments: Any, **keywords: Any) -> object:
        _state.observed = self.observed
        return self.function(*arguments, **keywords)


def _starters() -> Iterator[tuple[Any, str]]:
    """List the functions that start threads, in all places where the standard library keeps them."""
    names = ("start_new_thread", "start_new", "start_joinable_thread", "_start_new_thread", "_start_joinable_thread")
    for owner in (sys.modules["_thread"], threading):
        for name in names:
            if name in vars(owner):
                yield owner, name


def _is_started_by_kcl() -> bool:
    """Tell whether kcl starts its own thread, as it does for a Kernel that a recipe launches."""
    starters = (name for _frame, name in _callers(sys._getframe(2)) if name != "threading")
    return next(starters, "").partition(".")[0] == "kcl"


def _observing(start: Callable[..., Any]) -> Callable[..., Any]:
    def starting(function: Callable[..., object], *arguments: Any, **keywords: Any) -> Any:
        observed = getattr(_state, "observed", None)
        if observed is not None:
            function = _Observed(function, Observations() if _is_started_by_kcl() else observed)
        return start(function, *arguments, **keywords)

    return starting


def _saw_working_directory(observed: Observations, *_arguments: object) -> None:
    observed.working_directory = True


def _saw_status(observed: Observations, path: object = None, *_arguments: object) -> None:
    # Resolving a path asks of every step whether it is a link; the files behind a link are seen by themselves.
    for frame, _name in islice(_callers(sys._getframe(2)), 3):
        if frame.f_code.co_name in ("_joinrealpath", "realpath", "resolve"):
            return
    observed.refuse("looked whether a file is there", "reads", path)


def _saw_link(observed: Observations, path: Any, *_arguments: object) -> None:
    observed.links[os.fsdecode(path)] = None


_FUNCTIONS: dict[str, Callable[..., None]] = {
    **dict.fromkeys(("getcwd", "getcwdb"), _saw_working_directory),
    **dict.fromkeys(("stat", "lstat", "access"), _saw_status),
    "readlink": _saw_link,
}


def _saw_variable(observed: Observations, _environ: object, name: Any = None) -> None:
    observed.variables[os.fsdecode(name) if isinstance(name, bytes) else str(name)] = None


def _saw_environment(observed: Observations, *_arguments: object) -> None:
    observed.refuse("listed the environment", "env")


# The class of the environment while it is watched. The methods of the environment's own class are not wrapped:
# Python 3.13.0 calls the old methods where a class has changed a thousand times.
_Environment = type(
    "_Environment",
    (type(os.environ),),
    {
        "__getitem__": _seen(type(os.environ).__getitem__, _saw_variable),
        "__iter__": _seen(type(os.environ).__iter__, _saw_environment),
        "__len__": _seen(type(os.environ).__len__, _saw_environment),
    },
)


def _is_users() -> bool:
    """Tell whether the user's code asks, directly or through the standard library, and not an import or a generator."""
    for frame, name in _callers(sys._getframe(2)):
        if name == "linecache" or _is_of_import(frame, name):
            return False
        if _is_of_user(frame, name) or frame.f_code is _Observed.__call__.__code__:
            return True
        if name.partition(".")[0] not in sys.stdlib_module_names:
            return False
    return False


def _is_of_user(frame: FrameType, name: str) -> bool:
    """Tell whether a frame runs the user's code: not Python's, not an installed package's, not kcl's."""
    package = name.partition(".")[0]
    if name == "__main__":
        return True
    if package in sys.stdlib_module_names or package in _GENERATORS or name == "None":
        return False
    return not any(folder in frame.f_code.co_filename for folder in ("site-packages", "dist-packages", "<frozen"))
