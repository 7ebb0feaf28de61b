"""kcl.base.text.markup: HTML whose texts are escaped."""

from xml.etree import ElementTree

import pytest

from kcl.base.text.markup import Html, element, fill, join, make_table, text


@pytest.mark.parametrize(
    ("plain", "escaped"),
    [
        ("<script>", "&lt;script&gt;"),
        ("\"quoted\" & 'so'", "&quot;quoted&quot; &amp; &#x27;so&#x27;"),
        ("a\x00b\x1bc\udc80", "a\ufffdb\ufffdc\ufffd"),
        ("tab\tline\nπ", "tab\tline\nπ"),
    ],
)
def test_text(plain, escaped):
    """Markup and what HTML cannot hold is replaced; white space and letters stay."""
    assert text(plain) == escaped
    assert element("a", plain, title=plain) == f'<a title="{escaped}">{escaped}</a>'


def test_what_is_markup_is_not_escaped_again():
    assert element("p", element("b", "&")) == "<p><b>&amp;</b></p>"
    assert join(["<", [Html("<br>"), "x"]]) == "&lt;<br>x"


def test_attributes():
    """Names that Python cannot write have underscores; an empty element has no end."""
    assert (
        element("meta", http_equiv="a", class_="b", name="c")
        == '<meta http-equiv="a" class="b" name="c">'
    )


class TestTitled:
    def test_escaped(self):
        """Nothing in a text is markup: what a notebook shows is the text."""
        bad = '<script>alert("&")</script>'
        found = ElementTree.fromstring(make_table(bad, [bad, "b"], [["1", bad]]))
        assert ["".join(row.itertext()) for row in found] == [bad, f"{bad}b", f"1{bad}"]
        assert {element.tag for element in found.iter()} == {"table", "caption", "tr", "th", "td"}

    def test_a_long_cell_is_cut_and_is_there_in_full_for_the_pointer(self):
        found = ElementTree.fromstring(make_table("t", ["a"], [['"' * 200]]))
        (cell,) = found.iter("td")
        assert cell.text == '"' * 100 + "..."
        assert cell.get("title") == '"' * 200


def test_a_hole_of_a_template_takes_markup_as_it_is_and_a_text_escaped():
    found = fill("<p>$one$two</p>", {"one": "<b>", "two": [element("i", "&")]})
    assert found == "<p>&lt;b&gt;<i>&amp;</i></p>"
