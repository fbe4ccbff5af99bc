"""`talosctl dashboard --web` in a browser, of played nodes."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from tests.unit.talosctl.web.nodes import KUBELET, STAGED, TRIAL, Nodes, serving

from talos.talosctl.web import fleet, server
from talos.upgrade.state import bless, revert

from .browser import ENTER, ESCAPE, PHONE, TAB, Browser
from .checks import find_faint, find_text, find_too_wide, take_picture

COUNT = 6
WORKER = "10.0.0.5"


class Fleet:
    """Serves the page from a thread of its own."""

    def __init__(self, count: int) -> None:
        self.nodes = Nodes(count)
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def start(self) -> None:
        self._thread.start()
        started = asyncio.run_coroutine_threadsafe(
            self._stack.enter_async_context(serving(self.nodes)), self._loop
        )
        self.address = started.result()

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        await self._stack.aclose()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*connections, return_exceptions=True)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setattr(fleet, "MIN_INTERVAL", 0.05)
    monkeypatch.setattr(fleet, "INTERVAL_PER_NODE", 0.0)
    monkeypatch.setattr(server, "MIN_DELAY", 0.0)
    made = Fleet(COUNT)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def page(browser: Browser, played: Fleet) -> Iterator[Browser]:
    browser.open(played.address)
    browser.wait(f"document.querySelectorAll('#rows .good').length >= {COUNT}")
    yield browser
    browser.open("about:blank")  # while it is there, the page connects again


def row(name: str) -> str:
    """The text of a node's row."""
    return find_text("#rows tr", name)


def tile(label: str) -> str:
    """The number above a label."""
    return find_text("#tiles li", label)


def has_event(text: str) -> str:
    return f"document.getElementById('events').innerText.includes('{text}')"


def test_a_node_that_dies_and_comes_back(page: Browser, played: Fleet) -> None:
    assert "✓ healthy" in page.run(row("worker-4"))
    played.nodes.set(WORKER, error="no answer within 10 s")
    page.wait(f"{row('worker-4')}.includes('✕ no answer')")
    page.wait(has_event("does not answer: no answer within 10 s"))
    assert page.run(tile("no answer")).split() == ["1", "no", "answer"]
    played.nodes.set(WORKER, error="")
    page.wait(f"{row('worker-4')}.includes('✓ healthy')")
    assert page.run(tile("no answer")).split() == ["0", "no", "answer"]


def test_an_upgrade_that_reverts(page: Browser, played: Fleet) -> None:
    played.nodes.set(WORKER, upgrade=STAGED)
    page.wait(f"{row('worker-4')}.includes('boots next')")
    played.nodes.set(WORKER, upgrade=TRIAL, version="v1.15.1")
    page.wait(f"{row('worker-4')}.includes('on trial')")
    assert "on trial: worker-4" in page.run("document.getElementById('upgrade').innerText")
    played.nodes.set(WORKER, upgrade=revert(TRIAL, "the network did not come up"), version="v1.15.0")
    page.wait(f"{row('worker-4')}.includes('v1.15.1: the network did not come up')")
    page.wait(has_event("v1.15.1 was reverted: the network did not come up"))
    assert page.run(tile("reverted")).split() == ["1", "reverted"]
    played.nodes.set(WORKER, upgrade=bless(TRIAL), version="v1.15.1")
    page.wait(f"{row('worker-4')}.includes('✓ kept')")


def test_everything_is_reached_by_the_keyboard(page: Browser) -> None:
    page.press(TAB)
    assert page.run("document.activeElement.className") == "skip"
    page.press(ENTER)
    page.wait("document.activeElement.id === 'nodes' || location.hash === '#nodes'")
    page.press(TAB)
    assert page.run("document.activeElement.id") == "search"
    page.press(*"worker-4")
    page.wait(f"document.getElementById('shown').innerText === '1 of {COUNT} nodes'")
    page.wait("document.activeElement.id === 'search'")
    page.press(*([TAB] * 11), ENTER)
    page.wait("document.getElementById('detail').open")
    assert page.run("document.getElementById('detail-title').innerText") == "worker-4"
    page.wait("document.getElementById('reports').innerText.includes('10.0.0.5 began')")
    page.press(ESCAPE)
    page.wait("!document.getElementById('detail').open")
    assert page.run("document.activeElement.innerText") == "worker-4"


def test_a_node_s_plots_and_a_log_that_grows(page: Browser) -> None:
    page.run("document.querySelector('#rows .name').click()")
    page.wait("document.getElementById('detail').open")
    plots = page.run("document.getElementById('plots').innerText").split("\n")
    assert "Disks" in plots
    assert "120 KiB/s" in plots
    assert "3.00 MiB/s" in plots
    page.wait("document.getElementById('log-name').options.length > 2")
    page.run(
        "(() => { const select = document.getElementById('log-name'); select.value = 'kubelet';"
        " select.dispatchEvent(new Event('change')); })()"
    )
    page.wait("document.getElementById('log').innerText === '10.0.0.1 kubelet: one\\ntwo'")
    assert find_faint(page) == []
    page.press(ESCAPE)
    page.wait("!document.getElementById('detail').open")
    page.run("document.querySelector('#rows .name').click()")
    page.wait("document.getElementById('log').innerText === ''")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_the_contrast_of_wcag_aa(page: Browser, played: Fleet, scheme: str) -> None:
    page.prefer("dark" if scheme == "dark" else "light")
    refused = replace(KUBELET, is_healthy=False, message="connection refused")
    played.nodes.set("10.0.0.1", alarms=["NOSPACE"])
    played.nodes.set("10.0.0.4", upgrade=revert(TRIAL, "no network"))
    played.nodes.set(WORKER, error="no answer within 10 s")
    played.nodes.set("10.0.0.6", services=[refused], problems=["service kubelet: connection refused"])
    page.wait("document.getElementById('alarms').innerText.includes('NOSPACE')")
    page.wait(f"{row('worker-3')}.includes('reverted') && {row('worker-5')}.includes('1 problem')")
    back = page.run("getComputedStyle(document.body).backgroundColor")
    assert (back == "rgb(255, 255, 255)") is (scheme == "light")
    assert find_faint(page) == []
    take_picture(page, f"fleet-{scheme}")


def test_a_phone_shows_it_without_scrolling_sideways(page: Browser, played: Fleet) -> None:
    page.resize(PHONE)
    played.nodes.set(WORKER, upgrade=revert(TRIAL, "x" * 300), name="a-name-" + "of-a-node-" * 12)
    page.wait(has_event("x" * 300))
    assert find_too_wide(page) == []
    take_picture(page, "fleet-phone")
    page.run("document.querySelector('#rows .name').click()")
    page.wait("document.getElementById('detail').open")
    assert find_too_wide(page) == []
    take_picture(page, "fleet-phone-node")


def test_a_lost_connection_is_shown(browser: Browser) -> None:
    made = Fleet(1)
    made.start()
    try:
        browser.open(made.address)
        browser.wait("document.getElementById('connection').innerText === 'live'")
    finally:
        made.stop()
    browser.wait("document.getElementById('connection').innerText.includes('is lost')")
    browser.open("about:blank")  # it tries to connect again and again
    assert [error for error in browser.read_errors() if "net::ERR_" not in error] == []
