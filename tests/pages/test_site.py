"""The documentation's site: links, a phone's width, the search, both schemes."""

import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from html.parser import HTMLParser
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import override
from urllib.parse import unquote, urlsplit

import pytest

from .browser import ENTER, PHONE, Browser
from .checks import find_faint, find_too_wide

SITE = Path(os.environ.get("SITE", ""))

pytestmark = pytest.mark.skipif(not SITE.name, reason="SITE names no folder: make pages")


@dataclass
class Page(HTMLParser):
    """A page's links and what they may lead to."""

    links: list[str] = field(default_factory=list[str])
    loaded: list[str] = field(default_factory=list[str])
    ids: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        super().__init__()

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a":
            self.links.append(values.get("href", ""))
        elif tag in ("img", "script", "link"):
            self.loaded += [values[name] for name in ("src", "href") if values.get(name)]


@cache
def read_page(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def find_pages() -> Mapping[Path, Page]:
    return {path: read_page(path) for path in sorted(SITE.rglob("*.html"))}


def find_broken(path: Path, page: Page) -> Iterator[str]:
    for link in (*page.links, *page.loaded):
        parts = urlsplit(link)
        if parts.scheme in ("https", "http", "data") and link not in page.loaded:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        is_there = target.is_file() and not parts.netloc
        if is_there and parts.fragment and target.suffix == ".html":
            is_there = unquote(parts.fragment) in read_page(target).ids
        if not is_there and not link.startswith("data:"):
            yield f"{path.relative_to(SITE)}: {link}"


class Handler(SimpleHTTPRequestHandler):
    """Any web server of files."""

    @override
    def do_GET(self) -> None:
        if self.path == "/favicon.ico":  # requested by browsers, and not linked to
            self.send_response(HTTPStatus.NO_CONTENT)
            self.end_headers()
        else:
            super().do_GET()

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Not shown."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    # From files, a browser shows no extracts of the pages that a search has found.
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(SITE))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere() -> None:
    pages = find_pages()
    assert len(pages) > 50
    assert [broken for path, page in pages.items() for broken in find_broken(path, page)] == []


def test_no_page_is_wider_than_a_phone(browser: Browser, address: str) -> None:
    browser.resize(PHONE)
    wide: dict[str, object] = {}
    for path in find_pages():
        name = str(path.relative_to(SITE))
        browser.open(f"{address}/{name}")
        if found := find_too_wide(browser):
            wide[name] = found
    assert wide == {}


def test_the_first_page_leads_to_the_index(browser: Browser, address: str) -> None:
    browser.open(f"{address}/index.html")
    browser.wait_for_page("/docs/README.html")
    browser.wait("document.querySelector('h1')")
    captions = "document.querySelectorAll('.sidebar-tree .caption')"
    titles = browser.run(f"[...{captions}].map((one) => one.textContent)")
    assert titles == ["I want to …", "How it works", "The project"]


def test_the_search_finds_a_word_of_a_page(browser: Browser, address: str) -> None:
    browser.open(f"{address}/docs/README.html")
    browser.run("document.querySelector('.sidebar-search').focus()")
    browser.press(*"fingerprint", ENTER)
    browser.wait_for_page("/search.html")
    found = browser.wait(
        "document.querySelector('.search-summary')?.innerText.includes('found')"
        " && [...document.querySelectorAll('#search-results li > a')].map((one) => one.href)"
    )
    assert any("/docs/iso-to-cluster.html" in link for link in found)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_the_contrast_of_wcag_aa(browser: Browser, address: str, scheme: str) -> None:
    browser.prefer("dark" if scheme == "dark" else "light")
    for name in ("docs/README.html", "docs/first-cluster.html", "docs/reference/config/network.html"):
        browser.open(f"{address}/{name}")
        assert find_faint(browser) == [], name
