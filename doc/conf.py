"""Sphinx: the documentation of kcl. Nothing here asks the network."""

from __future__ import annotations

import pathlib
import re
import sys

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import kcl

project = "kcl"
author = "the kcl developers"
project_copyright = f"2026, {author}"
release = kcl.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"kcl {release}"
html_static_path = ["_static"]
html_css_files = ["kcl.css"]

myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
copybutton_prompt_text = "$ "  # the button copies the commands, without what they print


class Names(SphinxPostTransform):
    """Make links of the names of the API and of the commands, where they stand as code in a text."""

    default_priority = 900

    def run(self, **_keywords: object) -> None:
        objects = self.env.domains["py"].objects
        for node in list(self.document.findall(nodes.literal)):
            if isinstance(node.parent, (nodes.reference, nodes.title)):
                continue
            text = node.astext().partition("(")[0]
            command = re.match(r"kcl ([a-z]+)\b", text)
            if text in objects:
                self._link(node, objects[text].docname, objects[text].node_id)
            elif command:
                self._link(node, "reference/command-line", f"kcl-{command[1]}")

    def _link(self, node: nodes.literal, page: str, anchor: str) -> None:
        if page != self.env.docname:
            place = self.app.builder.get_relative_uri(self.env.docname, page)
            link = nodes.reference(
                "", "", node.deepcopy(), internal=True, refuri=f"{place}#{anchor}"
            )
            node.replace_self(link)


def setup(app: Sphinx) -> None:
    """Add what makes links of names."""
    app.add_post_transform(Names)
