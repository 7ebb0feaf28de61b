"""kcl.build.branches: what only C++ reads is blanked, and nothing else."""

from __future__ import annotations

import pytest

from kcl.build.branches import in_c, is_plain_c


def kept(code):
    """Return the lines that are left of a code, without those of conditions."""
    lines = in_c(code).split("\n")
    assert len(lines) == len(code.split("\n"))
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


class TestInC:
    @pytest.mark.parametrize(
        ("code", "left"),
        [
            ("#ifdef __cplusplus\ncpp\n#endif\nc", ["c"]),
            ("#ifdef __cplusplus\ncpp\n#else\nc\n#endif", ["c"]),
            ("#ifndef __cplusplus\nc\n#else\ncpp\n#endif\nafter", ["c", "after"]),
            ("# if defined(__cplusplus)\ncpp\n# endif", []),
            ("#if defined __cplusplus\ncpp\n#endif", []),
            ("#if !defined(__cplusplus)\nc\n#else\ncpp\n#endif", ["c"]),
            ("#if __cplusplus\ncpp\n#endif", []),
            ("#ifdef __cplusplus\n#if X\ncpp\n#else\ncpp\n#endif\ncpp\n#endif\nc", ["c"]),
            ("#ifdef X\na\n#ifdef __cplusplus\ncpp\n#endif\nb\n#endif", ["a", "b"]),
            ("#ifndef __cplusplus\nc\n#elif X\ncpp\n#else\ncpp\n#endif\nc", ["c", "c"]),
        ],
    )
    def test_blanked(self, code, left):
        """A branch that C never takes is gone, with the branches inside of it."""
        assert kept(code) == left

    @pytest.mark.parametrize(
        "code",
        [
            "#ifdef X\na\n#else\nb\n#endif",
            "#ifdef __cplusplus\n#elif X\na\n#else\nb\n#endif",
            "#if defined(__cplusplus) || X\na\n#endif",
            "#if __cplusplus > 1 || 1\na\n#endif",
            "#if X\na\n#elif defined(__cplusplus)\nb\n#else\nc\n#endif",
            "#define __cplusplus 1\n#ifdef __cplusplus\na\n#endif",
            "#undef __cplusplus\n#ifdef __cplusplus\na\n#endif",
            "#ifdef __cplusplus_cli\na\n#endif",
            "#endif\n#else\na",
        ],
    )
    def test_left(self, code):
        """Whatever is not known is left as it is."""
        text = [line for line in code.split("\n") if not line.startswith("#")]
        assert kept(code) == text


class TestIsPlainC:
    @pytest.mark.parametrize("flags", [("-cl-std=CLC++",), ("-cl-std=CLC++2021",), ("-D__cplusplus=1",), ("-xc++",)])
    def test_not(self, flags):
        """Options that ask for C++, or define its macro, say otherwise."""
        assert not is_plain_c(flags)

    def test_plain(self):
        """Other options do not."""
        assert is_plain_c(("-cl-std=CL2.0", "-DN=4", "-cl-fast-relaxed-math"))
