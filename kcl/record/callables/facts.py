"""The facts of a code object: its digest, the names that it reads, and the values that these lead to.

The digest covers the instructions, the constants with their types, and the names; positions and the docstring do not
count. The reads are the globals and cells that the code takes, each with the attributes that stand directly behind it:
`np.linalg.norm(x)` reads `norm` of `linalg` of `np`. An import reads the names that it lists. Any instruction with a
name that is not known here counts as a read of a global. `follow` goes from a global, a cell or an import through
modules to the value that counts.
"""

from __future__ import annotations

import dis
import hashlib
import opcode
import re
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from kcl.record.callables import pure

CURE = "compute it before the call, or give the callable's class a method __kcl_key__() that returns what counts"
GLOBAL, CELL, IMPORT = "global", "closure", "import"
UNKNOWN = "*"  # the module of an import that cannot be read off the instructions

_NOISE = frozenset({"EXTENDED_ARG", "PUSH_NULL", "NOP", "CACHE", "RESUME", "PRECALL", "NOT_TAKEN"})
_TAKES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
# instructions with a name that read no global; a class body stores its own names
_LOCAL = frozenset(
    {"STORE_ATTR", "DELETE_ATTR", "STORE_NAME", "DELETE_NAME", "IMPORT_NAME", "IMPORT_FROM"}
)
_MISSING = object()
_FLAGS = 0xFFFF  # those about parameters and kinds of functions, without the futures of the module


class Reference(NamedTuple):
    """One read: a global or cell with the attributes behind it, or an import with the names that it takes."""

    root: str
    name: str
    attributes: tuple[str, ...]
    level: int


class Facts(NamedTuple):
    """The facts of a code object, with those of the code inside it."""

    digest: str
    reads: tuple[Reference, ...]
    attributes: frozenset[str]  # names of all attributes that it takes of any value
    texts: frozenset[str]  # its constants that may be names of attributes


@lru_cache(maxsize=2048)
def facts(code: CodeType) -> Facts:
    """Return the facts of `code`; memoised, since code does not change."""
    reader = _Reader()
    reader.read(code, frozenset(code.co_freevars))
    digest = hashlib.sha256(_raw(code).encode()).hexdigest()
    return Facts(
        digest,
        tuple(dict.fromkeys(reader.reads)),
        frozenset(reader.attributes),
        frozenset(reader.texts),
    )


def _raw(code: CodeType) -> str:
    constants = [*code.co_consts]
    if constants and type(constants[0]) is str and not _uses_first(code):
        constants[0] = None  # a docstring
    held = (
        code.co_code.hex(),
        [constant(one) for one in constants],
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_name,
        code.co_flags & _FLAGS,
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        getattr(code, "co_exceptiontable", b"").hex(),
    )
    return ascii(held)


def _uses_first(code: CodeType) -> bool:
    return any(one.opcode in opcode.hasconst and one.arg == 0 for one in dis.get_instructions(code))


def constant(value: Any) -> str:
    """Return the text of a constant of code, with its type."""
    kind = type(value)
    if kind is CodeType:
        return f"code {hashlib.sha256(_raw(value).encode()).hexdigest()}"
    if kind is tuple:
        return f"({', '.join(map(constant, value))},)"
    if kind is frozenset:
        return f"frozenset({', '.join(sorted(map(constant, value)))})"
    if kind is slice:
        return f"slice{constant((value.start, value.stop, value.step))}"
    return f"{kind.__name__} {hex(value) if kind is int else ascii(value)}"


class _Reader:
    """One pass over a code object and the code inside it."""

    def __init__(self) -> None:
        self.reads: list[Reference] = []
        self.attributes: set[str] = set()
        self.texts: set[str] = set()

    def read(self, code: CodeType, cells: frozenset[str]) -> None:
        """Read a code object; `cells` are those of the function that it belongs to."""
        listed = [one for one in dis.get_instructions(code) if one.opname not in _NOISE]
        imports = [index for index, one in enumerate(listed) if one.opname == "IMPORT_NAME"]
        modules = dict(filter(None, [self.imported(listed, index) for index in imports]))
        unused = {*modules}
        for index, one in enumerate(listed):
            if "LOAD_FAST" in one.opname and modules:
                # Python 3.13 joins two
                names = one.argval if isinstance(one.argval, tuple) else (one.argval,)
                for name in set(names).intersection(modules):
                    behind = _behind(listed, index + 1) if name not in names[:-1] else ()
                    self.reads.append(modules[name]._replace(attributes=behind))
                    unused.discard(name)
            elif one.opname in _TAKES or one.opname == "LOAD_SUPER_ATTR":
                self.attributes.add(one.argval)
            elif one.opcode in opcode.hasname and one.opname not in _LOCAL:
                self.reads.append(Reference(GLOBAL, one.argval, _behind(listed, index + 1), 0))
            elif "DEREF" in one.opname and one.opname.startswith("LOAD") and one.argval in cells:
                self.reads.append(Reference(CELL, one.argval, _behind(listed, index + 1), 0))
        self.reads += [modules[name] for name in sorted(unused)]
        self.texts.update(_texts(code.co_consts))
        for inner in code.co_consts:
            if type(inner) is CodeType:
                self.read(inner, cells.intersection(inner.co_freevars))

    def imported(self, listed: list[Any], index: int) -> tuple[str, Reference] | None:
        """Note the names that an import takes of its module; return the variable that it makes the module, if any."""
        level, names = (listed[index - 2].argval if index > 1 else None), listed[index - 1].argval
        if not isinstance(level, int) or not isinstance(names, (tuple, type(None))):
            self.reads.append(Reference(IMPORT, UNKNOWN, (), 0))
            return None
        read, store = Reference(IMPORT, listed[index].argval, (), level), listed[index + 1]
        if names is None and store.opname == "STORE_FAST" and "." not in read.name:
            return store.argval, read
        self.reads += [read._replace(attributes=(one,)) for one in names] if names else [read]
        return None


