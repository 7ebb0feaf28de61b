"""`kcl run`: runs a program in this process as Python would, with the integrations installed.

Neither click nor pyopencl is imported here, so a program that uses neither loopy nor pyopencl starts almost as fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from kcl import integrations
from kcl.base import process, settings

# The folder with a `sitecustomize` for child processes: Python imports it at its start if the folder is in PYTHONPATH.
CHILDREN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "children")
_KINDS = {"-m": "module", "-c": "text", "--": "script"}
# Options without a value -> (option, value) that they stand for; the values of "report" are those of KCL_REPORT.
_FLAGS = {
    "--report": ("report", "1"),
    "--explain": ("report", "explain"),
    "--fresh": ("fresh", "1"),
}


# The program: ("script", "module" or "text"; its name or text; its arguments).
Program = tuple[str, str, tuple[str, ...]]
# Option -> its values in the command line.
Options = dict[str, list[str]]


class FreshCaches:
    """The temporary directory with the empty caches of `kcl run --fresh`."""

    def __init__(self) -> None:
        import tempfile

        self.folder = tempfile.mkdtemp(prefix="kcl-fresh-")

    def at_exit(self) -> None:
        """Remove the directory."""
        import shutil

        shutil.rmtree(self.folder, ignore_errors=True)


_fresh = process.shared(FreshCaches)


def parse(arguments: list[str]) -> tuple[Program, Options] | None:
    """Parse a command line; return None if it needs help or has a fault, which the full command line then handles."""
    rest, options = list(arguments), Options()
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word in _KINDS or word == "-" or not word.startswith("-"):
            rest = rest if word in _KINDS else [word, *rest]
            kind = _KINDS.get(word, "script")
            return ((kind, rest[0], tuple(rest[1:])), options) if rest else None
        if word in _FLAGS:
            name, value = _FLAGS[word]
        elif name in ("--off", "--strict", "--trace") and (equals or rest):
            name, value = name[2:], value if equals else rest.pop(0)
        else:
            return None
        # Not split at commas, since a file's name may have one.
        words = [value] if name == "trace" else filter(None, map(str.strip, value.split(",")))
        options.setdefault(name, []).extend(words)
    return None


def main(arguments: list[str]) -> bool:
    """Run the program of a command line; return False, without running it, if the command line needs help."""
    request = parse(arguments)
    if request is None:
        return False
    program, options = request
    try:
        _set_variables(**options)
    except ValueError as error:
        print(f"kcl run: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    inherit()
    chosen = settings.read()
    # With every layer off nothing is installed, unless a report, a trace or a dump is wanted, or a word is misspelt.
    if (
        not chosen.no_cache >= {settings.GENERATOR, settings.BINARY}
        or chosen.report
        or chosen.trace
        or chosen.dump
        or chosen.rejected
    ):
        integrations.install()
    if settings.variable("KCL_REPORT"):
        from kcl.base import events

        # So that a program without kernels gets a report too.
        events.listen()
    as_main(*program)
    return True


def inherit() -> None:
    """Have child processes install the integrations too, if they run the same interpreter."""
    paths = settings.variable("PYTHONPATH")
    # An empty path stands for the working directory.
    before = [path for path in paths.split(os.pathsep) if path != CHILDREN] if paths else []
    interpreter = f"{sys.implementation.cache_tag} {sys.prefix}"
    settings.export({"PYTHONPATH": os.pathsep.join([CHILDREN, *before]), settings.RUN: interpreter})


def _set_variables(
    off: Sequence[str] = (),
    strict: Sequence[str] = (),
    report: Sequence[str] = (),
    fresh: Sequence[str] = (),
    trace: Sequence[str] = (),
) -> None:
    """Set environment variables for the options; children inherit them."""
    for word in strict:
        if word not in ("hit", "fault"):
            raise ValueError(f"--strict takes hit or fault, not {word!r}")
    before, variables = settings.read(), dict[str, str]()
    if strict:
        variables["KCL_STRICT"] = ",".join(dict.fromkeys([*sorted(before.strict), *strict]))
    if report:
        # `--report` adds to the present value. The file comes last, since its name may have a comma.
        words = ["1" if word == "table" else word for word in sorted(before.report)]
        file = [f"json:{before.report_file}"] if before.report_file else []
        variables["KCL_REPORT"] = ",".join(dict.fromkeys([*words, *report, *file]))
    if trace and trace[-1]:
        variables["KCL_TRACE"] = os.path.abspath(trace[-1])
    settings.export(variables)
    if off or fresh:
        from kcl import foreign
        from kcl.foreign.shell import plan_change

        settings.export(plan_change([*off], [], _fresh().folder if fresh else None))
        if fresh:
            # The caches are removed at the end, so completing entries would be of no use.
            settings.export({"KCL_PROMOTE": "off"})
        foreign.record_start()


def as_main(kind: str, name: str, arguments: tuple[str, ...]) -> None:
    """Run a program in a new `__main__`. Tracebacks show no frames of kcl."""
    main = ModuleType("__main__")
    vars(main)["__builtins__"] = sys.modules["builtins"]
    # From Python 3.14 on annotations are made when they are read.
    if sys.version_info < (3, 14):
        vars(main)["__annotations__"] = {}
    sys.modules["__main__"] = main
    try:
        runners: dict[str, Callable[..., None]]
        runners = {"script": _script, "module": _module, "text": _text}
        runners[kind](name, arguments, main)
    except SystemExit:
        raise
    except BaseException as error:
        _show(error)
        raise


def _show(error: BaseException) -> None:
    """Print a traceback as Python does at the end, without kcl's frames."""
    trace = error.__traceback__
    # The first frames are those of this module.
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)
    # The error is raised again for Python's exit status, but must not be printed twice.
    sys.excepthook = lambda *_error: None


