"""Programs of pyopencl that kcl must build as pyopencl does: what is built, and what is seen of it. Run in children.

A case is a function `(context, queue)` that returns what it saw as JSON; `main` prints what all of them saw. It is run
without kcl, and with `kcl.install()`, cold and warm. See test_unchanged_pyopencl.py.
"""

import json
import pathlib
import re
import sys

import numpy as np
from cases import begin

ADD = """
__kernel void add(__global int *out) { out[get_global_id(0)] += N; }
__kernel void twice(__global int *out) { out[get_global_id(0)] *= 2; }
"""
CASES = {}
OWN = {}  # cases whose programs kcl leaves to pyopencl: a warm run compiles them


def case(function):
    """Add a case that is built by kcl."""
    CASES[function.__name__] = function
    return function


def own(function):
    """Add a case that is pyopencl's own business."""
    OWN[function.__name__] = function
    return function


def launched(queue, kernel, *arguments):
    """Launch a kernel of one array of four ints, and return what it made of zero to three."""
    import pyopencl as cl

    host = np.arange(4, dtype=np.int32)
    mf = cl.mem_flags
    buffer = cl.Buffer(queue.context, mf.READ_WRITE | mf.COPY_HOST_PTR, hostbuf=host)
    kernel(queue, host.shape, None, buffer, *arguments)
    cl.enqueue_copy(queue, host, buffer)
    return host.tolist()


def facts(program):
    """What pyopencl tells of a program that is built."""
    import pyopencl as cl

    info, build = cl.program_info, cl.program_build_info
    device = program.devices[0]
    return {
        "is": type(program).__name__,
        "names": sorted(program.kernel_names.split(";")),
        "number": program.num_kernels,
        "kernels": sorted(kernel.function_name for kernel in program.all_kernels()),
        "source": _own_text(program.source),
        "source too": _own_text(program.get_info(info.SOURCE)),
        "devices": [one.name for one in program.get_info(info.DEVICES)],
        "binaries": [len(one) > 0 for one in program.binaries],
        "status": program.get_build_info(device, build.STATUS),
        "options": program.get_build_info(device, build.OPTIONS),
        "log": program.get_build_info(device, build.LOG).strip(),
        "missing": _failed(lambda: program.there_is_no_such_kernel),
        "attributes": program.add.get_info(cl.kernel_info.NUM_ARGS) if "add" in program.kernel_names else None,
    }


def _own_text(source):
    """A source without the line that pyopencl's cache adds to it."""
    return source.partition("\n\n__constant int pyopencl_defeat_cache_")[0]


def _failed(call):
    try:
        call()
    except Exception as error:
        # Where a source was saved, how the compiler names it, and where the device lies, differs from run to run.
        said = re.sub(r"0x[0-9a-f]+|tmp[^ ]*[.]cl|/[^ :]*/|[\w.-]+(?=:1:[0-9])", "", str(error))
        return f"{type(error).__name__}: {said}"
    return "nothing failed"


@case
def elementwise(context, queue):
    import pyopencl.array as cla
    from pyopencl.elementwise import ElementwiseKernel

    x = cla.to_device(queue, np.arange(7, dtype=np.float32))
    y = cla.empty_like(x)
    ElementwiseKernel(context, "float a, float *x, float *y", "y[i] = a * x[i] + 1", "axpy")(2, x, y)
    return y.get().tolist()


@case
def arrays(_context, queue):
    import pyopencl.array as cla
    import pyopencl.clmath as clmath

    x = cla.arange(queue, 100, dtype=np.float32)
    y = (x * x - 3).astype(np.float64)
    y[3:5] = 7
    return [y.get().tolist(), cla.take(x, cla.to_device(queue, np.array([3, 1], np.int32))).get().tolist()] + [
        round(float(one), 2)
        for one in (cla.sum(y).get(), cla.dot(x, x).get(), cla.max(x).get(), clmath.sin(x).get()[1])
    ]


@case
def reduction(context, queue):
    import pyopencl.array as cla
    from pyopencl.reduction import ReductionKernel

    kernel = ReductionKernel(context, np.int32, "0", "a+b", map_expr="x[i]*x[i]", arguments="__global int *x")
    return int(kernel(cla.to_device(queue, np.arange(1000, dtype=np.int32) % 7)).get())


