"""The fleet page: its server, what is sent as nodes change, and its files."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, override
from urllib.parse import urlsplit

import pytest
from tests.harness.limits import REAL_TIMEOUT
from tests.harness.processor import at_most
from tests.unit.talosctl.fake import Client
from tests.unit.talosctl.web.nodes import KUBELET, STAGED, TRIAL, Nodes, serving

from talos.system.errors import UserError
from talos.talosctl.cli.exit import Exit
from talos.talosctl.web import fleet, logs, server
from talos.talosctl.web.events import read_time
from talos.talosctl.web.logs import split_lines
from talos.talosctl.web.server import check_loopback
from talos.upgrade.state import IDLE, Upgrade, bless, revert

FOLDER = Path(server.__file__).parent
MAX_LINE = 1 << 24
"""Bytes of a message of all nodes."""


@dataclass
class Page:
    """A client of the page's server."""

    port: int
    path: str
    writers: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter])

    async def open(self, path: str, *, method: str = "GET", host: str = "") -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=MAX_LINE)
        self.writers.append(writer)
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: {host or f'127.0.0.1:{self.port}'}\r\n\r\n".encode())
        return reader

    async def get(self, path: str, *, method: str = "GET", host: str = "") -> tuple[int, str, str]:
        reader = await self.open(path, method=method, host=host)
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        return int(head.split()[1]), head, body

    async def follow(self) -> AsyncIterator[dict[str, Any]]:
        reader = await self.open(f"{self.path}events")
        async for line in reader:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


@asynccontextmanager
async def following(nodes: Nodes, *, is_local: bool = True) -> AsyncGenerator[Page]:
    async with serving(nodes, is_local=is_local) as address:
        parts = urlsplit(address)
        assert parts.port
        page = Page(parts.port, parts.path)
        try:
            yield page
        finally:
            for writer in page.writers:
                writer.close()
            await asyncio.gather(*(writer.wait_closed() for writer in page.writers), return_exceptions=True)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "MIN_INTERVAL", 0.02)
    monkeypatch.setattr(fleet, "INTERVAL_PER_NODE", 0.0)
    monkeypatch.setattr(server, "MIN_DELAY", 0.0)


def test_who_does_not_know_the_path_or_comes_by_another_name_gets_nothing() -> None:
    async def main() -> None:
        async with following(Nodes(1)) as page:
            status, head, body = await page.get(page.path)
            assert status == 200
            assert "<h1" in body
            for header in ("Content-Security-Policy: default-src 'none'", "Cache-Control: no-store"):
                assert header in head
            assert (await page.get(page.path, host=f"localhost:{page.port}"))[0] == 200
            for host in ("evil.example", f"evil.example:{page.port}", "127.0.0.1", "127.0.0.1:1"):
                assert (await page.get(page.path, host=host))[0] == 421
            assert (await page.get(f"{page.path}page.js?timeout=2s"))[0] == 200
            for path in ("/", "/events", "/page.js", "//", f"/{'a' * 32}/", page.path + "../look.py"):
                status, _, body = await page.get(path)
                assert status == 404
                assert page.path.strip("/") not in body
            assert (await page.get(page.path, method="POST"))[0] == 405

    asyncio.run(main())


def test_in_a_pod_the_path_alone_decides_as_a_proxy_passes_on_any_name() -> None:
    async def main() -> None:
        async with following(Nodes(1), is_local=False) as page:
            for host in ("localhost:8080", "api.example.org:6443", "10.5.0.2:6443", "evil.example"):
                status, head, _ = await page.get(page.path, host=host)
                assert status == 200
                assert "frame-ancestors 'none'" in head
                for path in ("/", "/events", "/page.js", f"/{'a' * 32}/events"):
                    assert (await page.get(path, host=host))[0] == 404

    asyncio.run(main())


def test_nodes_are_looked_at_seldom_while_no_page_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "MIN_INTERVAL", 0.0)
    monkeypatch.setattr(fleet, "INTERVAL_PER_NODE", 0.0)

    async def main() -> None:
        nodes = Nodes(1)
        watch = fleet.FleetWatch(nodes.fetch_view, nodes.find)
        async with asyncio.timeout(REAL_TIMEOUT), asyncio.TaskGroup() as group:
            running = group.create_task(watch.run())
            await watch.wait(0)
            for _ in range(100):
                await asyncio.sleep(0)
            assert nodes.fetched == 1
            with watch.reading():
                await watch.wait(5)
            running.cancel()

    asyncio.run(main())


