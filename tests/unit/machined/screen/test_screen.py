"""The loop that draws: on changes, not too often, and only what changed."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from talos.api.definitions import enums_pb2 as enums
from talos.machined.node.ports.services import ServiceHealth, ServiceState, ServiceStatus
from talos.machined.screen.collect import Collector
from talos.machined.screen.painter import Painter
from talos.machined.screen.render import ScreenRow, Style
from talos.machined.screen.run import Screen, open_terminal
from talos.resource import ids, kinds
from talos.resource.changes import modify
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log
from talos.system.proc.cmdline import parse_cmdline
from talos.system.terminal import has_screen
from talos.testing.files import MemoryFiles
from talos.testing.terminal import MemoryTerminal


def make_status(id: str, state: ServiceState, *, healthy: bool = True) -> ServiceStatus:
    return ServiceStatus(id=id, state=state, health=ServiceHealth(unknown=False, healthy=healthy), events=())


def make_collector(state: MemoryState) -> Collector:
    files = MemoryFiles(
        {
            "/proc/meminfo": "MemTotal: 2048 kB\nMemAvailable: 1024 kB\n",
            "/proc/stat": "cpu  10 0 10 80 0 0 0 0 0 0\n",
        }
    )
    services = [
        make_status("apid", ServiceState.RUNNING),
        make_status("etcd", ServiceState.RUNNING, healthy=False),
        make_status("trustd", ServiceState.WAITING),
        make_status("udevd", ServiceState.SKIPPED),
    ]
    return Collector(state=state, files=files, services=lambda: services, fingerprint_of=bytes.decode)


async def test_collector_reads_the_state() -> None:
    state = MemoryState()

    def name(spec: kinds.network.HostnameStatusSpec) -> None:
        spec.hostname = "node-1"

    def address(spec: kinds.network.NodeAddressSpec) -> None:
        spec.addresses.add(ip=bytes([10, 5, 0, 2]), prefix_length=24)

    def route(spec: kinds.network.RouteStatusSpec) -> None:
        spec.gateway.ip = bytes([10, 5, 0, 1])

    await modify(state, *ids.HOSTNAME_STATUS, name)
    await modify(state, *ids.NODE_ADDRESS_CURRENT, address)
    await modify(state, kinds.ROUTE_STATUS, "default", route)
    collector = make_collector(state)
    collector.measure()
    found = await collector.collect()
    assert (found.hostname, found.addresses, found.gateways) == ("node-1", ("10.5.0.2/24",), ("10.5.0.1",))
    assert [(line.id, line.state) for line in found.services] == [
        ("apid", ""),
        ("etcd", "(unhealthy)"),
        ("trustd", "(waiting)"),
    ]
    assert (found.stage, found.ready, found.memory_used, found.fingerprint) == ("booting", False, 1, "")


async def test_maintenance_shows_the_fingerprint() -> None:
    state = MemoryState()

    def stage(spec: kinds.runtime.MachineStatusSpec) -> None:
        spec.stage = enums.MACHINE_STAGE_MAINTENANCE
        spec.status.ready = True

    def certificate(spec: kinds.secrets.APICertsSpec) -> None:
        spec.server.crt = b"the print"

    await modify(state, *ids.MACHINE_STATUS, stage)
    collector = make_collector(state)
    assert (await collector.collect()).fingerprint == ""
    await modify(state, *ids.API_CERTIFICATE, certificate)
    found = await collector.collect()
    assert (found.stage, found.ready, found.fingerprint) == ("maintenance", True, "the print")


async def test_screen_is_drawn_on_change_only(autojump_clock: MockClock) -> None:
    state, terminal = MemoryState(), MemoryTerminal()
    screen = Screen(make_collector(state), terminal)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(screen.run)
        nursery.start_soon(screen.follow_state, state, kinds.HOSTNAME_STATUS)
        await trio.sleep(60)
        drawn = len(terminal.written)
        assert drawn == 1
        for number in range(5):

            def name(spec: kinds.network.HostnameStatusSpec, number: int = number) -> None:
                spec.hostname = f"node-{number}"

            await modify(state, *ids.HOSTNAME_STATUS, name)
            await trio.sleep(0.1)
        await trio.sleep(3)
        assert len(terminal.written) == drawn + 2  # the first change at once, the rest together
        assert b"node-4" in terminal.written[-1]
        assert b"Gateway" not in terminal.written[-1]
        nursery.cancel_scope.cancel()


def test_painter_writes_what_changed() -> None:
    terminal = MemoryTerminal()
    painter = Painter(terminal)
    painter.paint([ScreenRow("a"), ScreenRow("b", Style.BAD)], (80, 2))
    painter.paint([ScreenRow("a"), ScreenRow("b", Style.BAD)], (80, 2))
    painter.paint([ScreenRow("a"), ScreenRow("c")], (80, 2))
    assert terminal.written == [
        b"\x1b[2J\x1b[1;1Ha\x1b[0m\x1b[K\x1b[2;1H\x1b[33mb\x1b[0m\x1b[K",
        b"\x1b[2;1Hc\x1b[0m\x1b[K",
    ]
    painter.paint([ScreenRow("a"), ScreenRow("c")], (90, 2))
    assert terminal.written[-1].startswith(b"\x1b[2J")


def test_a_stuck_terminal_is_drawn_anew() -> None:
    terminal = MemoryTerminal()
    painter = Painter(terminal)
    terminal.is_stuck = True
    painter.paint([ScreenRow("a")], (80, 1))
    terminal.is_stuck = False
    painter.paint([ScreenRow("a")], (80, 1))
    assert terminal.written == [b"\x1b[2J\x1b[1;1Ha\x1b[0m\x1b[K"]


@pytest.mark.parametrize(
    ("name", "bind", "expected"),
    [
        ("(S) dummy device", "1", False),
        ("(M) frame buffer device", "1", True),
        ("(M) frame buffer", "0", False),
    ],
)
def test_has_screen(tmp_path: Path, name: str, bind: str, expected: bool) -> None:
    assert not has_screen(tmp_path)
    (tmp_path / "vtcon0").mkdir()
    (tmp_path / "vtcon0/name").write_text(name + "\n")
    (tmp_path / "vtcon0/bind").write_text(bind + "\n")
    assert has_screen(tmp_path) == expected


def test_screen_can_be_disabled() -> None:
    assert open_terminal(parse_cmdline("talos.dashboard.disabled=1"), Log()) is None
