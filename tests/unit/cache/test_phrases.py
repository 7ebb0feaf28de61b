"""Parts of keys in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcl.cache import phrases
from kcl.cache.phrases import About, Difference, Origin, sentence

ONE, OTHER = "1" * 64, "2" * 64
RECIPE = About(
    recipe="code matmul",
    origins={
        "code matmul": Origin("driver", 10),
        "code tile": Origin("geometry", 3),
        "code edge": Origin("driver", 30),
        "class Layout": Origin("geometry", 9),
    },
    line=lambda _name: 12,
)
PROGRAM = About(binary=True)


class TestSentences:
    """What is said of a part is what the user changed."""

    @pytest.mark.parametrize(
        ("name", "before", "after", "said"),
        [
            ("code matmul", ONE, OTHER, "recipe `matmul`: body changed at line 12"),
            ("code tile", ONE, OTHER, "helper `tile` in geometry changed"),
            ("code edge", ONE, OTHER, "helper `edge` changed"),
            ("code tile", None, OTHER, "helper `tile` in geometry is used now"),
            ("code tile", ONE, None, "helper `tile` in geometry is not used any more"),
            (
                "class Layout",
                f"sha256 {ONE}",
                f"sha256 {OTHER}",
                "class `Layout` in geometry changed",
            ),
            ("class Layout", None, "bases object", "class `Layout` in geometry is used now"),
            ("parameter block", "16", "32", "parameter block: 16 -> 32"),
            ("parameter dtype", "dtype('<f4')", "dtype('<f8')", "dtype: float32 -> float64"),
            ("parameter table", f"sha256 {ONE}", f"sha256 {OTHER}", "parameter table changed"),
            ("parameter table", f"[{'1, ' * 90}7]", f"[{'1, ' * 90}8]", "1, 7] -> ..., 1, "),
            (
                "parameter a",
                f"array({ONE})",
                f"array({OTHER})",
                "array(11111111) -> array(22222222)",
            ),
            ("parameter by", None, "2", "parameter by is new: 2"),
            ("parameter by", "2", None, "parameter by is no longer there"),
            ("default by in matmul", "1", "2", "default of by in `matmul`: 1 -> 2"),
            ("closure factor in scale", "5", "6", "closure variable factor of `scale`: 5 -> 6"),
            ("global TILE in matmul", "7", "8", "global TILE in `matmul`: 7 -> 8"),
            ("module geometry", ONE, OTHER, "module geometry changed"),
            ("declared version", "'1'", "'2'", "declared version: '1' -> '2'"),
            ("depends 0", "1", "2", "declared dependency 0: 1 -> 2"),
            ("argument x", "<f4", "<f8", "argument x: float32 -> float64"),
            ("argument x", None, "<c16", "argument x: not given -> complex128"),
            ("argument checks", None, "skipped", "argument checks: not given -> skipped"),
        ],
    )
    def test_recipe(self, name, before, after, said):
        """Parts of the direct key: code by its name and module, values with what they were and are."""
        assert said in sentence(Difference(name, before, after), RECIPE)

    @pytest.mark.parametrize(
        ("before", "after", "said"),
        [
            (f"2025.2.4 {ONE}", f"2025.2.5 {OTHER}", "islpy 2025.2.4 -> 2025.2.5"),
            (f"2025.2.4 {ONE}", f"2025.2.4 {OTHER}", "islpy 2025.2.4: its files changed"),
            (f"2025.2.4 {ONE}", "absent", "islpy 2025.2.4 is not used any more"),
            (None, f"2025.2.4 {ONE}", "islpy 2025.2.4 is used now"),
            (None, f" {ONE}", "islpy is used now"),
        ],
    )
    def test_distribution(self, before, after, said):
        """An installed package by its versions, or by its files where the version stayed."""
        assert sentence(Difference("distribution islpy", before, after)) == said

    @pytest.mark.parametrize(
        ("name", "before", "after", "said"),
        [
            ("options", "", "-cl-fast-relaxed-math", "build option -cl-fast-relaxed-math added"),
            ("options", "-cl-mad-enable -DA", "-DA", "build option -cl-mad-enable removed"),
            ("options", "-DN=1", "-DN=2", "build option -DN=2 added, build option -DN=1 removed"),
            ("options", "-DN=1 -DN=2", "-DN=2 -DN=1", "build options: another order"),
            ("header stencil.h", ONE, OTHER, "header stencil.h changed"),
            ("header stencil.h", None, OTHER, "header stencil.h is new"),
            ("source", ONE, OTHER, "OpenCL C changed"),
            ("driver", "535.1", "550.2", "device: driver 535.1 -> 550.2"),
            ("device", "A100", "H100", "device: A100 -> H100"),
            ("platform version", "CL 2.0", "CL 3.0", "platform: version CL 2.0 -> CL 3.0"),
            ("extensions", "cl_a", "cl_a cl_b", "device: extensions cl_a -> cl_a cl_b"),
            ("variable POCL_FLAGS", None, "-O0", "variable POCL_FLAGS is new: -O0"),
        ],
    )
    def test_program(self, name, before, after, said):
        """Parts of the program key."""
        assert sentence(Difference(name, before, after), PROGRAM) == said

    @pytest.mark.parametrize(
        ("difference", "said"),
        [
            # In the key of a recipe the digest of a kcl.Source stands for more than its text.
            (("source", ONE, OTHER), "OpenCL C, declarations or build options changed"),
            (("something", "1", "2"), "something: 1 -> 2"),
        ],
    )
    def test_other_names(self, difference, said):
        assert sentence(Difference(*difference)) == said

    _names = st.one_of(
        st.sampled_from([*phrases._WHOLE, "code matmul", "variable X", "directory"]),
        st.builds(
            lambda first, rest: f"{first} {rest}",
            st.sampled_from(sorted(phrases._FIRST)),
            st.text(max_size=30),
        ),
        st.text(max_size=30),
    )
    _values = (
        st.none()
        | st.text(max_size=200)
        | st.just(ONE)
        | st.sampled_from([f"1 {ONE}", "absent", f"2 {OTHER}; a 1"])
    )

    @given(_names, _values, _values, st.sampled_from([About(), RECIPE, PROGRAM]))
    def test_whatever_a_key_holds_a_short_sentence_comes_out(self, name, before, after, about):
        if before == after:
            return
        said = sentence(Difference(name, before, after), about)
        assert len(said) < 3 * len(name) + 600
        assert said or name.startswith("distribution ")
