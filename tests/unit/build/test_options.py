"""kcl.build.options: what of the build options counts, and what the driver gets."""

import os

import pyopencl as cl
import pytest

from kcl import drivers
from kcl.build.options import parsed, passed
from kcl.build.stage import Build
from kcl.errors import UnknownInput


def part(text):
    """Return the value of the key's part."""
    return parsed(text, "").part


class TestPart:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("-cl-mad-enable -cl-no-signed-zeros", "-cl-no-signed-zeros  -cl-mad-enable -cl-mad-enable"),
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
            "-include a.h",
            "-isystem /x",
            "-idirafter /x",
            "-iquote /x",
            "-Xclang x",
            "@file",
            "-Wp,-includea.h",
            "--include=a",
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
