"""Generated: what a front end made of a recipe's result, and its form as an entry of the generator layer."""

from __future__ import annotations

import hashlib
import importlib.util
import marshal
import sys
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any

from kcl.cache.entry import Entry
from kcl.errors import DamagedEntry
from kcl.namedtuple import NamedTuple
from kcl.record.dtypes import dtype_from

if TYPE_CHECKING:
    from kcl.cache.key import Key


class Argument(NamedTuple):
    """One argument of a kernel: its dtype as text (empty where the recipe left it open), and who must give it."""

    name: str
    kind: str
    dtype: str
    required: bool


class Generated(NamedTuple):
    """OpenCL C, the Python source that launches it, and what both need.

    `packed` maps an argument that the caller gives as one object array to the arguments that it is taken apart
    into: a list of (index, name). `dtypes` lists the structure types that the invoker looks up by name, with their
    field layout. `inferred` holds the dtypes that the front end found for arguments that the recipe left open. `shown`
    says where the user wants to see the OpenCL C (True: printed; a path: written there), and whether in colours.
    """

    kernel: str
    front_end: str
    source: str
    options: tuple[str, ...]
    kernels: tuple[str, ...]
    invoker: str
    function: str
    arguments: tuple[Argument, ...]
    inferred: dict[str, str]
    packed: dict[str, list[tuple[Any, str]]]
    dtypes: list[tuple[str, Any]]
    shown: tuple[bool | str, bool] = (False, False)

    @property
    def digest(self) -> str:
        """Digest of everything that a launch depends on; equal contents are bound once."""
        hasher = hashlib.sha256()
        beside = repr((self.options, self.function, self.packed, self.dtypes))
        for text in (self.source, self.invoker, beside):
            data = text.encode("utf-8", "surrogatepass")
            hasher.update(len(data).to_bytes(8, "little"))
            hasher.update(data)
        return hasher.hexdigest()


def to_entry(generated: Generated, key: Key, metadata: dict[str, Any]) -> Entry:
    """Pack `generated` under `key`; `metadata` is added to the entry's own."""
    code = compile(generated.invoker, file_name(generated), "exec")
    described = {
        "kernel": generated.kernel,
        "front_end": generated.front_end,
        "options": list(generated.options),
        "kernels": list(generated.kernels),
        "function": generated.function,
        "arguments": [list(argument) for argument in generated.arguments],
        "inferred": generated.inferred,
        "packed": [[name, [[_index(i), sub] for i, sub in pairs]] for name, pairs in generated.packed.items()],
        "dtypes": [list(pair) for pair in generated.dtypes],
        "shown": list(generated.shown),
        "code": _code_version(),
    }
    return Entry(
        key,
        {**described, **metadata},
        {
            "source.cl": generated.source.encode("utf-8", "surrogatepass"),
            "invoker.py": generated.invoker.encode("utf-8", "surrogatepass"),
            "invoker.code": marshal.dumps(code),
        },
    )


def from_entry(entry: Entry) -> tuple[Generated, CodeType | None]:
    """Unpack an entry of the generator layer; the code object is None where another Python wrote it.

    Raises DamagedEntry for whatever goes wrong, as where a field is missing or of another type.
    """
    metadata = entry.metadata
    try:
        generated = Generated(
            kernel=metadata["kernel"],
            front_end=metadata["front_end"],
            source=entry.parts["source.cl"].decode("utf-8", "surrogatepass"),
            options=tuple(metadata["options"]),
            kernels=tuple(metadata["kernels"]),
            invoker=entry.parts["invoker.py"].decode("utf-8", "surrogatepass"),
            function=metadata["function"],
            arguments=tuple(Argument(*fields) for fields in metadata["arguments"]),
            inferred=metadata["inferred"],
            packed={name: [(_tuple(i), sub) for i, sub in pairs] for name, pairs in metadata["packed"]},
            dtypes=[(name, layout) for name, layout in metadata["dtypes"]],
            shown=tuple(metadata["shown"]),
        )
        code = marshal.loads(entry.parts["invoker.code"]) if metadata["code"] == _code_version() else None
    except Exception as error:  # whatever marshal or an unknown form of an entry may raise
        raise DamagedEntry(f"not an entry of the generator layer: {error!r}") from error
    return generated, code


def instantiate(generated: Generated, code: CodeType | None = None) -> Callable[..., Any]:
    """Return the invoker as a function `(kernels, queue, allocator, wait_for, out_host, **arguments)`.

    Registers the structure dtypes that the invoker looks up; raises ValueError where a name stands for another
    layout already, and whatever the invoker raises as it is executed.
    """
    for name, layout in generated.dtypes:
        _register(name, layout)
    name = file_name(generated)
    namespace: dict[str, Any] = {"__name__": name}
    exec(code or compile(generated.invoker, name, "exec"), namespace)
    _show_in_tracebacks(name, generated.invoker)
    return namespace[generated.function]  # type: ignore[no-any-return]


def show(generated: Generated) -> None:
    """Print or write the OpenCL C where the user asked for that, as loopy's executor does."""
    target, colours = generated.shown
    if not target:
        return
    text = _coloured(generated.source) if colours else generated.source
    if target is True:
        print(text)
    else:
        with open(str(target), "w") as stream:
            stream.write(text)


def _coloured(source: str) -> str:
    try:
        from pygments import highlight
        from pygments.formatters import TerminalFormatter
        from pygments.lexers import CLexer
    except ImportError:
        return source
    return str(highlight(source, CLexer(), TerminalFormatter()))


def file_name(generated: Generated) -> str:
    """Name the invoker in tracebacks."""
    return f"<kcl invoker of {generated.kernel}>"


def _register(name: str, layout: Any) -> None:
    from pyopencl.tools import get_or_register_dtype

    wanted = dtype_from(layout)
    try:
        present = get_or_register_dtype(name)
    except Exception:
        present = get_or_register_dtype(name, wanted)
    if present != wanted:
        raise ValueError(f"the structure {name!r} is registered with another layout: {present}")


def _show_in_tracebacks(name: str, source: str) -> None:
    # linecache takes a one-tuple as "ask later", so no line is split until a traceback wants it.
    import linecache

    linecache.cache[name] = (lambda: source,)


def _code_version() -> str:
    return f"{importlib.util.MAGIC_NUMBER.hex()}-{sys.flags.optimize}"


def _index(index: Any) -> Any:
    return list(index) if isinstance(index, tuple) else index


def _tuple(index: Any) -> Any:
    return tuple(index) if isinstance(index, list) else index