def _script(name: str, arguments: tuple[str, ...], main: ModuleType) -> None:
    if name == "-":
        vars(main).update(__file__="<stdin>", __cached__=None)
        return _text(sys.stdin.read(), arguments, main, "<stdin>", "-")
    sys.argv = [name, *arguments]
    path = os.path.join(_working_directory(), name)
    # A folder or a zip archive is run by its module `__main__`.
    if _is_importable(path):
        import runpy

        _set_first_path(path)
        # The function that Python itself calls for `python FOLDER`.
        runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]
        return None
    code = _code(path)
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    from importlib.machinery import SourceFileLoader

    vars(main).update(__file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path))
    exec(code, vars(main))
    return None


def _working_directory() -> str:
    """Return the working directory; empty if it has been removed, and Python runs programs all the same."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def _is_importable(path: str) -> bool:
    from zipimport import ZipImportError, zipimporter

    try:
        return os.path.isdir(path) or bool(zipimporter(path))
    except ZipImportError:
        return False


def _code(path: str) -> Any:
    """Return the code of a script or a .pyc file; if it cannot be read, exit as Python does."""
    import io

    code = None
    try:
        with io.open_code(path) as stream:
            if path.endswith(".pyc"):
                import pkgutil

                code = pkgutil.read_code(stream)
            if code is None:
                stream.seek(0)
                code = compile(stream.read(), path, "exec", dont_inherit=True)
    except OSError as error:
        message = (
            f"{sys.executable}: can't open file {path!r}: [Errno {error.errno}] {error.strerror}"
        )
        print(message, file=sys.stderr)
        raise SystemExit(2) from None
    return code


def _module(name: str, arguments: tuple[str, ...], _main: ModuleType) -> None:
    import runpy

    # As with `python -m`, the first argument is "-m" until the module is found.
    sys.argv = ["-m", *arguments]
    _set_first_path(_working_directory())
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]


def _text(
    text: str,
    arguments: tuple[str, ...],
    main: ModuleType,
    file: str = "<string>",
    flag: str = "-c",
) -> None:
    from importlib.machinery import BuiltinImporter

    sys.argv = [flag, *arguments]
    _set_first_path("")
    vars(main).update(__loader__=BuiltinImporter)
    # From Python 3.13 on tracebacks show the lines of a `-c` text.
    if flag == "-c" and sys.version_info >= (3, 13):
        import linecache

        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec", dont_inherit=True), vars(main))


def _set_first_path(path: str) -> None:
    """Replace the first entry of `sys.path`, which Python has set for kcl, by the program's."""
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path[:1] = [path]
