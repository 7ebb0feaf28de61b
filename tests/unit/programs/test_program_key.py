"""kcl.programs.program_key: what counts in the key of a program, part by part, and what does not."""

import os
import re

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
    def test_another_source_definition_or_option_is_another_key(self, context, other):
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

    def test_what_pyopencl_appends_to_every_build_counts_as_if_it_were_given(
        self, context, monkeypatch
    ):
        before = key(context, generated())
        monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "-DADDEND=5")
        assert key(context, generated()) != before

    def test_every_part_of_the_device(self, context):
        """Another platform, driver, device or processor in any one part is another key."""
        build = build_on(context)
        (identity,) = build.identities
        before = build.slots(generated())[0].key
        for position, part in enumerate(identity):
            edited = [*identity]
            edited[position] = part._replace(value=part.value + "x")
            build.identities = [tuple(edited)]
            (difference,) = before.diff(build.slots(generated())[0].key)
            assert difference.name == part.name


def test_noise(context, tmp_path, monkeypatch):
    """No directory is a part: only the headers that are found there; nor are the names of the recipe, or the context."""
    for name in ("one", "two", "empty"):
        (tmp_path / name).mkdir()
    for name in ("one", "two"):
        (tmp_path / name / "addend.h").write_text("#define ADDEND 1\n")
    empty = f"-I{tmp_path}/empty"
    one = key(context, generated(INCLUDING, (f"-I{tmp_path}/one",)))
    assert key(context, generated(INCLUDING, (empty, "-I", f"{tmp_path}/two"))) == one
    assert not any(str(tmp_path) in part.value for part in one.parts)
    other = generated(options=("-DADDEND=1", empty))._replace(kernel="other")
    before = key(context, generated())
    monkeypatch.chdir(tmp_path)
    assert key(cl.Context(context.devices), other) == before


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
        ("kernel void __attribute__((a)) __attribute__ ((b(1), c)) g(", "g"),
        # A search whose time doubles with each attribute never ends here.
        ("kernel " + "__attribute__((a)) " * 200, ""),
    ],
)
def test_a_kernel_is_found_by_its_word_alone_with_underscores_or_without(source, name):
    assert first_kernel(source) == name


def part(text):
    """Return the value of the key's part."""
    return parsed(text, "").part


class TestPart:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("-cl-mad-enable -w", "-w  -cl-mad-enable -cl-mad-enable"),
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
    def test_include_directories_keep_their_order_both_ways_of_writing_them(self):
        assert parsed("-I /one -w -I/two /I three", "").directories == ("/one", "/two", "three")

    def test_blank(self, tmp_path):
        """A directory with a blank in its path is quoted where it is there; other words of one option stay."""
        folder = tmp_path / "a b"
        folder.mkdir()
        others = ["-I/not there -w", "-DA=1 -w"]
        assert passed([f"-I{folder}", *others]) == [f'-I"{folder}"', *others]
        assert parsed(passed([f"-I{folder}"])[0], "").directories == (f'"{folder}"',)

    def test_own(self, context, monkeypatch, platform_name):
        """pyopencl's own directory is looked at after those given, as are those of a variable of PoCL's; none is a part."""
        monkeypatch.setenv("POCL_EXTRA_BUILD_FLAGS", "-I/extra")
        found = Build(context, drivers.of(context)).options(("-I/one",))
        assert found.directories[0] == "/one"
        assert os.path.isfile(os.path.join(found.directories[1], "pyopencl-complex.h"))
        assert ("/extra" in found.directories) is (platform_name == "pocl")
        assert not re.search(f"/extra|{os.path.dirname(cl.__file__)}", found.part)


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

    @pytest.mark.parametrize(
        "value", ["__TIME__", '__DA"TE__"', "__has_include(<a.h>)", "x##y", "x%:%:y"]
    )
    def test_a_definition_that_the_preprocessor_has_to_look_up_is_refused(self, value):
        with pytest.raises(UnknownInput, match="write the value"):
            parsed(f"-DA={value}", "")

    def test_a_definition_of_asm_is_refused(self):
        for value in ("__asm__", "asm", 'a"s"m'):
            with pytest.raises(UnknownInput, match="may let the assembler read"):
                parsed(f"-DA={value}", "")
        assert parsed("-DA=ptxasm -Dmiasm=1", "").flags == ("-DA=ptxasm", "-Dmiasm=1")

    @pytest.mark.parametrize("text", ['-DA="1', '-DA="1 -I/x"', "-DA=1\\ -I/x", "-DA=1\\"])
    def test_quotes(self, text):
        """Where drivers split the words in different ways nobody can tell what they read."""
        with pytest.raises(UnknownInput, match="different ways"):
            parsed(text, "")
