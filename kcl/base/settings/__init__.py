"""Settings: every variable of kcl, the user's settings file, and what the environment says of this program.

A setting comes from its variable, else from the user's settings file, else from its default. The page of variables has
a row for each of `SETTINGS`. This package and `kcl.foreign` are the only readers of the environment.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from kcl.base import process

# The directory of kcl itself.
PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECKOUT_FOLDER = ".kcl_cache"
# Only `kcl run` sets this, for its children.
RUN = "KCL_RUN"
# The names of the layers, in the order of the line: `kcl.cache.layers.TABLE` has a row for each.
LAYERS = GENERATOR, BINARY, TUNING = "generator", "binary", "tuning"
# Parts that are no layers but that `KCL_NO_CACHE` switches off by name: the sizes that calls were seen with, and
# what is kept of pytato's graphs.
SWITCHED = SHAPES, GRAPH = "shapes", "graph"

# Variables that show a launcher or a scheduler: of Open MPI, MPICH and Intel MPI, MVAPICH, PMIx; Slurm, PBS, LSF, Flux,
# Cobalt, Grid Engine.
_BATCH = (
    "OMPI_COMM_WORLD_SIZE PMI_SIZE MPI_LOCALNRANKS MV2_COMM_WORLD_SIZE PMIX_RANK "
    "SLURM_JOB_ID PBS_JOBID LSB_JOBID FLUX_JOB_ID COBALT_JOBID PE_HOSTFILE"
)
# The beginnings of the names of all variables of such launchers and schedulers.
_LAUNCHERS = (
    "OMPI_ OPAL_ PRTE_ PMI_ PMIX_ MPI_ MPIR_ HYDRA_ HYDI_ MV2_ I_MPI_ "
    "SLURM_ PBS_ LSB_ FLUX_ COBALT_ SGE_ PE_"
)


class Setting(NamedTuple):
    """One setting: its variable, the parser of its text, its default. `kcl.base.settings.words` describes its effect.

    `parser` names a function of `kcl.base.settings.parsers`, followed by its arguments. If it is empty, the text is the
    value.
    """

    variable: str
    parser: str
    default: Any
    # For settings that widen trust: the environment cannot set them.
    file_only: bool = False
    # For the setting that decides whose files are read: a file cannot set it.
    variable_only: bool = False

    @property
    def key(self) -> str:
        """The name in the settings file."""
        return _key(self.variable)

    def parse(self, text: str) -> Any:
        """Parse the variable's text. Bad text raises `ValueError(message)` or `ValueError(message, fallback)`."""
        if not (text and self.parser):
            return text or self.default
        # Imported late: most processes set no variable and parse nothing.
        from kcl.base.settings import parsers

        name, *arguments = self.parser.split()
        return getattr(parsers, name)(text, *arguments)


_NOBODY, _NONE = frozenset[int](), frozenset[str]()
_NAMES = f"layers {','.join(LAYERS)} {','.join(SWITCHED)}"
_ROOT = Setting("KCL_CACHE_DIR", "path", None)
SETTINGS = (
    _ROOT,
    Setting("KCL_DUMP", "path", None),
    Setting("KCL_MAX_SIZE", "size", 2_000_000_000),
    Setting("KCL_NO_CACHE", _NAMES, _NONE),
    Setting("KCL_PROGRESS", "progress", None),
    Setting("KCL_PROMOTE", "promotion", "background"),
    Setting("KCL_REMOTE", "remote", ""),
    Setting("KCL_REMOTE_FRESH", "seconds 1h", 3600.0, file_only=True),
    Setting("KCL_REMOTE_HEADERS", "listed :", (), file_only=True),
    Setting("KCL_REMOTE_NAME", "", ""),
    Setting("KCL_REMOTE_TIMEOUT", "seconds 2s", 2.0, file_only=True),
    Setting("KCL_REMOTE_UNSIGNED", "listed ://", (), file_only=True),
    Setting("KCL_REMOTE_WRITE", "writing", "", file_only=True),
    Setting("KCL_REPORT", "report", (_NONE, None)),
    Setting("KCL_SIGNING_KEY", "", "", file_only=True),
    Setting("KCL_SITE", "folders", ()),
    Setting("KCL_SITE_OWNERS", "users", _NOBODY, file_only=True),
    Setting("KCL_STRICT", "strict", _NONE),
    Setting("KCL_TRACE", "path", None),
    Setting("KCL_TRUSTED_KEYS", "listed :", (), file_only=True),
    Setting("KCL_TRUST_UID", "users", _NOBODY, variable_only=True),
)


