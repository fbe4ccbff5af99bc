"""Traceroutes through a router of the test's, over the kernel's own sockets."""

import asyncio
import os
from typing import Any

import pytest
import trio
from google.protobuf.message import Message
from pyroute2 import AsyncIPRoute
from tests.harness.namespace import run_in_namespace, start_loopback
from tests.unit.dnsd.probes.kernel import BUSY, CALL, GROUP, keep_busy, lay_cable, set_kernel

from talos.api.probe import probe_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.api.timestamps import make_duration
from talos.dnsd.probes.service import ProbeService
from talos.dnsd.probes.traceroute import is_refused
from talos.process.run import Daemon
from talos.system.net.echo import EchoSocket
from talos.system.net.kernel_links import open_links
from talos.system.net.udp_probe import UdpProbeSocket

UDP, ICMP = pb.TracerouteRequest.UDP, pb.TracerouteRequest.ICMP
ROUTER, ROUTER6 = "10.78.0.1", "fd00:78::1"
FAR, FAR6 = "10.79.0.2", "fd00:79::2"
QUICK = make_duration(0.3)


async def trace(request: pb.TracerouteRequest) -> list[pb.TracerouteReply]:
    """All replies of a call."""
    replies: list[pb.TracerouteReply] = []

    async def send(message: Message) -> None:
        assert isinstance(message, pb.TracerouteReply)
        replies.append(message)

    await ProbeService().trace(request, CALL, send)
    return replies


def run_trace(request: pb.TracerouteRequest) -> list[pb.Hop]:
    """In a machine's own thread."""
    set_kernel("net.ipv4.ping_group_range", f"0 {GROUP}")
    address, *hops = trio.run(trace, request)
    assert address.address == request.host
    assert all(reply.HasField("hop") for reply in hops)
    return [reply.hop for reply in hops]


def add_routes(*gateways: str) -> None:
    async def add() -> None:
        async with AsyncIPRoute() as opened:
            route: Any = opened
            for gateway in gateways:
                await route.route("add", dst="::/0" if ":" in gateway else "0.0.0.0/0", gateway=gateway)

    asyncio.run(add())


def senders(hop: pb.Hop) -> set[str]:
    assert len(hop.answers) == 3
    assert all(0 < answer.round_trip.ToNanoseconds() < 10**9 for answer in hop.answers if answer.sender)
    return {answer.sender for answer in hop.answers}


def errors(hop: pb.Hop) -> set[str]:
    return {answer.error for answer in hop.answers}


@pytest.mark.root
def test_routers_and_the_destination_of_both_families() -> None:
    async def check(_daemon: Daemon) -> None:
        set_kernel("net.ipv4.ip_forward", "1")
        set_kernel("net.ipv6.conf.all.forwarding", "1")
        # The kernel sends one machine six errors in a row, then one a second.
        set_kernel("net.ipv4.icmp_ratelimit", "0")
        async with open_links() as links:
            await start_loopback(links)
            near = await lay_cable(
                links, "near", [f"{ROUTER}/24", f"{ROUTER6}/64"], ["10.78.0.2/24", "fd00:78::2/64"]
            )
            far = await lay_cable(
                links, "other", ["10.79.0.1/24", "fd00:79::1/64"], [f"{FAR}/24", f"{FAR6}/64"]
            )
        near.run(add_routes, ROUTER, ROUTER6)
        far.run(add_routes, "10.79.0.1", "fd00:79::1")

        async def run(request: pb.TracerouteRequest) -> list[pb.Hop]:
            def run_there() -> list[pb.Hop]:
                return near.run(run_trace, request)

            return await trio.to_thread.run_sync(run_there)

        # The router has no route to it: no packet goes further, and no hop after it is tried. This is the
        # first, while the kernel has reported no error to that machine.
        [refused] = await run(pb.TracerouteRequest(host="10.99.0.1", protocol=ICMP))
        assert (senders(refused), errors(refused)) == ({ROUTER}, {"network unreachable"})
        assert not refused.is_destination
        for host, router in ((FAR, ROUTER), (FAR6, ROUTER6)):
            for protocol in (UDP, ICMP):
                hops = await run(pb.TracerouteRequest(host=host, protocol=protocol))
                assert [hop.number for hop in hops] == [1, 2]
                assert [senders(hop) for hop in hops] == [{router}, {host}]
                assert [hop.is_destination for hop in hops] == [False, True]
                assert errors(hops[0]) == errors(hops[1]) == {""}
        far.run(set_kernel, "net.ipv4.icmp_echo_ignore_all", "1")
        silent = await run(pb.TracerouteRequest(host=FAR, protocol=ICMP, max_hops=3, timeout=QUICK))
        assert [senders(hop) for hop in silent] == [{ROUTER}, {""}, {""}]
        near.close()
        far.close()

    run_in_namespace(check)


