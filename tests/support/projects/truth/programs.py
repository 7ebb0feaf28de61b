"""Recipes whose programs depend on headers, options and variables of the compiler."""

import os

import kcl
from truth.common import scaled

HERE = os.path.dirname(os.path.abspath(__file__))
KERNELS = os.path.join(HERE, "kernels")
FIRST = os.path.join(HERE, "first")
GUARDED = "#ifndef {0}\n#define {0} 2\n#endif"


def including(text, factor="FACTOR"):
    return scaled(factor, head=text, include_dirs=[FIRST, KERNELS])


@kcl.kernel
def header():
    return including('#include "header.h"')


@kcl.kernel
def header_nested():
    return including('#include "outer.h"')


@kcl.kernel
def header_angled():
    return including("#include <angled.h>")


@kcl.kernel
def header_shadowed():
    return including('#include "shadowed.h"')


@kcl.kernel
def header_nested_shadowed():
    return including("#include <outer_shadowed.h>")


@kcl.kernel
def header_same_second():
    return including('#include "same_second.h"')


@kcl.kernel
def header_macro():
    return including('#define NAME "macro.h"\n#include NAME')


@kcl.kernel
def header_asked():
    return including('#if __has_include("asked.h")\n#define FACTOR 3\n#else\n#define FACTOR 2\n#endif')


@kcl.kernel
def header_macro_option():
    return scaled("FACTOR", head="#include NAME", include_dirs=[FIRST, KERNELS], build_options=["-DNAME=<option.h>"])


@kcl.kernel
def header_macro_either():
    return including('#if 0\n#define NAME "either.h"\n#else\n#define NAME "or.h"\n#endif\n#include NAME')


@kcl.kernel
def header_put_together():
    return including("#define TEXT(x) #x\n#include TEXT(together.h)")


@kcl.kernel
def header_perhaps():
    return including('#if __has_include("perhaps.h")\n#include "perhaps.h"\n#else\n#define FACTOR 2\n#endif')


@kcl.kernel
def header_in_comment():
    return including('#include /* which? */ "commented.h"')


@kcl.kernel
def header_continued():
    return including('#inc\\\nlude "continued.h"')


@kcl.kernel
def header_conditional():
    return including('#if 1\n#include "conditional.h"\n#endif')


@kcl.kernel
def header_link():
    return including('#include "link.h"')


@kcl.kernel
def header_order():
    return scaled("FACTOR", head='#include "order.h"', include_dirs=[FIRST, KERNELS, HERE])


@kcl.kernel
def build_option():
    return scaled("FACTOR", build_options=["-DFACTOR=3"])


@kcl.kernel
def build_option_order():
    return scaled("FACTOR", head=GUARDED.format("FACTOR"), build_options=["-DFACTOR=4", "-DNONE=1"])


@kcl.kernel
def forced_option():
    return scaled("FORCED", head=GUARDED.format("FORCED"))


@kcl.kernel
def pocl_option():
    return scaled("EXTRA", head=GUARDED.format("EXTRA"))


@kcl.kernel
def source_text():
    return scaled(1, head="#pragma OPENCL FP_CONTRACT OFF")
