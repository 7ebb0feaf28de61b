"""kcl.base.settings.parsers: layers, bytes and ages as people write them; `test_settings` has the others."""

import pytest

from kcl.base.settings import parsers


def test_unknown_layer():
    """A misspelt layer switches all of them off; every name that may stand there is listed."""
    with pytest.raises(ValueError) as refused:
        parsers.layers("tunning", "generator,binary", "shapes,tuning")
    words, off = refused.value.args
    assert words == "tunning is no layer (generator, binary, shapes, tuning); all layers are off"
    assert off == {"generator", "binary"}


class TestSize:
    @pytest.mark.parametrize(
        ("text", "size"),
        [
            ("0", 0),
            ("10", 10),
            ("1B", 1),
            ("500M", 500_000_000),
            ("1.5 kB", 1500),
            (" 2 GiB ", 2 << 30),
            ("3.P", 3 * 10**15),
        ],
    )
    def test_read(self, text, size):
        """A unit is a power of 1000, with an `i` a power of 1024; case and blanks do not matter."""
        assert parsers.size(text) == size

    @pytest.mark.parametrize(
        "text", ["", "M", ".5M", "-1", "1.2.3M", "1KK", "5I", "1e3", "9000000P", "ten"]
    )
    def test_refused(self, text):
        """Another text, and more than any disk holds, is refused with an example."""
        with pytest.raises(ValueError, match="write 500M, 2G, or 0"):
            parsers.size(text)


class TestAge:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [("5s", 5), ("90min", 5400), ("1.5h", 5400), ("30d", 2592000), ("4w", 2419200)],
    )
    def test_an_age_is_a_number_with_a_unit_from_seconds_to_weeks(self, text, seconds):
        assert parsers.age(text) == seconds

    @pytest.mark.parametrize("text", ["", "5", "h", "5m", "1e3s", "-5s"])
    def test_another_text_is_refused_with_examples(self, text):
        with pytest.raises(ValueError, match="write 90min, 12h, 30d or 4w"):
            parsers.age(text)
