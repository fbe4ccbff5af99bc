"""The dashboard: its figures, and its screen while a node answers, fails and waits for a config."""

import asyncio
import html
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from tests.harness.limits import REAL_TIMEOUT
from tests.unit.talosctl.fake import Client, FakeNode
from textual.pilot import Pilot

from talos.api.common.common_pb2 import Data
from talos.api.cosi.resource_pb2 import Resource
from talos.api.cosi.state_pb2 import Event, EventType, WatchRequest, WatchResponse
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.network_pb2 import HostnameStatusSpec, LinkStatusSpec
from talos.api.definitions.runtime_pb2 import MachineStatusSpec
from talos.api.definitions.v1alpha1_pb2 import ServiceSpec
from talos.api.machine import machine_pb2 as pb
from talos.resource import ids, kinds
from talos.resource.kind import Kind
from talos.system.errors import UserError
from talos.talosctl.cli.parse import parse
from talos.talosctl.client.select import select_target
from talos.talosctl.dashboard.app import Dashboard
from talos.talosctl.dashboard.figures import Sample, find_cards, make_figures, sum_disks
from talos.talosctl.dashboard.monitor import draw_columns
from talos.talosctl.dashboard.network import STATIC, Form, make_documents
from talos.talosctl.dashboard.summary import clean
from talos.talosctl.tree import ROOT

SERVICE = "/machine.MachineService/"


def make_sample(at: float, cpu: Sequence[float], received: int, spent: float, *, sectors: int = 0) -> Sample:
    user, system, idle, waiting = cpu
    stat = pb.CPUStat(user=user, system=system, idle=idle, iowait=waiting)
    return Sample(
        at=at,
        system=pb.SystemStat(cpu_total=stat, cpu=[stat], context_switches=round(at * 10)),
        load=pb.LoadAvg(load1=1.5),
        memory=pb.Memory(meminfo=pb.MemInfo(memtotal=1000, memavailable=400)),
        disks=pb.DiskStats(devices=[pb.DiskStat(name="vda", read_sectors=sectors)]),
        network=pb.NetworkDeviceStats(devices=[pb.NetDev(name="eth0", rx_bytes=received)]),
        processes=[pb.ProcessInfo(pid=7, cpu_time=spent), pb.ProcessInfo(pid=8, cpu_time=9)],
    )


def test_shares_and_rates_are_those_between_two_samples() -> None:
    before = make_sample(10, (1, 1, 8, 0), received=1000, spent=3, sectors=100)
    now = make_figures(before, make_sample(12, (2, 2, 14, 2), received=5000, spent=4, sectors=104))
    assert (now.busy, now.user, now.system, now.waiting) == (20, 10, 10, 20)
    assert now.processors == [20]
    assert (now.received, now.read, now.switches) == (2000, 1024, 10)
    assert now.memory_percent == 60
    assert [(one.process.pid, one.percent) for one in now.processes] == [(7, 50), (8, 0)]


def test_counters_that_begin_anew_are_no_rates() -> None:
    before = make_sample(10, (1, 1, 8, 0), received=9000, spent=30)
    now = make_figures(before, make_sample(12, (0, 0, 0, 0), received=5, spent=1))
    assert (now.received, now.busy) == (0, 0)
    assert {one.process.pid: one.percent for one in now.processes} == {7: -1, 8: 0}
    assert make_figures(None, before).received == 0


def test_disks_and_cards_are_counted_once() -> None:
    names = ("nvme0n1", "nvme0n1p1", "sda", "sda2", "xvdb1", "dm-0", "md127", "loop0", "zram0")
    devices = [pb.DiskStat(name=name, read_sectors=1, write_sectors=2) for name in names]
    disks = sum_disks(pb.DiskStats(total=pb.DiskStat(read_sectors=9), devices=devices))
    assert (disks.read_sectors, disks.write_sectors) == (3, 6)  # nvme0n1, sda, xvdb1
    links = ["lo", "eth0", "enp3s0", "eni0a1b2c", "cni0", "veth1a2b", "flannel.1", "ibp1s0"]
    assert find_cards(links) == ["eth0", "enp3s0", "ibp1s0"]
    assert find_cards(["lo", "net0"]) == ["net0"]


