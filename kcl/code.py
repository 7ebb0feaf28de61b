"""Code: the output of a front end for a recipe's result, and the functions that make it ready to launch.

Dtypes are texts here, as in keys and in entries. A *row* is the entry of the generator layer for one code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

# For each argument that the caller gives as one object array: (index, name) of the argument for each element.
Packed = dict[str, list[tuple[Any, str]]]


class Argument(NamedTuple):
    """One argument of a kernel: its dtype as text (empty if the recipe left it open), and whether it is required.

    Made by a front end or of a row; ends in the launcher and in the messages of refused calls.
    """

    name: str
    kind: str
    dtype: str
    required: bool


class ProgramText(NamedTuple):
    """The input of a program's build: OpenCL C, build options, and the entry points, for the kernel of this name.

    Made by a front end, of a row, or of a program that was not written for kcl; ends in the second stage. `kernels` is
    empty if the entry points are not known before the program is built.
    """

    kernel: str
    source: str
    options: tuple[str, ...]
    kernels: tuple[str, ...]

    @property
    def source_digest(self) -> str:
        """Digest of the OpenCL C alone: the entry of the code and the entries of its programs share it."""
        return hashlib.sha256(self.source.encode("utf-8", "surrogatepass")).hexdigest()


class Invoker(NamedTuple):
    """The Python source that launches a program, the name of its function, and its needs.

    Made by a front end or of a row; ends as the function of LaunchableCode.

    `packed` maps an argument that the caller gives as one object array to the arguments for its elements: a list of
    (index, name). `dtypes` lists the structure types that the invoker looks up by name, with their field layout.
    `inferred` has the dtypes that the front end found for arguments that the recipe left open. `shown` says where the user
    wants to see the OpenCL C (True: printed; a path: written there). `warned` lists the warnings that the front end gave
    while it generated the code, with the fields of `kcl.frontends.loopy.proofs.WarningFact`.
    """

    front_end: str
    source: str
    function: str
    arguments: tuple[Argument, ...]
    inferred: dict[str, str]
    packed: Packed
    dtypes: list[tuple[str, Any]]
    shown: bool | str = False
    warned: tuple[tuple[str, str, str, str, int], ...] = ()


class Code(NamedTuple):
    """The output of a front end for a recipe's result: a program text, and the invoker that launches the program.

    Made by a front end or of a row; ends in LaunchableCode.
    """

    text: ProgramText
    invoker: Invoker

    @property
    def digest(self) -> str:
        """Digest of everything that a launch depends on; codes with equal digests share a launcher."""
        hasher = hashlib.sha256()
        text, invoker = self
        beside = repr((text.options, invoker.function, invoker.packed, invoker.dtypes))
        for part in (text.source, invoker.source, beside):
            data = part.encode("utf-8", "surrogatepass")
            hasher.update(len(data).to_bytes(8, "little"))
            hasher.update(data)
        return hasher.hexdigest()

    def with_options(self, options: tuple[str, ...]) -> Code:
        """Return the code with other build options."""
        return self._replace(text=self.text._replace(options=options))


class LaunchableCode(NamedTuple):
    """Generated code with its invoker, and the digest under which launchers are bound.

    Made by the first stage; ends in the launcher.

    `choice` has the dtypes that this call gave for arguments that the recipe left open. `headers` is the digest of the
    headers' contents when the code was made ready for a context, followed by the line's own name if it shares no program.
    """

    code: Code
    invoke: Callable[..., Any]
    digest: str
    choice: tuple[Any, ...] = ()
    headers: str = ""


def made_ready(generated: Code, code: CodeType | None = None) -> LaunchableCode:
    """Execute the invoker's source; it defines `function(kernels, queue, allocator, wait_for, out_host, **arguments)`.

    Registers the structure dtypes that the invoker looks up. Raises ValueError if a name already stands for another
    layout, and the errors of executing the invoker's source.
    """
    for name, layout in generated.invoker.dtypes:
        _register(name, layout)
    name = file_name(generated)
    namespace: dict[str, Any] = {"__name__": name}
    exec(code or compile(generated.invoker.source, name, "exec"), namespace)
    return LaunchableCode(generated, namespace[generated.invoker.function], generated.digest)


def show(generated: Code) -> None:
    """Print or write the OpenCL C where the user wants it, as loopy's executor does, but without colours."""
    target = generated.invoker.shown
    if target is True:
        print(generated.text.source)
    else:
        with open(str(target), "w") as stream:
            stream.write(generated.text.source)


def file_name(generated: Code) -> str:
    """Return the file name that tracebacks show for the invoker."""
    return f"<kcl invoker of {generated.text.kernel}>"


def _register(name: str, layout: Any) -> None:
    from pyopencl.tools import get_or_register_dtype

    wanted = dtype_from(layout)
    try:
        present = get_or_register_dtype(name)
    except Exception:
        # The name is not registered yet.
        present = get_or_register_dtype(name, wanted)
    if present != wanted:
        raise ValueError(f"the structure {name!r} is registered with another layout: {present}")


def layout_of(dtype: Any) -> Any:
    """Describe a numpy dtype as JSON: a string, or the names, layouts, offsets, size and alignment of its fields.

    Titles of fields are included, since pyopencl's vector types have them.
    """
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return {"base": layout_of(base), "shape": list(shape)}
    if dtype.names is None:
        return dtype.str
    titles = [
        dtype.fields[name][2] if len(dtype.fields[name]) > 2 else None for name in dtype.names
    ]
    return {
        **({"titles": titles} if any(titles) else {}),
        "names": list(dtype.names),
        "formats": [layout_of(dtype.fields[name][0]) for name in dtype.names],
        "offsets": [int(dtype.fields[name][1]) for name in dtype.names],
        "itemsize": int(dtype.itemsize),
        "aligned": bool(dtype.isalignedstruct),
    }


def dtype_from(layout: Any) -> Any:
    """Return the numpy dtype of a layout from `layout_of`."""
    import numpy as np

    if isinstance(layout, str):
        return np.dtype(layout)
    if "base" in layout:
        return np.dtype((dtype_from(layout["base"]), tuple(layout["shape"])))
    described: Any = {
        "names": layout["names"],
        "formats": [dtype_from(part) for part in layout["formats"]],
        "offsets": layout["offsets"],
        "itemsize": layout["itemsize"],
    }
    if "titles" in layout:
        described["titles"] = layout["titles"]
    return np.dtype(described, align=layout["aligned"])


def dtype_text(dtype: Any) -> str:
    """Return the text that stands for a dtype in keys and entries."""
    return dtype.str if dtype.names is None and dtype.subdtype is None else repr(layout_of(dtype))


def structures() -> list[tuple[str, Any]]:
    """List the structure types that are registered with pyopencl, with their names in C; vector types are left out."""
    from pyopencl.cltypes import vec_type_to_scalar_and_count
    from pyopencl.compyte.dtypes import TYPE_REGISTRY

    return [
        (name, dtype)
        for dtype, name in TYPE_REGISTRY.dtype_to_name.items()
        if getattr(dtype, "names", None) and dtype not in vec_type_to_scalar_and_count
    ]