def _texts(constants: tuple[Any, ...]) -> Iterator[str]:
    """Yield the words of the texts among constants: a text may name attributes, as "a.b" or "{0.a}" do."""
    for one in constants:
        if type(one) is str:
            yield from re.findall(r"\w+", one)
        elif type(one) in (tuple, frozenset):
            yield from _texts(tuple(one))


def _behind(listed: list[Any], index: int) -> tuple[str, ...]:
    """Return the attributes that are taken directly behind an instruction."""
    end = index
    while end < len(listed) and listed[end].opname in _TAKES:
        end += 1
    return tuple([one.argval for one in listed[index:end]])


def follow(
    walk: Any, read: Reference, function: FunctionType, cells: Mapping[str, Any], label: str
) -> None:
    """Count what a read of a function's code leads to."""
    if read.root == IMPORT:
        _imported(walk, read, function.__globals__, label)
        return
    value = _value(walk, read, function, cells)
    if value is _MISSING:
        walk.add(f"{read.root} {read.name} in {label}", "<absent>")
    else:
        _chain(walk, f"{read.root} {read.name}", value, read.attributes, label)


def _value(walk: Any, read: Reference, function: Any, cells: Mapping[str, Any]) -> Any:
    if read.root == CELL:
        try:
            return cells[read.name].cell_contents
        except ValueError:
            return _MISSING
    if read.name in function.__globals__:
        return function.__globals__[read.name]
    value = function.__builtins__.get(read.name, _MISSING)
    if getattr(value, "__module__", "").startswith("kcl."):  # kcl's own stands for Python's
        walk.judge(f"builtins.{read.name}")
    return value


def _chain(walk: Any, path: str, value: Any, attributes: tuple[str, ...], label: str) -> None:
    """Count the value that attributes of modules lead to; what stands behind it belongs to the value."""
    for first in attributes:
        if not isinstance(value, ModuleType):
            break
        module, loaded = real_module(value)
        inner = vars(loaded).get(first, sys.modules.get(f"{module}.{first}", _MISSING))
        top = module.partition(".")[0]
        if top == "kcl" or (
            top in pure.GENERATORS and (walk.lenient or not isinstance(inner, ModuleType))
        ):
            _by_name(walk, path, module, first, label)
            return
        is_lazy = inner is _MISSING or "__kcl_lazy_module__" in vars(value)
        if walk.lenient and (is_lazy or not walk.is_walked(module)):
            break
        if inner is _MISSING:
            walk.refuse(
                f"uses {module}.{first}, which the module does not hold now; import it before"
            )
        path, value = f"{path}.{first}", inner
    text = walk.encode(value)
    last = path.rpartition(" ")[2].rpartition(".")[2]
    if text not in (f"function {last}", f"class {last}", f"builtins.{last}"):
        walk.add(f"{path} in {label}", text)


def real_module(module: ModuleType) -> tuple[str, ModuleType]:
    """Return the name of a module, and itself; of a lazy one those of the module that it loads at its first use."""
    lazy = vars(module).get("__kcl_lazy_module__")
    return (
        (lazy, sys.modules.get(lazy, module))
        if isinstance(lazy, str)
        else (module.__name__, module)
    )


def _by_name(walk: Any, path: str, module: str, name: str, label: str) -> None:
    """Count a name of a generator, whose module is loaded or not, or of kcl, which loads its names as they are used."""
    if not walk.lenient and (name == "np" or name in sys.stdlib_module_names):
        walk.refuse(f"uses {module}.{name}, which is no name of its own")
    walk.add(f"{path} {module} in {label}", walk.judge(f"{module}.{name}"))


def _imported(walk: Any, read: Reference, scope: Mapping[str, Any], label: str) -> None:
    """Count an import in the body of a function: the names that it takes of the module."""
    if read.name == UNKNOWN:
        walk.refuse("imports in a way that kcl cannot read")
    module = absolute(read, scope)
    module = "loopy" if module == "kcl.loopy" else module
    if walk.lenient:
        for name in (
            module,
            *[f"{module}.{name}" for name in read.attributes[:1] if walk.is_walked(module)],
        ):
            walk.note_module(name)
        return
    if not read.attributes:
        walk.refuse(
            f"imports {module} in its body in an unusual way; import it at the head of the file"
        )
    is_known = module in sys.modules if walk.is_walked(module) else pure.has_module(module)
    if not is_known:
        walk.refuse(
            f"imports {module}, which is not imported yet or not on kcl's list of what is pure; {CURE}"
        )
    if module.partition(".")[0] not in pure.GENERATORS:
        __import__(module)
    _chain(
        walk,
        f"import {module}",
        sys.modules.get(module) or ModuleType(module),
        read.attributes,
        label,
    )


def absolute(read: Reference, scope: Mapping[str, Any]) -> str:
    """Return the full name of the module that a function imports."""
    if not read.level:
        return read.name
    name = str(scope.get("__name__", ""))
    package = scope.get("__package__") or (name if "__path__" in scope else name.rpartition(".")[0])
    base = str(package).rsplit(".", read.level - 1)[0]
    return f"{base}.{read.name}" if read.name else base
