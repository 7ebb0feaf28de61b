"""kcl.frontends.source.parameters: which declarations the list of parameters in the text contradicts."""

import numpy as np
import pytest
from pyopencl import cltypes

import kcl
from kcl.frontends.source.parameters import refuse_unlike

pytestmark = pytest.mark.one_platform


def declared(parameter, argument, head="", **keywords):
    return kcl.Source(
        f"{head}\nkernel void f({parameter}) {{ }}", entry="f", arguments=[argument], **keywords
    )


def array(dtype):
    return kcl.Array("x", dtype, 4)


def scalar(dtype):
    return kcl.Scalar("x", dtype)


OF_OTHER_TYPES = [
    *("global float4 *x", "global real *x", "global struct s *x", "global void *x"),
    *("global float **x", "global float x[]", "REAL float *x", "global float *", "float x"),
    *("global float *x, int n", "", "PARAMETERS"),
]


class TestDtype:
    """A dtype that cannot be the parameter's gives wrong numbers, and OpenCL says nothing of it."""

    @pytest.mark.parametrize(
        ("parameter", "argument", "wanted"),
        [
            ("global const float *x", array(np.float64), "float32"),
            ("global const float *x", array(np.int32), "float32"),
            ("__global double *restrict x", array(np.float32), "float64"),
            ("const volatile __constant int *const x", array(np.int64), "int32"),
            ("global /* of n */ int *x", array(np.float32), "int32"),
            ("global\nuint *x", array(np.int64), "uint32"),
            ("global unsigned *x", array(np.uint8), "uint32"),
            ("global short int *x", array(np.int8), "int16"),
            ("global int short unsigned *x", array(np.int32), "uint16"),
            ("global long *x", array(np.int32), "int64"),
            ("global unsigned long int *x", array(np.float64), "uint64"),
            ("global half *x", array(np.float32), "float16"),
            ("int x", scalar(np.int64), "int32"),
            ("const float x", scalar(np.int32), "float32"),
            ("signed x", scalar(np.float32), "int32"),
        ],
    )
    def test_refused(self, parameter, argument, wanted):
        """Another size, and a floating dtype for integers or the reverse, are refused with the dtype to declare."""
        with pytest.raises(kcl.RecipeError) as raised:
            refuse_unlike(declared(parameter, argument))
        words = " ".join(parameter.replace("/* of n */", "").split())
        assert str(raised.value) == (
            f"kcl.Source 'f': argument 'x' is declared with the dtype {np.dtype(argument.dtype)}, and its parameter in "
            f"the OpenCL C is {words!r}; declare it with np.{wanted}"
        )

    @pytest.mark.parametrize(
        ("parameter", "argument"),
        [
            ("global const float *x", array(np.float32)),
            ("global int *x", array(np.uint32)),
            ("global char *x", array(np.bool_)),
            ("global const unsigned char *x", array(np.float64)),  # its bytes
            ("global float *x", array(">f4")),
            ("global float *x", array(np.complex64)),
            ("global float *x", array(np.dtype([("a", np.float32), ("b", np.int32)]))),
            ("global float *x", array(np.dtype((np.float32, (3,))))),
            *[(parameter, array(np.float64)) for parameter in OF_OTHER_TYPES],
            ("global long long *x", array(np.int32)),
            ("global half *x", array(np.uint16)),
            ("global ushort *x", array(np.float16)),
            ("unsigned int", scalar(np.float64)),
            ("size_t x", scalar(np.int32)),
            ("float4 x", scalar(cltypes.float4)),
            ("float *x", scalar(np.float64)),
            ("local double *x", kcl.Local("x", np.uint8, 64)),
            ("local int *x", kcl.Local("x", np.float32, 64)),
            ("read_only image2d_t x", kcl.Image("x")),
        ],
    )
    def test_let_through(self, parameter, argument):
        """Nothing is said of a dtype that fits, of other types, and of what is no plain list."""
        refuse_unlike(declared(parameter, argument))

    @pytest.mark.parametrize(
        ("head", "options"),
        [
            ("#define float double", []),
            ("# define float double", []),
            ("#ifdef WIDE\n#define float double\n#endif", []),
            ("typedef unsigned long\n  float;", []),
            *[
                ("", ["-Dfloat=double"]),
                ("", ["-D", "float=double"]),
                ("", ["-DA -D float=double"]),
            ],
            ('#include "types.h"', []),
        ],
    )
    def test_defined(self, head, options):
        """A word that the text or an option defines may stand for another type, and a header may define any."""
        refuse_unlike(declared("global float *x", array(np.float64), head, build_options=options))

    @pytest.mark.parametrize(
        "head", ["#define floating double", "// #define float double", "/* #define float */"]
    )
    def test_not_defined(self, head):
        """Another word, and a comment, define nothing."""
        more = {"build_options": ["-Dfloating=double"]}
        with pytest.raises(kcl.RecipeError, match=r"np\.float32"):
            refuse_unlike(declared("global float *x", array(np.float64), head, **more))

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_several_lists(self, dtype):
        """The preprocessor chooses between lists, so one that fits is enough."""
        head = "#ifdef WIDE\nkernel void f(global double *x) { }\n#else"
        refuse_unlike(declared("global float *x", array(dtype), head))
        with pytest.raises(kcl.RecipeError, match=r"'global double \*x'"):
            refuse_unlike(declared("global float *x", array(np.int16), head))

    def test_call(self, queue):
        """The first call refuses it, with the name of the kernel."""

        @kcl.kernel
        def wide():
            return declared("global float *x", kcl.Array("x", np.float64, 4, "out"), global_size=1)

        words = r"'f': argument 'x' is declared with the dtype float64, .*np\.float32"
        with pytest.raises(kcl.RecipeError, match=words):
            wide()(queue)


class TestOrder:
    """Names that the text and the declarations share stand in one order."""

    @pytest.mark.parametrize(
        ("parameters", "names"),
        [
            (["x y n"], "y x n"),
            (["in out factor n"], "out source factor n"),
            (["in x y n"], "source y x n"),
            (["x y n"], "y x"),
            (["x y n"], "a y x n m"),
            (["x y n", "x n y"], "y n x"),
        ],
    )
    def test_refused(self, parameters, names):
        """Shared names in another order, or in another place of a list as long, are refused with both lists."""
        with pytest.raises(kcl.RecipeError) as raised:
            refuse_unlike(listed(parameters, names))
        given, first = ", ".join(names.split()), ", ".join(parameters[0].split())
        assert f"in the order {given}, and the kernel has the parameters {first};" in str(
            raised.value
        )

    @pytest.mark.parametrize(
        ("parameters", "names"),
        [
            (["x y n"], "x y n"),
            (["in y n"], "source y n"),
            (["in out n"], "source target n"),
            (["in out"], "out source"),
            (["x y n"], "x n"),
            (["x y n"], "x y n m"),
            (["x y n", "y x n"], "y x n"),
            (["x y n", "p q"], "y x n"),
            (["x y n", "x y z"], "x y z"),
            ([""], "x y"),
            ([], "x y"),
        ],
    )
    def test_let_through(self, parameters, names):
        """Nothing is said of lists that share fewer than two names, nor of another number of arguments."""
        refuse_unlike(listed(parameters, names))


def listed(parameters, names):
    """Return a Source with lists of parameters, between which the preprocessor chooses."""
    lists = [", ".join(f"global T *{name}" for name in one.split()) for one in parameters]
    text = "#define T float\n" + "\n".join(f"kernel void f({one}) {{ }}" for one in lists)
    return kcl.Source(
        text, entry="f", arguments=[kcl.Array(name, np.float32, 4) for name in names.split()]
    )