@case
def scan(context, queue):
    import pyopencl.array as cla
    from pyopencl.scan import ExclusiveScanKernel, InclusiveScanKernel

    found = []
    for kind in (InclusiveScanKernel, ExclusiveScanKernel):
        x = cla.to_device(queue, np.arange(2000, dtype=np.int32) % 5)
        kind(context, np.int32, "a+b", neutral="0")(x)
        found.append(int(x.get()[-1]))
    return found


@case
def sort(context, queue):
    import pyopencl.array as cla
    from pyopencl.algorithm import RadixSort, copy_if

    x = np.random.default_rng(1).integers(0, 1000, 500).astype(np.int32)
    sorter = RadixSort(context, "int *x", key_expr="x[i]", sort_arg_names=["x"])
    (found,), _event = sorter(cla.to_device(queue, x), key_bits=12)
    some, count, _event = copy_if(cla.to_device(queue, x), "ary[i] > 500")
    return [found.get().tolist() == sorted(x.tolist()), int(count.get()), int(some.get()[0])]


@case
def random_numbers(context, queue):
    from pyopencl.clrandom import PhiloxGenerator

    found = PhiloxGenerator(context, seed=3).uniform(queue, 5, np.float32).get()
    return [round(float(one), 5) for one in found]


@case
def by_hand(context, queue):
    import pyopencl as cl

    program = cl.Program(context, ADD).build(["-DN=4"])
    return [launched(queue, program.add), launched(queue, cl.Kernel(program, "twice")), facts(program)]


@case
def kinds_of_options(context, queue):
    import pyopencl as cl

    found = []
    for options in ("-DN=1", "-DN=2 -cl-mad-enable", ["-D", "N=3"], [b"-DN=4"], ("-DN=5",), "-D'N=6'"):
        program = cl.Program(context, ADD.encode() if options == "-DN=1" else ADD)
        found.append(_outcome(lambda program=program, options=options: launched(queue, program.build(options).add)))
    for options in (None, "", []):
        program = cl.Program(context, f"#define N {7 + len(found)}\n{ADD}").build(options)
        found.append(launched(queue, program.add))
    return found


def _outcome(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__


@case
def headers(context, queue):
    import pyopencl as cl

    folder = pathlib.Path("headers")
    folder.mkdir(exist_ok=True)
    (folder / "outer.h").write_text('#include "inner.h"\n')
    if not (folder / "inner.h").exists():
        (folder / "inner.h").write_text("#define N 21\n")
    program = cl.Program(context, f'#include "outer.h"\n{ADD}').build(["-I", str(folder.absolute())])
    return launched(queue, program.add)


@case
def unicode_in_source(context, queue):
    import pyopencl as cl

    return launched(queue, cl.Program(context, "/* Größe */" + ADD).build("-DN=9").add)


@own
def binaries(context, queue):
    import pyopencl as cl

    made = cl.Program(context, ADD + "// binaries").build("-DN=12")
    program = cl.Program(context, context.devices, made.binaries).build()
    return [launched(queue, program.add), sorted(program.kernel_names.split(";"))]


@own
def compiled_and_linked(context, queue):
    import pyopencl as cl

    part = cl.Program(context, ADD).compile(["-DN=13"])
    program = cl.link_program(context, [part])
    return [launched(queue, program.add), sorted(program.kernel_names.split(";"))]


def main(arguments):
    """Print what every case sees: `main([platform, "without" | "cold" | "warm" | "off", case...])`."""
    platform, mode, *names = arguments
    import pyopencl as cl

    import kcl

    if mode != "without":
        kcl.install()
    # pyopencl keeps some of its modules' facts of a device here, and looks for them with programs of its own.
    context, looks, _allow = begin(platform, mode, without_loopy=False)
    queue = cl.CommandQueue(context)
    found = {}
    for name, function in CASES.items() if mode == "warm" else {**CASES, **OWN}.items():
        if names and name not in names:
            continue
        looks.clear()
        found[name] = {
            "seen": function(context, queue),
            "looks": [outcome for layer, _kernel, outcome, _reason in looks if layer == "binary"],
        }
    kcl.flush()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
