"""The names that a recipe may not depend on unseen: no key can hold their results. Each has a cure.

Files, environment variables and the working directory are not among them: they are observed while a recipe runs.
"""

from __future__ import annotations

from functools import cache
from typing import NoReturn

from kcl.errors import UnknownInput

_CURE = "pass the value as a parameter of the recipe"
_CURES = {
    "looks at directories": "declare what it looks at with @kcl.kernel(reads=[...])",
    "imports at run time": "declare what it leads to with @kcl.kernel(depends=[...])",
    "looks names up at run time": "declare what it leads to with @kcl.kernel(depends=[...])",
}
_VOUCH = "vouch for it with @kcl.kernel(version=...)"
# the thing that is read -> dotted names, or beginnings of names
_TABLE = {
    "runs code that is made at run time": "builtins.eval builtins.exec builtins.compile runpy code codeop",
    "looks names up at run time": "builtins.globals builtins.locals builtins.vars sys._getframe sys.modules",
    "imports at run time": "builtins.__import__ importlib.import_module importlib.reload importlib.util",
    "reads what the user typed": "builtins.input getpass sys.stdin sys.argv",
    "reads an address in memory": "builtins.id",
    "reads the time": "time datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today datetime.date.today",
    "draws random numbers": "random secrets uuid os.urandom os.getrandom numpy.random",
    "asks the network": "socket ssl http urllib ftplib smtplib requests urllib3 asyncio",
    "starts a process": "subprocess multiprocessing os.system os.popen os.fork os.posix_spawn",
    "starts a thread that cannot be watched": "_thread.start_new_thread _thread.start_new "
    "_thread.start_joinable_thread",
    "looks at directories": "glob tempfile os.listdir os.scandir os.walk os.stat os.lstat os.access os.path.exists "
    "os.path.lexists os.path.isfile os.path.isdir os.path.islink os.path.getmtime os.path.getctime os.path.getatime "
    "os.path.getsize",
    "reads facts of this machine": "locale platform pwd resource os.getpid os.getppid os.getlogin os.getuid os.uname "
    "os.cpu_count os.getloadavg sys.path sys.executable sys.prefix threading.get_ident",
    "reads source text": "linecache inspect.getsource inspect.getsourcelines inspect.stack inspect.currentframe",
    "calls a library that Python does not know": "ctypes.CDLL ctypes.cdll ctypes.PyDLL ctypes.util",
    "asks for the devices of this machine": "pyopencl.create_some_context pyopencl.get_platforms "
    "pyopencl.choose_devices",
}
_READS = {name: reads for reads, names in _TABLE.items() for name in names.split()}
_HARMLESS = frozenset(
    ("time.sleep", "time.struct_time", "asyncio.iscoroutinefunction", "uuid.UUID", "uuid.uuid3", "uuid.uuid5")
)
# modules in which the interpreter keeps functions that other modules show
_ALIASES = {
    "posix": "os",
    "nt": "os",
    "posixpath": "os.path",
    "ntpath": "os.path",
    "genericpath": "os.path",
    "_datetime": "datetime",
    "_random": "random",
    "_socket": "socket",
    "_uuid": "uuid",
}
# functions that are watched only where `os` holds them, not where other code keeps them
_WATCHED = frozenset(f"{system}.{name}" for system in ("posix", "nt") for name in ("getcwd", "getcwdb", "readlink"))
# names that stay the same on one machine and have a value that can be counted
MACHINE = frozenset(
    ("platform", "byteorder", "maxsize", "float_info", "int_info", "hexversion", "maxunicode", "version", "flags")
)


@cache
def verdict(dotted: str) -> str | None:
    """Return why the outcome cannot be known once code uses ``dotted``, or ``None``; memoised."""
    first, dot, rest = dotted.partition(".")
    if dotted in _WATCHED:
        return f"{rest} is watched only where it is called as os.{rest}; call it so, or {_VOUCH}"
    dotted = _ALIASES.get(first, first) + dot + rest
    if dotted in _HARMLESS:
        return None
    name = ""
    for piece in dotted.split("."):
        name = f"{name}.{piece}" if name else piece
        reads = _READS.get(name)
        if reads is not None:
            return f"{dotted.removeprefix('builtins.')} {reads}; {_CURE}, or {_CURES.get(reads, _VOUCH)}"
    return None


def refuse(value: object) -> NoReturn:
    """Raise UnknownInput for an object with content that no key can hold."""
    kind = type(value)
    raise UnknownInput(
        f"the content of a {kind.__module__}.{kind.__qualname__} object cannot be known; give the class a method "
        "__kcl_key__() that returns what decides the outcome, or pass a plain value as a parameter"
    )
