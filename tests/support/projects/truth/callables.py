"""What loopy knows by name only: callables. Imported by recipes in their bodies, since it imports loopy at its top."""

import loopy as lp
from loopy.types import NumpyType

BODY = "static float called(float x) { return 7*x; }"


class Bare(lp.ScalarCallable):
    """A function of one number."""

    def with_types(self, arg_id_to_dtype, clbl_inf_ctx):
        dtype = arg_id_to_dtype.get(0) or NumpyType("float32")
        named = self.copy(name_in_target=self.name, arg_id_to_dtype={0: NumpyType("float32"), -1: dtype})
        return named, clbl_inf_ctx

    def with_descrs(self, arg_id_to_descr, clbl_inf_ctx):
        return self.copy(arg_id_to_descr=arg_id_to_descr), clbl_inf_ctx


class Called(Bare):
    """The same with code of its own."""

    def generate_preambles(self, target):  # noqa: ARG002
        yield ("10_called", BODY)
