"""Sphinx's configuration: the repository's pages, in the order of docs/README.md."""

import os
import re

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

INDEX = "docs/README"
INDEXES = (INDEX, "docs/decisions/README", "docs/reference/config/README")
"""Pages below which the sidebar lists those that they link to."""
LINE = re.compile(r"^## (?P<title>.+)$|\]\((?P<page>[^)#:\s]+)\.md", re.MULTILINE)

project = "Talos in Python"
version = release = os.environ["version"]
root_doc = INDEX
extensions = ["myst_parser"]
exclude_patterns = ["docs/examples", "docs/metrics"]
highlight_language = "text"
myst_heading_anchors = 6  # with the names that forges give them

html_theme = "furo"
html_title = f"{project} {version}"
html_copy_source = False
html_use_index = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
# The first page lies as deep as in the repository.
html_additional_pages = {"index": "first.html"}
templates_path = ["templates"]


def add_contents(_app: Sphinx, name: str, source: list[str]) -> None:
    """Give an index a table of contents: a part for each section, a page where it is linked to first."""
    if name not in INDEXES:
        return
    sections: dict[str, list[str]] = {"": []}
    for match in LINE.finditer(source[0]):
        if match["title"]:
            sections[match["title"]] = []
        elif not any(match["page"] in pages for pages in sections.values()):
            list(sections.values())[-1].append(match["page"])
    for title, pages in sections.items():
        if not pages:
            continue
        caption = [f":caption: {title}"] if title and name == INDEX else []
        source[0] += "\n".join(["", "```{toctree}", ":hidden:", *caption, "", *pages, "```", ""])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_contents)
    app.add_lexer("mermaid", TextLexer)  # a graph's text: what draws it is a script of megabytes
