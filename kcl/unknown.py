"""What a recipe may not depend on unseen: the names whose results no key can hold, with what to do instead."""

from __future__ import annotations

_PASS = "pass the value as a parameter of the recipe"


def _table(rows: str, reads: str) -> dict[str, str]:
    return dict.fromkeys(rows.split(), reads)


# dotted name, or the beginning of one -> what it reads
_READS: dict[str, str] = {
    **_table("builtins.eval builtins.exec builtins.compile runpy code codeop", "runs code that is made at run time"),
    **_table("builtins.globals builtins.locals builtins.vars sys._getframe sys.modules", "looks names up at run time"),
    **_table("builtins.__import__ importlib.import_module importlib.reload importlib.util", "imports at run time"),
    **_table("builtins.input getpass sys.stdin sys.argv", "reads what the user typed"),
    **_table("builtins.id", "reads an address in memory"),
    **_table(
        "time datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today datetime.date.today",
        "reads the time",
    ),
    **_table("random secrets uuid os.urandom os.getrandom numpy.random", "draws random numbers"),
    **_table("socket ssl http urllib ftplib smtplib requests urllib3 asyncio", "asks the network"),
    **_table("subprocess os.system os.popen os.fork os.posix_spawn multiprocessing", "starts a process"),
    **_table(
        "os.listdir os.scandir os.walk os.stat os.lstat os.access glob tempfile",
        "looks at directories",
    ),
    **_table(
        " ".join(
            f"{module}.{name}"
            for module in ("os.path", "posixpath", "ntpath", "genericpath")
            for name in [
                "exists",
                "lexists",
                "isfile",
                "isdir",
                "islink",
                "getmtime",
                "getctime",
                "getatime",
                "getsize",
            ]
        ),
        "looks at directories",
    ),
    **_table(
        "os.getpid os.getppid os.getlogin os.getuid os.uname os.cpu_count os.getloadavg pwd",
        "reads facts of this machine",
    ),
    **_table("platform sys.path sys.executable sys.prefix threading.get_ident resource", "reads facts of this machine"),
    **_table(
        "inspect.getsource inspect.getsourcelines inspect.stack inspect.currentframe linecache", "reads source text"
    ),
    **_table("ctypes.CDLL ctypes.cdll ctypes.PyDLL ctypes.util", "calls a library that Python does not know"),
    **_table(
        "pyopencl.create_some_context pyopencl.get_platforms pyopencl.choose_devices",
        "asks for the devices of this machine",
    ),
}
_HARMLESS = frozenset({"time.sleep", "time.struct_time", "asyncio.iscoroutinefunction"})
# what stays the same on one machine and is a value that can be counted
MACHINE = frozenset(
    {"platform", "byteorder", "maxsize", "float_info", "int_info", "hexversion", "maxunicode", "version"}
)

_verdicts: dict[str, str | None] = {}


def verdict(dotted: str) -> str | None:
    """Return why the outcome cannot be known once ``dotted`` is used, or ``None``; memoised."""
    if dotted not in _verdicts:
        _verdicts[dotted] = _judge(dotted)
    return _verdicts[dotted]


def _judge(dotted: str) -> str | None:
    if dotted in _HARMLESS:
        return None
    name = ""
    for piece in dotted.split("."):
        name = f"{name}.{piece}" if name else piece
        reads = _READS.get(name)
        if reads:
            return f"{dotted.removeprefix('builtins.')} {reads}; {_PASS}"
    return None
