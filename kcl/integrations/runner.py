"""`kcl run`: a program that was not written for kcl, run in this process as Python would run it.

A program that uses neither loopy nor pyopencl costs only the imports of this module: no click, no pyopencl.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from kcl import integrations
from kcl.base import process, settings

# The folder with the `sitecustomize` of children, which Python imports from PYTHONPATH as it starts.
CHILDREN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "children")
_KINDS = {"-m": "module", "-c": "text", "--": "script"}
# The options without a value: the option that they stand for, and its word, for the report one of KCL_REPORT.
_FLAGS = {
    "--report": ("report", "1"),
    "--explain": ("report", "explain"),
    "--fresh": ("fresh", "1"),
}


# The program to be run: a script, a module or a text, as the first word says, its name or text, and its arguments.
Program = tuple[str, str, tuple[str, ...]]
# The words of each option of a command line, by its name.
Options = dict[str, list[str]]


class FreshCaches:
    """The empty caches of this run."""

    def __init__(self) -> None:
        import tempfile

        self.folder = tempfile.mkdtemp(prefix="kcl-fresh-")

    def at_exit(self) -> None:
        """Remove them."""
        import shutil

        shutil.rmtree(self.folder, ignore_errors=True)


_fresh = process.shared(FreshCaches)


def parse(arguments: list[str]) -> tuple[Program, Options] | None:
    """Return the request of a command line, None for one that needs an answer: help, or the report of its fault."""
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
        # The name of a file may have a comma.
        words = [value] if name == "trace" else filter(None, map(str.strip, value.split(",")))
        options.setdefault(name, []).extend(words)
    return None


def main(arguments: list[str]) -> bool:
    """Run the program that a command line names, to its own end; False if the command line needs an answer."""
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
    # With every layer off the program runs as without kcl, unless somebody wants to hear of it, or a word is misspelt.
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

        # A program that asks for no kernel gets a report too.
        events.listen()
    as_main(*program)
    return True


def inherit() -> None:
    """Let the children of this process install the integrations, too, unless another interpreter runs them."""
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
    """Set the variables of the options; children inherit them."""
    for word in strict:
        if word not in ("hit", "fault"):
            raise ValueError(f"--strict takes hit or fault, not {word!r}")
    before, variables = settings.read(), dict[str, str]()
    if strict:
        variables["KCL_STRICT"] = ",".join(dict.fromkeys([*sorted(before.strict), *strict]))
    if report:
        # The words of the variable stay: `--report` adds to it. A file stands last, as its name may have a comma.
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
            # No later run would use the entries that a helper completes.
            settings.export({"KCL_PROMOTE": "off"})
        foreign.record_start()


def as_main(kind: str, name: str, arguments: tuple[str, ...]) -> None:
    """Run a program in a new `__main__`; a traceback of its own shows no frame of kcl."""
    main = ModuleType("__main__")
    vars(main)["__builtins__"] = sys.modules["builtins"]
    # A later Python makes the annotations when they are asked for.
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
    """Print a traceback as Python does at the end, without kcl's frames; Python then prints nothing more."""
    trace = error.__traceback__
    # The frames of this module stand first, and the program's own behind them.
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)
    # Python calls the hook once more for the error that is raised again: it has been shown.
    sys.excepthook = lambda *_error: None


def _script(name: str, arguments: tuple[str, ...], main: ModuleType) -> None:
    if name == "-":
        vars(main).update(__file__="<stdin>", __cached__=None)
        return _text(sys.stdin.read(), arguments, main, "<stdin>", "-")
    sys.argv = [name, *arguments]
    path = os.path.join(_working_directory(), name)
    # A folder or an archive is run by its module `__main__`.
    if _is_importable(path):
        import runpy

        _set_first_path(path)
        # The private function is the one that Python itself calls for `python FOLDER`.
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
    """Return the code of a script, compiled already or not; ends as Python does if it cannot be read."""
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

    # As under `python -m`, the first word is "-m" until the module is found.
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
    # Python 3.13 and later show the lines of the text in a traceback.
    if flag == "-c" and sys.version_info >= (3, 13):
        import linecache

        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec", dont_inherit=True), vars(main))


def _set_first_path(path: str) -> None:
    """Put the program's own folder in the place where Python has put kcl's."""
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path[:1] = [path]
