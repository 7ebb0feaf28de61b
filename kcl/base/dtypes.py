"""The texts of numpy dtypes in keys and entries."""

from __future__ import annotations

from typing import Any


def layout_of(dtype: Any) -> Any:
    """Describe a numpy dtype as JSON: a string, or the names, layouts, offsets, size and alignment of its fields.

    Titles of fields are included: pyopencl's vector types have titles.
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


def dtype_text(dtype: Any) -> str:
    """Return the text that stands for a dtype in keys and entries."""
    return dtype.str if dtype.names is None and dtype.subdtype is None else repr(layout_of(dtype))


def structures() -> list[tuple[str, Any]]:
    """List the structures registered with a name in C, which no dtype holds; vectors are left out."""
    from pyopencl.cltypes import vec_type_to_scalar_and_count
    from pyopencl.compyte.dtypes import TYPE_REGISTRY

    return [
        (name, dtype)
        for dtype, name in TYPE_REGISTRY.dtype_to_name.items()
        if getattr(dtype, "names", None) and dtype not in vec_type_to_scalar_and_count
    ]


def dtype_from(layout: Any) -> Any:
    """Build the numpy dtype that `layout_of` described."""
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