@pytest.mark.usefixtures("fast")
def test_events_of_a_node_that_dies_and_an_upgrade_that_reverts() -> None:
    steps: list[tuple[dict[str, Any], str]] = [
        ({"error": "no answer within 10 s"}, "does not answer: no answer within 10 s"),
        ({"error": ""}, "answers"),
        ({"upgrade": STAGED}, "v1.15.1 is in slot B and boots next"),
        ({"upgrade": TRIAL, "version": "v1.15.1"}, "v1.15.1 is on trial in slot B"),
        ({"upgrade": revert(TRIAL, "no network"), "version": "v1.15.0"}, "v1.15.1 was reverted: no network"),
        ({"upgrade": bless(TRIAL), "version": "v1.15.1"}, "v1.15.1 passed its self-check"),
        (
            {"services": [replace(KUBELET, is_healthy=False, message="refused")]},
            "service kubelet: refused",
        ),
        ({"kubernetes": "not Ready"}, "Kubernetes finds it not Ready"),
        ({"alarms": ["NOSPACE"]}, "etcd: NOSPACE"),
    ]

    async def main() -> None:
        nodes = Nodes(2)
        async with following(nodes) as page, asyncio.timeout(REAL_TIMEOUT):
            messages = page.follow()
            message = await anext(messages)
            while not all(node["version"] for node in message["nodes"]):
                message = await anext(messages)
            for values, text in steps:
                nodes.set("10.0.0.2", **values)
                while text not in [event["text"] for event in message["events"]]:
                    message = await anext(messages)
                assert all(event["node"] == "controlplane-1" for event in message["events"])
            # A page that is opened later gets everything at once.
            late = await anext(page.follow())
            assert late["all"] is True
            assert [node["name"] for node in late["nodes"]] == ["controlplane-0", "controlplane-1"]
            assert {text for _, text in steps} <= {event["text"] for event in late["events"]}

    asyncio.run(main())


def test_five_hundred_nodes_are_one_message_soon() -> None:
    async def main() -> None:
        nodes = Nodes(500)
        async with following(nodes) as page, asyncio.timeout(30):
            seen: set[str] = set()
            async for message in page.follow():
                seen |= {node["node"] for node in message["nodes"] if node["version"]}
                if len(seen) == 500:
                    break
            with at_most(0.5):
                late = await anext(page.follow())
            assert (late["total"], len(late["nodes"])) == (500, 500)
            assert len(json.dumps(late)) < 1_000_000

    asyncio.run(main())


def test_a_node_s_own_events_are_followed_while_its_page_is_open() -> None:
    async def main() -> None:
        nodes = Nodes(1)
        async with following(nodes) as page, asyncio.timeout(REAL_TIMEOUT):
            await anext(page.follow())
            assert (await page.get(f"{page.path}nodes/10.0.0.9"))[0] == 404
            reader = await page.open(f"{page.path}nodes/10.0.0.1")
            await reader.readuntil(b'data: {"at":1,"text":"10.0.0.1 began"}\n\n')
            assert nodes.followed == ["10.0.0.1"]
            page.writers[-1].close()
            await nodes.left.wait()
            assert nodes.followed == []

    asyncio.run(main())


def test_a_log_of_a_service_and_the_kernel_s_are_followed() -> None:
    async def main() -> None:
        async with following(Nodes(1)) as page, asyncio.timeout(REAL_TIMEOUT):
            messages = page.follow()
            while not (await anext(messages))["nodes"][0]["version"]:
                pass
            for name in ("kubelet", "kernel"):
                reader = await page.open(f"{page.path}nodes/10.0.0.1/logs/{name}")
                await reader.readuntil(f'data: {{"lines":["10.0.0.1 {name}: one","two"]}}\n\n'.encode())
            for path in ("10.0.0.1/logs/other", "10.0.0.1/logs/", "10.0.0.1/logs", "10.0.0.9/logs/kernel"):
                assert (await page.get(f"{page.path}nodes/{path}"))[0] == 404

    asyncio.run(main())


