"""A function of another library in C code: nothing is launched, so this is loopy's own work in every run."""

import numpy as np

import kcl.loopy as lp
from kcl.loopy import LOOPY_USE_LANGUAGE_VERSION_2018_2  # noqa: F401


class Gemv(lp.ScalarCallable):
    """A matrix times a vector, by CBLAS."""

    def with_types(self, arg_id_to_dtype, callables_table):
        if any(arg_id_to_dtype.get(number) is None for number in (0, 1)):
            return self, callables_table
        matrix, vector = (arg_id_to_dtype[number] for number in (0, 1))
        assert matrix == vector
        name = {"f": "cblas_sgemv", "d": "cblas_dgemv"}[vector.numpy_dtype.char]
        dtypes = type(self.arg_id_to_dtype or arg_id_to_dtype)({0: vector, 1: vector, -1: vector})
        return self.copy(name_in_target=name, arg_id_to_dtype=dtypes), callables_table

    def with_descrs(self, arg_id_to_descr, callables_table):
        if any(arg_id_to_descr.get(number) is None for number in (0, 1, -1)):
            return self, callables_table
        return self.copy(arg_id_to_descr=arg_id_to_descr), callables_table

    def emit_call_insn(self, insn, target, expression_to_code_mapper):  # noqa: ARG002
        from pymbolic import var

        rows, columns = self.arg_id_to_descr[0].shape
        matrix, vector = (expression_to_code_mapper(one).expr for one in insn.expression.parameters)
        result = expression_to_code_mapper(insn.assignees[0]).expr
        order = (var("CblasRowMajor"), var("CblasNoTrans"))
        return var(self.name_in_target)(
            *order, rows, columns, 1, matrix, columns, vector, 1, 0, result, 1
        ), False

    def generate_preambles(self, target):  # noqa: ARG002
        yield "99_cblas", "#include <cblas.h>"


n = 10
knl = lp.make_kernel(
    "{:}",
    "y[:] = gemv(A[:, :], x[:])",
    [
        lp.GlobalArg("A", np.float64, shape=(n, n)),
        lp.GlobalArg("x", np.float64, shape=(n,)),
        lp.GlobalArg("y", shape=(n,)),
        ...,
    ],
    target=lp.CTarget(),
    name="times",
)
knl = lp.register_callable(knl, "gemv", Gemv(name="gemv"))
print(lp.generate_code_v2(knl).device_code())