def test_columns_of_a_chart() -> None:
    assert draw_columns([0, 50, 100, 200], 2, 100) == ["  ██", " ███"]
    assert draw_columns([5], 1, 0) == [" "]


def test_text_of_a_node_can_not_command_the_terminal() -> None:
    assert clean("a\x1b[31mred\x1b]0;title\x07\tb\x9b\u202egnp.") == "ared    bgnp."


def test_the_documents_of_a_form() -> None:
    text = make_documents(
        Form(
            hostname="node-1",
            link="eth0",
            mode=STATIC,
            addresses="10.0.0.2/24, fd00::2/64",
            gateway="10.0.0.1",
        )
    )
    assert "hostname: node-1" in text
    assert "gateway: 10.0.0.1" in text
    assert text.count("address:") == 2
    assert "kind: DHCPv4Config" in make_documents(Form(link="eth0"))


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (Form(), "nothing is entered"),
        (Form(link="eth0", mode=STATIC), "no address is entered"),
        (Form(link="eth0", mode=STATIC, addresses="10.0.0"), "addresses"),
        (Form(resolvers="dns.example"), "nameservers"),
    ],
)
def test_a_form_that_can_not_be_used(form: Form, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        make_documents(form)


def test_it_needs_a_terminal(talosctl: Client) -> None:
    result = talosctl("dashboard")
    assert (result.code, result.out) == (1, "")
    assert "needs a terminal" in result.err
    assert "500ms or more" in talosctl("dashboard", "-d", "10ms").err


def serve_figures(node: FakeNode) -> None:
    counters: Mapping[str, Message] = {
        "SystemStat": pb.SystemStatResponse(messages=[pb.SystemStat(boot_time=1)]),
        "LoadAvg": pb.LoadAvgResponse(messages=[pb.LoadAvg()]),
        "Memory": pb.MemoryResponse(messages=[pb.Memory(meminfo=pb.MemInfo(memtotal=10**6))]),
        "DiskStats": pb.DiskStatsResponse(messages=[pb.DiskStats()]),
        "NetworkDeviceStats": pb.NetworkDeviceStatsResponse(messages=[pb.NetworkDeviceStats()]),
        "CPUInfo": pb.CPUInfoResponse(messages=[pb.CPUsInfo(cpu_info=[pb.CPUInfo(cpu_mhz=2000)])]),
        "Processes": pb.ProcessesResponse(
            messages=[pb.Process(processes=[pb.ProcessInfo(pid=1, args="/sbin/init", resident_memory=4096)])]
        ),
    }
    for method, reply in counters.items():
        node.on(SERVICE + method, Empty, reply)
    lines = [Data(bytes=b"kern: \x1b[31mfirst line"), Data(bytes=b"second line\n")]
    node.on(SERVICE + "Dmesg", pb.DmesgRequest, lines, stream=True)


def serve_resources(node: FakeNode, found: Mapping[Kind[Message], Mapping[str, Message]]) -> None:
    by_type = {kind.type: specs for kind, specs in found.items()}

    async def answer(request: WatchRequest) -> AsyncIterator[Message]:
        for name, spec in by_type.get(request.type, {}).items():
            resource = Resource()
            resource.metadata.id = name
            resource.spec.proto_spec = spec.SerializeToString()
            yield WatchResponse(event=[Event(resource=resource, event_type=EventType.CREATED)])
        yield WatchResponse(event=[Event(event_type=EventType.BOOTSTRAPPED)])
        await asyncio.Event().wait()

    def watch(request: Any, metadata: Mapping[str, str]) -> AsyncIterator[Message]:
        del metadata
        return answer(request)

    node.on("/cosi.resource.State/Watch", WatchRequest, watch, stream=True)


def make_app(client: Client, *argv: str) -> Dashboard:
    flags = parse(ROOT, ["dashboard", "--talosconfig", str(client.path), *argv]).flags
    target = select_target(flags)
    return Dashboard(target, target.nodes, 0.5)


async def until(pilot: Pilot[None], holds: Callable[[str], bool]) -> None:
    """Wait until the text on the screen is as expected."""
    try:
        async with asyncio.timeout(REAL_TIMEOUT):
            while not holds(read_screen(pilot)):
                await pilot.pause(0.05)
    except TimeoutError:
        pytest.fail(read_screen(pilot))


async def enter(pilot: Pilot[None], widget: str, *keys: str) -> None:
    pilot.app.query_one(widget).focus()
    await pilot.pause()
    await pilot.press(*keys)


def read_screen(pilot: Pilot[None]) -> str:
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", pilot.app.export_screenshot())
    return html.unescape("".join(texts)).replace("\N{NO-BREAK SPACE}", " ")


def test_pages_of_a_node(talosctl: Client, node: FakeNode) -> None:
    serve_figures(node)
    name = ids.HOSTNAME_STATUS
    found: dict[Kind[Message], dict[str, Message]] = {
        name[0]: {name[1]: HostnameStatusSpec(hostname="node-\x1b[2Ja")},
        kinds.SERVICE: {"[/b]\x1b[2J": ServiceSpec(running=True)},
    }
    serve_resources(node, found)

    async def main() -> None:
        app = make_app(talosctl)
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda text: "node-a" in text and "1 x 2.0 GHz" in text)
            await pilot.press("f2")
            await until(pilot, lambda text: "Processors busy" in text and "1.0 GB" in text)
            await pilot.press("f3")
            await until(pilot, lambda text: "/sbin/init" in text)
            await pilot.press("f4")
            await until(pilot, lambda text: "kern: first line" in text and "second line" in text)
            await pilot.press("f5", "l")
            await until(pilot, lambda text: "ADDRESSES" in text)
            assert app.view.node == "10.0.0.3"
            await pilot.press("f4")
            await enter(pilot, "LogPage Select", "enter")
            await until(pilot, lambda text: "[/b]" in text)
            await pilot.press("escape", "q")

    asyncio.run(main())