def test_lines_of_a_log_have_an_end_and_nothing_that_controls_a_terminal() -> None:
    async def send() -> AsyncGenerator[bytes]:
        for piece in (b"one\ntw", b"o\x1b[31m\xff\n\n", b"", b"x" * 100_000, b"x" * 100_000, b"\nlast"):
            yield piece

    async def main() -> list[list[str]]:
        return [lines async for lines in split_lines(send())]

    first, second, third, last = asyncio.run(main())
    assert (first, second, last) == (["one"], ["two\ufffd", ""], ["last"])
    assert third == ["x" * logs.MAX_LINE]


def test_plots_have_processors_memory_disks_and_the_network() -> None:
    watch = fleet.FleetWatch(Nodes(0).fetch_view, Nodes(0).find)
    before = Nodes.make(0)
    watch.take(before, None)
    watch.take(replace(before, busy=7.4, disk=120.6, network=3072), before)
    (node,) = watch.since(0)[1]["nodes"]
    assert node["plots"] == {"busy": [7], "memory": [40], "disk": [121], "network": [3072]}


def test_the_time_of_an_event_is_in_its_id() -> None:
    assert read_time("9m4e2mr0ui3e8a215n4g") == 0x4D88E15B
    assert read_time("other") == 0


def test_a_view_has_the_slot_that_runs() -> None:
    view = Nodes.make(0)
    slots: dict[Upgrade, str] = {IDLE: "", STAGED: "", TRIAL: "B", bless(TRIAL): "B", revert(TRIAL, ""): "A"}
    for upgrade, slot in slots.items():
        assert replace(view, upgrade=upgrade).document()["slot"] == slot


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "example.org", "::"])
def test_only_the_loopback_interface(host: str) -> None:
    with pytest.raises(UserError, match="no address of the loopback interface"):
        check_loopback(host, "--listen")
    assert check_loopback("localhost", "--listen") == "127.0.0.1"


def test_mistakes_on_the_command_line(talosctl: Client) -> None:
    result = talosctl("dashboard", "--web", "--listen", "0.0.0.0:80")
    assert '"0.0.0.0" is no address of the loopback interface' in result.err
    assert talosctl("dashboard", "--web", "--insecure", "-n", "10.0.0.2").code == Exit.USAGE


class Markup(HTMLParser):
    """The elements of the page with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed((FOLDER / "page.html").read_text(encoding="utf-8"))

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


def test_the_page_needs_nothing_from_elsewhere_and_names_what_is_there() -> None:
    elements = Markup().found
    ids = [values["id"] for _, values in elements if "id" in values]
    assert len(ids) == len(set(ids))
    for tag, values in elements:
        assert "style" not in values
        assert not any(name.startswith("on") for name in values)
        for name in ("src", "href"):
            assert "//" not in values.get(name, "")
        for name in ("aria-labelledby", "for"):
            assert not values.get(name) or values[name] in ids, f"{tag} {name}"
    code = (FOLDER / "page.js").read_text(encoding="utf-8")
    assert set(re.findall(r'find\("(\w+)"\)', code)) <= set(ids)
    assert "innerHTML" not in code
    assert "url(" not in (FOLDER / "page.css").read_text(encoding="utf-8")


def read_colours() -> Sequence[dict[str, str]]:
    """The colours by their names, bright and dark."""
    text = (FOLDER / "page.css").read_text(encoding="utf-8")
    return [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    ]


def get_luminance(colour: str) -> float:
    """WCAG 2.2's relative luminance."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize(
    ("text", "back"),
    [
        *((text, back) for text in ("text", "muted", "accent") for back in ("back", "panel")),
        *((kind, f"{kind}-back") for kind in ("good", "bad", "note")),
    ],
)
def test_texts_have_the_contrast_of_wcag_aa(theme: int, text: str, back: str) -> None:
    colours = read_colours()[theme]
    high, low = sorted((get_luminance(colours[text]), get_luminance(colours[back])), reverse=True)
    assert (high + 0.05) / (low + 0.05) >= 4.5