@pytest.mark.root
@pytest.mark.parametrize("protocol", [UDP, ICMP])
def test_a_busy_process_does_not_lengthen_times(
    monkeypatch: pytest.MonkeyPatch, protocol: pb.TracerouteRequest.Protocol
) -> None:
    monkeypatch.setattr(EchoSocket, "send", keep_busy(EchoSocket.send))
    monkeypatch.setattr(UdpProbeSocket, "send", keep_busy(UdpProbeSocket.send))

    async def check(_daemon: Daemon) -> None:
        async with open_links() as links:
            await start_loopback(links)
        set_kernel("net.ipv4.ping_group_range", f"0 {GROUP}")
        for host in ("127.0.0.1", "::1"):
            [_, reply] = await trace(pb.TracerouteRequest(host=host, protocol=protocol))
            assert senders(reply.hop) == {host}
            times = [answer.round_trip.ToNanoseconds() for answer in reply.hop.answers]
            assert min(times) < BUSY * 10**9 / 2

    run_in_namespace(check)


@pytest.mark.root
def test_a_packet_that_the_node_does_not_send_has_the_reason() -> None:
    async def check(_daemon: Daemon) -> None:
        [_, reply] = await trace(pb.TracerouteRequest(host="10.99.0.1", queries=2))
        assert errors(reply.hop) == {"not sent: network is unreachable"}
        with pytest.raises(RpcError, match=f"ping_group_range leaves out the group {os.getegid()}"):
            await trace(pb.TracerouteRequest(host="10.99.0.1", protocol=ICMP))

    run_in_namespace(check)


def test_a_refusal_is_one_where_only_some_packets_are_answered() -> None:
    lost, refused = pb.HopAnswer(), pb.HopAnswer(sender=ROUTER, error="host unreachable")
    assert is_refused(pb.Hop(answers=[lost, refused, lost]))
    assert not is_refused(pb.Hop(answers=[lost, refused, pb.HopAnswer(sender=ROUTER)]))
    assert not is_refused(pb.Hop(answers=[lost, lost]))


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (pb.TracerouteRequest(host="127.0.0.1", max_hops=65), "max_hops 65 is out of bounds: give 1 to 64"),
        (pb.TracerouteRequest(host="127.0.0.1", queries=0), "queries 0 is out of bounds: give 1 to 10"),
        (pb.TracerouteRequest(host="127.0.0.1", timeout=make_duration(11)), "timeout 11s is out of bounds"),
        (pb.TracerouteRequest(host="ff02::1"), "ff02::1 is no address of one machine"),
        (pb.TracerouteRequest.FromString(b"\x0a\x03::1\x18\x09"), "protocol 9 is none: give 0"),
    ],
)
async def test_what_is_out_of_bounds_is_refused(request_: pb.TracerouteRequest, text: str) -> None:
    with pytest.raises(RpcError, match=text) as caught:
        await trace(request_)
    assert caught.value.code is Code.INVALID_ARGUMENT
