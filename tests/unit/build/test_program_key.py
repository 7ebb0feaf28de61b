"""kcl.build.program_key: what counts in the key of a program, part by part, and what does not."""

import pyopencl as cl
import pytest
from program_texts import ADD, INCLUDING, build_on, generated, key

from kcl.build.program_key import first_kernel, may_read


class TestKeyChanges:
    @pytest.mark.parametrize(
        "other",
        [
            generated(ADD.replace("+=", "-=")),
            generated(ADD + " "),
            generated(options=("-DADDEND=2",)),
            generated(options=("-DADDEND=1", "-cl-fast-relaxed-math")),
            generated(options=("-DADDEND=1", "-cl-std=CL1.2")),
            generated(options=("-DADDEND=1", "-w")),
            generated(options=()),
        ],
    )
    def test_source_and_options(self, context, other):
        """Another source, definition or option is another key."""
        assert key(context, other) != key(context, generated())

    def test_header(self, context, tmp_path):
        """The content of a header that the source includes is a part, whichever directory comes first."""
        for name, value in (("one", 1), ("two", 2)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "addend.h").write_text(f"#define ADDEND {value}\n")
        one, two = f"-I{tmp_path}/one", f"-I{tmp_path}/two"
        before = key(context, generated(INCLUDING, (one, two)))
        assert key(context, generated(INCLUDING, (two, one))) != before
        (tmp_path / "one" / "addend.h").write_text("#define ADDEND 3\n")
        (difference,) = before.diff(key(context, generated(INCLUDING, (one, two))))
        assert difference.name == "header addend.h"

    def test_options_of_the_environment(self, context, monkeypatch):
        """What pyopencl appends to every build counts as if it were given."""
        before = key(context, generated())
        monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "-DADDEND=5")
        assert key(context, generated()) != before

    def test_every_part_of_the_device(self, context):
        """Another platform, driver, device or processor in any one part is another key."""
        build = build_on(context)
        (identity,) = build.identities
        before = build.slots(generated())[0].key
        for position, part in enumerate(identity):
            edited = (*identity[:position], part._replace(value=part.value + "x"), *identity[position + 1 :])
            build.identities = [edited]
            (difference,) = before.diff(build.slots(generated())[0].key)
            assert difference.name == part.name


class TestKeyNoise:
    def test_include_path(self, context, tmp_path):
        """Directories are no part: only the headers that are found in them."""
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "addend.h").write_text("#define ADDEND 1\n")
        empty = tmp_path / "empty"
        empty.mkdir()
        one = key(context, generated(INCLUDING, (f"-I{tmp_path}/one",)))
        assert key(context, generated(INCLUDING, (f"-I{empty}", "-I", f"{tmp_path}/two"))) == one
        assert not any(str(tmp_path) in part.value for part in one.parts)
        assert key(context, generated(options=("-DADDEND=1", f"-I{empty}"))) == key(context, generated())

    def test_of_the_process(self, context, monkeypatch, tmp_path):
        """Working directory, user and number of threads make no difference; nor does another context."""
        before = key(context, generated())
        monkeypatch.chdir(tmp_path)
        for variable in ("USER", "HOME", "POCL_MAX_PTHREAD_COUNT", "POCL_MEMORY_LIMIT", "PYTHONHASHSEED"):
            monkeypatch.setenv(variable, "7")
        assert key(cl.Context(context.devices), generated()) == before

    @pytest.mark.slow_platforms
    def test_in_every_process(self, child, context):
        """Another process with another hash seed, working directory and import order makes the same key."""
        code = """
            import sys, pyopencl.array, numpy, os
            os.chdir("/")
            import pyopencl as cl, program_texts, json
            (platform,) = [p for p in cl.get_platforms() if p.name == sys.argv[1]]
            found = program_texts.key(cl.Context(platform.get_devices()), program_texts.generated())
            print(json.dumps(found.digest))
            """
        name = context.devices[0].platform.name
        assert child.json(code, name, PYTHONHASHSEED="3") == key(context, generated()).digest

    def test_kernel_name_is_noise(self, context):
        """What the recipe is called is no part of the program."""
        assert key(context, generated()._replace(kernel="other")) == key(context, generated())


@pytest.mark.parametrize(
    "source",
    [
        '#include "a.h"',
        "#inc\\\nlude <a.h>",
        "#inc\\ \t\r\nlude <a.h>",
        "%:include X",
        "??=include X",
        "#if __has_include(<a.h>)",
        "constant char now[] = __TIME__;",
        "/* include */",
    ],
)
def test_may_read(source):
    """A word that reads something, a line that is continued, or a digraph says that the source may read."""
    assert may_read(source)


@pytest.mark.parametrize("source", ["", "kernel void f(global int *a) { a[0] = 1; }", "char c = '\\n'; // \"\\t\""])
def test_reads_nothing(source):
    """A source without any of them reads nothing, whatever escapes its texts have."""
    assert not may_read(source)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("__kernel void a(", "a"),
        ("kernel\nvoid b()", "b"),
        ("mykernel void c() kernel void d(", "d"),
        ("x__kernel void e()", ""),
        ("kernel __attribute__((reqd_work_group_size(1, 1, 1))) void f(", "f"),
    ],
)
def test_first_kernel(source, name):
    """A kernel is found by its word alone, with underscores or without."""
    assert first_kernel(source) == name
