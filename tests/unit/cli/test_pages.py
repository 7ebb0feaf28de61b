"""kcl.cli.pages: pages of HTML in one frame."""

import pytest

from kcl.base.text.markup import element
from kcl.cli import pages


def test_file(tmp_path, capsys):
    """A page goes to a file, which is named; `-` is stdout, and nothing else is printed there."""
    path = tmp_path / "page.html"
    pages.write(str(path), "driver.py", "now", element("p", "a bar"))
    assert capsys.readouterr().err == f"written: {path}\n"
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<title>driver.py: kcl</title>" in text
    assert "<p>a bar</p>" in text
    pages.write("-", "driver.py", "now", "")
    printed = capsys.readouterr()
    assert printed.out.rstrip().endswith("</html>")
    assert printed.err == ""


def test_forgotten():
    """A hole that nobody fills is an error, not a page with a dollar."""
    with pytest.raises(KeyError, match="when"):
        pages.fill("page", title="", main="", version="")