class Settings(NamedTuple):
    """The settings as read at one moment; `rejected` names the values that kcl did not understand."""

    cache_dir: str | None
    cache_dir_reason: str
    dump: str | None
    max_size: int
    no_cache: frozenset[str]
    no_cache_value: str
    progress: bool
    promote: str
    remote: str
    remote_fresh: float
    remote_headers: tuple[str, ...]
    remote_name: str
    remote_timeout: float
    remote_unsigned: tuple[str, ...]
    remote_write: str
    report: frozenset[str]
    report_file: str | None
    signing_key: str
    site: tuple[str, ...]
    site_owners: frozenset[int]
    strict: frozenset[str]
    strict_fault: str
    trace: str | None
    trusted_keys: tuple[str, ...]
    trust_uid: frozenset[int]
    rejected: tuple[str, ...]


def read() -> Settings:
    """Read every setting: the environment as it is now, and the settings file as it was at the first call.

    A value of `KCL_NO_CACHE` that kcl does not understand switches the layers off. `Settings.rejected` has a message for
    each value that was not understood.
    """
    values: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for setting in SETTINGS:
        values[setting.key] = _value(setting, faults)
    values["cache_dir"], source, fault = _find_root(values["cache_dir"])
    values["progress"] = is_terminal() if values["progress"] is None else values["progress"]
    values["report"], values["report_file"] = values["report"]
    return Settings(
        **values,
        cache_dir_reason=source,
        no_cache_value=_text_of("KCL_NO_CACHE"),
        strict_fault=faults.get("KCL_STRICT", ""),
        rejected=(*_state().faults, *faults.values(), *filter(None, [fault])),
    )


def cache_dir() -> str | None:
    """Return the root of kcl's files. Cheaper than `read()`, since a miss asks for it often."""
    root, _source, _fault = _find_root(_value(_ROOT, {}))
    return root


class ChosenRoots(process.LockedState):
    """The roots chosen by calls of `kcl.option.cache_dir`; the last one is in use."""

    def __init__(self) -> None:
        super().__init__()
        self.chosen: list[Any] = []


chosen_roots = process.own(ChosenRoots)


def folder(name: str) -> str:
    """Return the path of one of kcl's folders: `pytools`, `pyopencl` or `kcl`; it need not exist."""
    chosen = chosen_roots().chosen
    root = chosen[-1].path if chosen else cache_dir()
    return os.path.join(root, name) if root else user_cache_dir(name)


def batch() -> str:
    """Return the variable by which an MPI launcher or a batch scheduler shows that it started this process, else ""."""
    return next((name for name in _BATCH.split() if os.environ.get(name)), "")


def environment() -> dict[str, str]:
    """Return a copy of the environment for a child process."""
    return dict(os.environ)


def environment_alone() -> dict[str, str]:
    """Return the environment without the variables of MPI launchers and batch schedulers, for a process of kcl's own."""
    launchers = tuple(_LAUNCHERS.split())
    return {name: value for name, value in os.environ.items() if not name.startswith(launchers)}


def export(variables: Mapping[str, str | None]) -> None:
    """Set variables as `set_variables` does, and have kcl read its settings again."""
    set_variables(variables)
    process.on_change()


def set_variables(values: Mapping[str, str | None]) -> None:
    """Set variables of the environment, or unset those that are None. kcl does not read its settings again."""
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def hand_down(name: str, value: str) -> None:
    """Set a variable for the children of this process, unless it is set."""
    os.environ[name] = os.environ.get(name) or value


