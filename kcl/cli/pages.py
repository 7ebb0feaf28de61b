"""Writes pages: each is one HTML file without scripts or external parts, fit for a telephone; `page.html` is the frame.

A policy in its head forbids the browser to load anything. All texts go through `kcl.base.text.markup`, which escapes
them: names, sources and messages come from users.
"""

from __future__ import annotations

import pkgutil

import click

import kcl
from kcl.base.text import markup
from kcl.base.text.markup import Content, Html
from kcl.cli import output

# For commands that can write a page.
html_option = click.option(
    "--html", type=click.Path(dir_okay=False, allow_dash=True), help="Write one page of HTML there."
)


def write(path: str, title: str, when: str, main: Content) -> None:
    """Write a page to a file and name it on stderr; write it to stdout for `-`."""
    with click.open_file(path, "w", encoding="utf-8") as stream:
        stream.write(fill("page", title=title, when=when, main=main, version=kcl.__version__))
    if path != "-":
        output.complain(f"written: {path}")


def fill(name: str, **holes: Content) -> Html:
    """Return the template `name`.html of this folder, with texts inserted for its placeholders."""
    template = pkgutil.get_data("kcl.cli", f"{name}.html")
    assert template is not None
    return markup.fill(template.decode(), holes)
