"""Make compilation and loopy impossible, for tests that prove a warm start. A helper of tests, imported in children.

    import forbid; forbid.compilation(); forbid.loopy()
    import forbid; forbid.compilation(); forbid.generation()    # where the program itself imports loopy

Recipes run in every process, so they are not forbidden: what they ask of loopy is recorded. What is forbidden raises
Forbidden, a BaseException: no `except Exception` of the code under test can hide it.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from types import FunctionType

GENERATORS = ("loopy", "islpy", "pymbolic", "genpy", "cgen")
# What loopy's work goes through, by module: functions that are looked up there at each call.
WORK = {
    "loopy.kernel.creation": ("parse_instructions",),
    "loopy.codegen": ("generate_code_for_a_single_kernel",),
}


class Forbidden(BaseException):
    """Something ran that a warm start must not run."""


class _NoGenerators(MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):  # noqa: ARG002
        """Refuse the generators, and know nothing of any other module."""
        if fullname.partition(".")[0] in GENERATORS:
            raise Forbidden(f"import of {fullname}")


def compilation() -> None:
    """Make every way from text to a program raise: source, intermediate language, compile, link, pyopencl's cache."""
    import pyopencl as cl
    import pyopencl.cache

    def from_binary_only(self, context, devices=None, binaries=None, real=cl._cl._Program.__init__):
        if binaries is None:
            raise Forbidden("a program from source")
        real(self, context, devices, binaries)

    for holder in (cl._cl._Program, cl.Program):
        holder.compile = _raising("clCompileProgram")
    cl._cl._Program.link = _raising("clLinkProgram")
    cl.link_program = _raising("clLinkProgram")
    cl._cl._create_program_with_il = _raising("a program from intermediate language")
    cl.cache.create_built_program_from_source_cached = _raising("pyopencl's cache of programs")
    cl._cl._Program.__init__ = like_kcls(from_binary_only)


def loopy():
    """Make the import of loopy and of what it is made of raise; returns the function that allows it again."""
    loaded = sorted(set(GENERATORS) & sys.modules.keys())
    if loaded:
        raise Forbidden(f"imported already: {', '.join(loaded)}")
    finder = _NoGenerators()
    sys.meta_path.insert(0, finder)

    def allow():
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)

    return allow


def generation(modules=tuple(WORK)):
    """Make what loopy does raise, now or when it is imported: making a kernel from text, and generating code.

    `modules` names the modules of `WORK` whose functions are not to run.
    """
    for name in modules:
        if name in sys.modules:
            _idle(sys.modules[name])
    sys.meta_path.insert(0, _IdleGenerators(modules))


class _IdleGenerators(MetaPathFinder):
    def __init__(self, modules):
        self.modules = modules

    def find_spec(self, fullname, path=None, target=None):  # noqa: ARG002
        """Find what others find, and have it work no more once it is loaded."""
        if fullname not in self.modules:
            return None
        sys.meta_path.remove(self)
        try:
            spec = find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        load = spec.loader.exec_module

        def exec_module(module):
            # A loader with a method of the program is a change, which no key holds.
            del spec.loader.exec_module
            load(module)
            _idle(module)

        spec.loader.exec_module = exec_module
        return spec


def _idle(module):
    for name in WORK[module.__name__]:
        assert callable(getattr(module, name))
        setattr(module, name, _raising(f"{module.__name__}.{name}"))


def _raising(what):
    def raising(*_arguments, **_keywords):
        raise Forbidden(what)

    return like_kcls(raising)


def like_kcls(function):
    """Return a function that counts as one of kcl's own: keys hold what a program changes inside of the generators."""
    scope = {**function.__globals__, "__name__": "kcl.forbid"}
    return FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
