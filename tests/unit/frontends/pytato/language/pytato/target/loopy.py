"""Programs of a graph, as loopy launches them."""

import warnings
from dataclasses import dataclass
from typing import Any

import carried
import loopy as lp
from constantdict import constantdict

from pytato.array import DataWrapper, Placeholder, Scaled, Sum


class LoopyPyOpenCLTarget:
    pass


@dataclass(repr=False, eq=False)
class BoundPyOpenCLProgram:
    program: Any
    bound_arguments: Any
    target: Any

    def bind_to_context(self, context, allocator=None):
        assert allocator is None
        return BoundPyOpenCLExecutable(
            self.program.executor(context),
            constantdict(self.bound_arguments),
            self.target,
            context,
        )


@dataclass(repr=False, eq=False)
class BoundPyOpenCLExecutable:
    program: Any
    bound_arguments: Any
    target: Any
    cl_context: Any

    def with_transformed_translation_unit(self, f):
        return BoundPyOpenCLExecutable(
            f(self.program.t_unit).executor(self.cl_context),
            self.bound_arguments,
            self.target,
            self.cl_context,
        )

    def __call__(self, queue, allocator=None, wait_for=None, **given):
        names = self.program.t_unit.default_entrypoint.arg_dict
        given = {**self.bound_arguments, **given}
        given = {name: one for name, one in given.items() if name in names}
        return self.program(queue, allocator=allocator, wait_for=wait_for, **given)

    @property
    def kernel(self):
        return self.program.t_unit.default_entrypoint


def generate_loopy(
    result, target=None, options=None, *, function_name="_pt_kernel", cl_device=None
):
    carried.calls.append("generate_loopy")
    if cl_device is not None:
        warnings.warn("passing a device is deprecated", DeprecationWarning, stacklevel=2)
    bound, lengths, statements = {}, set(), []
    dtypes = {}

    def text(node):
        if isinstance(node, Placeholder):
            lengths.add(node.shape[0])
            dtypes[node.name] = node.dtype
            return f"{node.name}[i]"
        if isinstance(node, DataWrapper):
            name = next(
                (name for name, one in bound.items() if one is node.data), f"data{len(bound)}"
            )
            bound[name] = node.data
            lengths.add(node.shape[0])
            dtypes[name] = node.data.dtype
            return f"{name}[i]"
        if isinstance(node, Sum):
            return f"({' + '.join(map(text, node.arrays))})"
        assert isinstance(node, Scaled)
        return f"{float(node.factor)!r} * {text(node.array)}"

    for name, node in result._data.items():
        statements.append(f"{name}[i] = {text(node)}")
    (length,) = lengths
    unit = lp.make_kernel(
        f"{{[i]: 0<=i<{length}}}",
        statements,
        name=function_name,
        options=options,
        lang_version=(2018, 2),
    )
    return BoundPyOpenCLProgram(
        lp.add_dtypes(unit, dtypes), bound, LoopyPyOpenCLTarget() if target is None else target
    )