def test_a_node_that_fails_is_shown_with_the_reason_and_called_again(
    talosctl: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("talos.talosctl.dashboard.feed.RETRY", 0.1)
    serve_resources(node, {})

    async def main() -> None:
        app = make_app(talosctl)
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda text: "Unimplemented" in text)
            serve_figures(node)
            await until(pilot, lambda text: "1 x 2.0 GHz" in text and "Unimplemented" not in text)

    asyncio.run(main())


def test_a_machine_in_maintenance_mode_is_given_a_network(client: Client, maintenance_node: FakeNode) -> None:
    serve_figures(maintenance_node)
    status = MachineStatusSpec(stage=enums.MACHINE_STAGE_MAINTENANCE)
    link = LinkStatusSpec(type=enums.LINK_ETHER, link_state=True)
    serve_resources(
        maintenance_node,
        {ids.MACHINE_STATUS[0]: {ids.MACHINE_STATUS[1]: status}, kinds.LINK_STATUS: {"eth7": link}},
    )
    reply = pb.ApplyConfigurationResponse(messages=[pb.ApplyConfiguration(mode_details="Applied it")])
    maintenance_node.on(SERVICE + "ApplyConfiguration", pb.ApplyConfigurationRequest, reply)

    async def main() -> None:
        app = make_app(client, "--insecure", "-n", f"127.0.0.1:{maintenance_node.port}")
        async with app.run_test(size=(120, 50)) as pilot:
            await pilot.press("f5")
            await until(pilot, lambda text: "eth7" in text and "Apply" in text)
            await enter(pilot, "#apply", "enter")
            await until(pilot, lambda text: "nothing is entered" in text)
            await enter(pilot, "#hostname", *"node-7")
            await enter(pilot, "#apply", "enter")
            await until(pilot, lambda text: "Applied it" in text)

    asyncio.run(main())
    (request,) = (
        request for path, _, request in maintenance_node.seen if path.endswith("ApplyConfiguration")
    )
    assert b"hostname: node-7" in request.data
