"""kcl.integrations.programs: which programs are kcl's, what their text is, and what is told of them."""

import json
import re
import sys

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import pytest

import kcl
from kcl import integrations
from kcl.cache import layers
from kcl.integrations import served

SOURCE = "__kernel void add(__global int *out) { out[get_global_id(0)] += N; }"
SOLVER = """import sys
import pyopencl as cl
context = cl.create_some_context(interactive=False)
source = '#include "extra.h"\\n#define NAME lap\\nkernel void NAME(global int *x) { x[0] = EXTRA; }'
for options in (['-I', '.'], ['-DREAL', '-D', 'N=16', '-I', '.']):
    cl.Program(context, source).build(options=options)
"""
pytestmark = [pytest.mark.one_platform, pytest.mark.usefixtures("installed")]


def added(queue, program):
    numbers = cl_array.zeros(queue, 2, np.int32)
    program.add(queue, numbers.shape, None, numbers.data)
    return numbers.get().tolist()


class TestBuild:
    def test_served(self, queue, looks):
        program = cl.Program(queue.context, SOURCE)
        assert program.build("-DN=2") is program
        assert [look[:2] for look in looks] == [("binary", "add")]
        how, is_stored, seconds = program._build_duration_info
        assert (how, is_stored) == ("source build resulting from a binary cache miss", False)
        assert seconds > 0
        assert added(queue, program) == [2, 2]
        assert program.source == SOURCE
        (device,) = queue.context.devices
        assert program.get_build_info(device, cl.program_build_info.OPTIONS).startswith("-DN=2")
        assert program.get_build_info(device, cl.program_build_info.STATUS) == 0

    def test_module_that_cannot_be_imported(self, queue, monkeypatch):
        """A program is built by pyopencl if kcl's part cannot be imported."""
        monkeypatch.delattr(integrations, "served")
        monkeypatch.setitem(sys.modules, "kcl.integrations.served", None)
        program = cl.Program(queue.context, SOURCE).build("-DN=2")
        assert added(queue, program) == [2, 2]

    def test_again(self, queue, looks):
        """Another build of a program makes another one: kernels of the first one stay as they are."""
        program = cl.Program(queue.context, SOURCE).build("-DN=2")
        other = cl.Program(queue.context, SOURCE).build("-DN=2")
        kernel = other.add
        program.build("-DN=3")
        assert [added(queue, program), added(queue, other)] == [[3, 3], [2, 2]]
        assert kernel.function_name == "add"
        assert [look.outcome for look in looks][::2] == ["miss", "miss"]

    def test_compiled(self, queue, looks):
        """A program that was made of a binary is compiled from its source, and so is a header that was built."""
        # Nothing is linked or launched: PoCL 3.0 takes what it has compiled for what it has built, and crashes.
        source = SOURCE + "  // compiled"
        including = f'#include "n.h"\n#if N != 4\n#error\n#endif\n{source}'
        for outcome in ("miss", "hit"):
            program = cl.Program(queue.context, source).build("-DN=2")
            header = cl.Program(queue.context, "#define N 4\n").build()
            assert {look.outcome for look in looks} == {outcome}
            assert program.compile("-DN=3") is program
            cl.Program(queue.context, including).compile(headers=[("n.h", header)])
            assert kcl.flush()
            looks.clear()

    @pytest.mark.parametrize("kind", ["looked into", "binaries", "a cache directory"])
    def test_left_alone(self, queue, looks, tmp_path, kind):
        made = cl.Program(queue.context, SOURCE).build("-DN=5")
        looks.clear()
        program = cl.Program(queue.context, SOURCE)
        if kind == "looked into":
            with pytest.warns(UserWarning, match="Pre-build") as warned:
                assert program.get_info(cl.program_info.SOURCE) == SOURCE
            assert warned[0].filename == __file__
            program.build("-DN=5")
        elif kind == "binaries":
            program = cl.Program(queue.context, queue.context.devices, made.binaries).build()
        else:
            program.build("-DN=5", cache_dir=str(tmp_path))
        assert looks == []
        assert added(queue, program) == [5, 5]

    def test_error(self, queue, monkeypatch):
        """A source that does not compile is compiled once, and its log is there."""
        built, build = [], cl._cl._Program._build

        def count(*given, **named):
            built.append(given)
            return build(*given, **named)

        monkeypatch.setattr(cl._cl._Program, "_build", count)
        program = cl.Program(queue.context, "__kernel void f() { b; }")
        with pytest.raises(cl.RuntimeError, match="BUILD_PROGRAM_FAILURE"):
            program.build()
        assert len(built) == 1
        assert "'b'" in program.get_build_info(queue.context.devices[0], cl.program_build_info.LOG)

    @pytest.mark.parametrize("strict", ["", "hit"])
    def test_error_is_told(self, queue, under, strict):
        """Explanations of a source that does not compile say so, with the compiler's words; nothing is stored."""
        under(KCL_STRICT=strict)
        for _ in range(2):
            with pytest.raises(cl.RuntimeError):
                cl.Program(queue.context, "__kernel void f() { b; }").build()
        (miss,) = kcl.explain("f")
        assert (miss.outcome, miss.times) == ("miss", 2)
        assert "does not compile: " in miss.words[1]
        assert "undeclared identifier 'b'" in miss.words[1]
        assert kcl.entries("binary") == []

    def test_strict_unknown(self, queue, monkeypatch):
        monkeypatch.setenv("KCL_STRICT", "hits")
        layers.reset()
        with pytest.raises(kcl.SettingError, match="'hits' is not one of hit, fault"):
            cl.Program(queue.context, SOURCE).build("-DN=4")

    @pytest.mark.faults
    def test_fault(self, queue, monkeypatch):
        """A fault of kcl leaves the program to pyopencl, with one line."""
        monkeypatch.setattr(served, "_find_stage", lambda _context: 1 / 0)
        with pytest.warns(kcl.CacheWarning, match="build a program"):
            program = cl.Program(queue.context, SOURCE).build("-DN=4")
        assert added(queue, program) == [4, 4]

    def test_directory_with_a_blank(self, context, tmp_path, platform_name):
        """A directory with a blank in one word of the options gives pyopencl's own error."""
        if platform_name != "pocl":
            pytest.skip("pyopencl's own cache, which PoCL does without, ends in a KeyError here")
        folder = tmp_path / "a b"
        folder.mkdir()
        said = []
        for build in (cl.Program.build, cl.Program.build.__wrapped__):
            with pytest.raises(cl.RuntimeError) as refused:
                build(cl.Program(context, SOURCE), [f"-I{folder}", "-DN=2"])
            said.append([line for line in str(refused.value).splitlines() if "option" in line])
        assert said[0] == said[1] != []

    def test_everywhere(self, child):
        """Lists, reports and explanations show the line, the options and the headers, on a hit too."""
        (child.directory / "extra.h").write_text("#define EXTRA 1\n")
        (child.directory / "solver.py").write_text(SOLVER)
        names = "lap(solver.py:6)", "lap(solver.py:6, -DREAL, -DN=16)"

        def said(*words, **variables):
            done = child.python("-m", "kcl", *words, **variables)
            assert done.returncode == 0, done.stderr
            return done.stdout + done.stderr

        said("run", "solver.py")
        explained = said("explain")
        assert all(f"{name}, binary layer: miss\n" in explained for name in names)
        said("flush")
        listed = {
            (entry["kernel"], entry["recipe"], *entry["parameters"]): entry["key"]
            for entry in json.loads(said("ls", "--json"))
        }
        optioned = ("lap", "solver.py:6", "-DREAL", "-DN=16", "extra.h")
        assert listed.keys() == {("lap", "solver.py:6", "extra.h"), optioned}
        shown = said("show", listed[optioned])
        assert "-DREAL, -DN=16, extra.h" in shown
        assert "solver.py:6" in shown
        for printed in (said("run", "solver.py", KCL_REPORT="kernels"), said("report")):
            rows = re.findall(r"^(lap\(.*\)) +(\S+) +(\S+) ", printed, re.MULTILINE)
            assert rows == [(name, "-", "hit") for name in names]