def variable(name: str) -> str | None:
    """Return one variable of the environment as it is now."""
    return os.environ.get(name)


def home() -> str:
    """Return the absolute path of the user's home directory, which need not exist.

    A user without HOME and without an entry in the list of users has a private home among the temporary directories.
    """
    path = os.path.expanduser("~")
    return path if os.path.isabs(path) else private_folder(temporary())


def private_folder(root: str) -> str:
    """Return this user's directory below `root`, a directory for temporary files.

    The directory need not exist, and another user may own it.
    """
    user = "user" if sys.platform == "win32" else str(os.getuid())
    return os.path.join(root, f"kcl-{user}")


def temporary() -> str:
    """Return the directory for temporary files. As `tempfile.gettempdir()`, but without a trial file."""
    named = [os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
    places = (*named, "/tmp", "/var/tmp", "/usr/tmp")
    return next(
        (path for path in places if os.path.isabs(path) and os.path.isdir(path)),
        os.path.abspath(os.sep),
    )


def settings_file() -> str:
    """Return the path of the user's settings file, which need not exist."""
    root = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(root) and sys.platform in ("darwin", "win32"):
        import platformdirs

        root = platformdirs.user_config_dir()
    return os.path.join(
        root if os.path.isabs(root) else os.path.join(home(), ".config"), "kcl", "config.toml"
    )


def from_file() -> dict[str, str]:
    """Return the texts of the settings in the settings file, by their names there."""
    return dict(_state().texts)


def user_cache_dir(application: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the directory that `platformdirs`, hence pytools and pyopencl, uses for `application` in an environment.

    On Linux platformdirs is not imported, since that costs a tenth of a warm start. The function ignores a
    relative `XDG_CACHE_HOME`, as platformdirs does.
    """
    xdg = environment.get("XDG_CACHE_HOME", "")
    if sys.platform == "darwin" and xdg:
        return os.path.join(xdg, application)
    if sys.platform in ("darwin", "win32"):
        import platformdirs

        return platformdirs.user_cache_dir(application, application)
    if xdg.strip() and os.path.isabs(xdg):
        return os.path.join(xdg, application)
    return os.path.join(home(), ".cache", application)


# Root's settings for all users, read below the user's own.
SITE_FILE = "/etc/kcl/config.toml"


class FileSettings:
    """What the settings files of root and of the user say, their faults, and the cache directory of the checkout.

    Read once in a process. A missing file costs one system call.
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.faults: tuple[str, ...] = ()
        for path in filter(os.path.lexists, (SITE_FILE, settings_file())):
            from kcl.base.settings.file import load

            keys = [setting.key for setting in SETTINGS if not setting.variable_only]
            texts, faults = load(path, keys, of_root=path == SITE_FILE)
            # The user's file is read last, so its values win.
            self.texts, self.faults = {**self.texts, **texts}, (*self.faults, *faults)
        # Searched from the working directory of this moment upward; a later `chdir` changes nothing.
        self.checkout = _find_checkout()


_state = process.own(FileSettings)


def _key(variable: str) -> str:
    return variable.removeprefix("KCL_").lower()


def _value(setting: Setting, faults: dict[str, str]) -> Any:
    """Return the present value of a setting; add a message to `faults` if its text is not understood."""
    if setting.file_only and setting.variable in os.environ:
        faults[setting.variable] = (
            f"{setting.variable} is not read: write {setting.key} into {settings_file()}"
        )
    text = _state().texts.get(setting.key, "") if setting.file_only else _text_of(setting.variable)
    try:
        return setting.parse(text.strip())
    except ValueError as refused:
        words, *instead = refused.args
        faults[setting.variable] = f"{_source_of(setting.variable)}: {words}"
        return instead[0] if instead else setting.default


def _text_of(variable: str) -> str:
    """Return the text of a setting; a variable that is set, even to an empty text, wins over the file."""
    return os.environ.get(variable, _state().texts.get(_key(variable), ""))


def _source_of(variable: str) -> str:
    """Return the source of a setting's value, in words."""
    return variable if variable in os.environ else f"{_key(variable)} of {settings_file()}"


def _find_root(chosen: str | None) -> tuple[str | None, str, str]:
    """Return the root of kcl's files, its source (the variable, the checkout, or the settings file), and a fault."""
    root, fault = (None, "") if chosen and "KCL_CACHE_DIR" in os.environ else _state().checkout
    if root:
        return root, f"kcl init in {os.path.dirname(root)}", fault
    return chosen, _source_of("KCL_CACHE_DIR") if chosen else "", fault


def _find_checkout() -> tuple[str | None, str]:
    """Return the cache directory that `kcl init` recorded for the checkout around the working directory, and a fault.

    The fault describes a cache directory on the way that this user has not recorded. The place of the program's file does
    not matter, so `kcl ls` in a checkout shows the same caches as the programs that run there.
    """
    try:
        place, above = os.getcwd(), ""
    except OSError:
        # The working directory was removed.
        return None, ""
    fault = ""
    while place != above:
        folder = os.path.join(place, CHECKOUT_FOLDER)
        if os.path.lexists(folder):
            from kcl.base.settings.file import find_stranger

            stranger = find_stranger(settings_file(), folder)
            if not stranger:
                return folder, fault
            cure = "remove it, then run kcl init for one of yours"
            words = f"{folder} is not used, it may have come with a clone: {stranger}; {cure}"
            fault = fault or words
        above, place = place, os.path.dirname(place)
    return None, fault


def is_terminal() -> bool:
    """Return True if stderr is a terminal."""
    return not getattr(sys.stderr, "closed", True) and sys.stderr.isatty()


def place_of(file: str, line: int) -> str:
    """Return `file:line` with the short name of a file; for a notebook cell the name is that of the cell."""
    name = os.path.basename(file)
    if "IPython" in sys.modules:
        # Another version of IPython may lack these names, and the file may be no cell.
        with suppress(Exception):
            name = sys.modules["IPython"].get_ipython().compile.format_code_name(file)[1]
    return f"{name}:{line}"


def driver_name(program: str | None = None) -> str:
    """Return the short name of a program, by default of this one; empty if it is unknown.

    A package run by `python -m` is named by its folder. A program without a file is named "notebook", "pytest" or "-c".
    """
    path = program_path() if program is None else program
    if not os.path.isabs(path):
        return path.partition(" ")[0]
    return os.path.basename(path.removesuffix(f"{os.sep}__main__.py"))


def program_path() -> str:
    """Return the text that identifies this program: the path of its file, or of a package's module `__main__`.

    A worker process has that of its parent; a worker of pytest-xdist has the name of the session.
    """
    main, arguments = sys.modules.get("__main__"), getattr(sys, "argv", None)
    first = arguments[0] if isinstance(arguments, list) and arguments else ""
    if not isinstance(first, str):
        return ""
    if os.path.basename(first) == "ipykernel_launcher.py":
        named = variable("JPY_SESSION_NAME") or getattr(main, "__vsc_ipynb_file__", "")
        return os.path.abspath(named) if named else f"notebook {sys.argv}"
    # With `python -m`, or in a worker, `sys.argv[0]` is the path already.
    if getattr(main, "__spec__", None) is None:
        first = getattr(main, "__file__", None) or first
    # The program has no file: it was given by `-c`, or comes from stdin.
    if first[:1] in ("", "-", "<"):
        session = variable("PYTEST_XDIST_TESTRUNUID")
        if session and "execnet" in sys.modules:
            return f"pytest {session}"
        return f"{first} {zlib.crc32(repr(sys.orig_argv).encode())}" if first else ""
    return os.path.abspath(first)


def processors() -> int:
    """Return the number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        # Some systems do not report it.
        return os.cpu_count() or 1


def is_python() -> bool:
    """Return True if `sys.executable` starts a Python; in an application that embeds Python it does not."""
    return os.name == "posix" and os.path.basename(sys.executable or "").lower().startswith(
        ("python", "pypy")
    )
