"""kcl.programs.program_key: what counts in the key of a program, part by part, and what does not."""

import os

import pyopencl as cl
import pytest
from program_texts import ADD, INCLUDING, build_on, generated, key

from kcl import drivers
from kcl.errors import UnknownInput
from kcl.programs.program_key import first_kernel, may_read, parsed, passed
from kcl.programs.stage import Build


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
            edited = (
                *identity[:position],
                part._replace(value=part.value + "x"),
                *identity[position + 1 :],
            )
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
        assert key(context, generated(options=("-DADDEND=1", f"-I{empty}"))) == key(
            context, generated()
        )

    def test_of_the_process(self, context, monkeypatch, tmp_path):
        """Working directory, user and number of threads make no difference; nor does another context."""
        before = key(context, generated())
        monkeypatch.chdir(tmp_path)
        for variable in (
            "USER",
            "HOME",
            "POCL_MAX_PTHREAD_COUNT",
            "POCL_MEMORY_LIMIT",
            "PYTHONHASHSEED",
        ):
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
    "source", ["", "kernel void plasma(global int *a) { a[0] = 1; }", "char c = '\\n'; // \"\\t\""]
)
def test_reads_nothing(source):
    """A source without a word that reads something reads nothing. `test_headers` has those that may."""
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


def part(text):
    """Return the value of the key's part."""
    return parsed(text, "").part


class TestPart:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (
                "-cl-mad-enable -cl-no-signed-zeros",
                "-cl-no-signed-zeros  -cl-mad-enable -cl-mad-enable",
            ),
            ("-DA=1", "-D A=1"),
            ("-I/one -DA=1", "-DA=1 -I /two"),
            ('-I"/with a blank" -DA=1', "-DA=1"),
        ],
    )
    def test_equivalent(self, one, other):
        """Switches in any order or twice, blanks, and where headers lie make no difference."""
        assert part(one) == part(other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("-DA=1 -DA=2", "-DA=2 -DA=1"),
            ("-DA=1", "-DA='1'"),
            ("-DA=1", '-DA="1"'),
            ('-DA="1"', '-DA=\\"1\\"'),
            ('-DA="1 2"', "-DA=1 2"),
            ("-DA='1 -DB=2'", "-DA=1 -DB=2"),
            ("-cl-std=CL1.2", "-cl-std=CL2.0"),
            ("-cl-mad-enable", "-cl-fast-relaxed-math"),
            ("-w", ""),
        ],
    )
    def test_different(self, one, other):
        """Order where a later one wins, quotes as they are written, values and switches do."""
        assert part(one) != part(other)


class TestDirectories:
    def test_order(self):
        """Include directories keep their order, both ways of writing them."""
        assert parsed("-I /one -w -I/two /I three", "").directories == ("/one", "/two", "three")

    def test_blank(self, tmp_path):
        """A directory with a blank in its path is quoted where it is there; other words of one option stay."""
        folder = tmp_path / "a b"
        folder.mkdir()
        assert passed([f"-I{folder}", "-I/not there -w", "-DA=1 -w"]) == [
            f'-I"{folder}"',
            "-I/not there -w",
            "-DA=1 -w",
        ]
        assert parsed(passed([f"-I{folder}"])[0], "").directories == (f'"{folder}"',)

    def test_of_the_driver(self, context, monkeypatch, platform_name):
        """Directories that a variable of PoCL's adds are looked at; the variable counts in the device's identity."""
        monkeypatch.setenv("POCL_EXTRA_BUILD_FLAGS", "-I/extra")
        found = Build(context, drivers.of(context)).options(("-I/one",))
        assert ("/extra" in found.directories) is (platform_name == "pocl")
        assert "/extra" not in found.part

    def test_own(self, context):
        """pyopencl's own include directory is the last that is looked at, and in no part."""
        found = Build(context, drivers.of(context)).options(("-I/one",))
        assert found.directories[0] == "/one"
        assert os.path.isfile(os.path.join(found.directories[1], "pyopencl-complex.h"))
        assert os.path.dirname(cl.__file__) not in found.part


class TestUnknown:
    @pytest.mark.parametrize(
        "option",
        [
            *("-include a.h", "-isystem /x", "-idirafter /x", "-iquote /x", "-Xclang x", "@file"),
            *("-Wp,-includea.h", "--include=a"),
        ],
    )
    def test_reads_files(self, option):
        """An option that names files beside the include directories is refused by name, a variable's too."""
        for text, beside in (option, ""), ("", option):
            with pytest.raises(UnknownInput, match=option.split()[0]):
                parsed(text, beside)

    @pytest.mark.parametrize("value", ["__TIME__", "__DATE__", "__has_include(<a.h>)"])
    def test_asks(self, value):
        """A definition that the preprocessor has to look up is refused."""
        with pytest.raises(UnknownInput, match="write the value"):
            parsed(f"-DA={value}", "")

    @pytest.mark.parametrize("text", ['-DA="1', '-DA="1 -I/x"', "-DA=1\\ -I/x", "-DA=1\\"])
    def test_quotes(self, text):
        """Where drivers split the words in different ways nobody can tell what they read."""
        with pytest.raises(UnknownInput, match="different ways"):
            parsed(text, "")
