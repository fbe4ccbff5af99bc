"""A browser for all tests of pages; what its console reports fails a test."""

import os
from collections.abc import Iterator

import pytest

from .browser import WIDE, Browser, start_browser

PROGRAM, DRIVER = os.environ.get("BROWSER", ""), os.environ.get("BROWSER_DRIVER", "")


@pytest.fixture(scope="session")
def started() -> Iterator[Browser]:
    if not PROGRAM:
        pytest.skip("BROWSER names no program: make pages")
    with start_browser(PROGRAM, DRIVER) as browser:
        yield browser


@pytest.fixture
def browser(started: Browser) -> Iterator[Browser]:
    started.resize(WIDE)
    started.prefer("light")
    yield started
    errors = started.read_errors()
    started.open("about:blank")
    assert errors == []
