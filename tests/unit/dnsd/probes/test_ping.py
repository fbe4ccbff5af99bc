"""Pings over the kernel's own sockets, as a process without privileges sends them."""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import pytest
import trio
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from tests.harness.namespace import run_in_namespace, start_loopback
from tests.unit.dnsd.probes.kernel import BUSY, CALL, GROUP, keep_busy, lay_cable, set_kernel

from talos.api.probe import probe_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.api.timestamps import make_duration
from talos.dnsd.probes.service import MAX_CALLS, ProbeService
from talos.process.run import Daemon
from talos.system.net.echo import EchoSocket
from talos.system.net.kernel_links import open_links

OWN, FAR, BEHIND = "10.78.0.1", "10.78.0.2", "10.79.0.9"
QUICK = make_duration(0.1)


@contextmanager
def without_privileges() -> Generator[None]:
    set_kernel("net.ipv4.ping_group_range", f"{GROUP} {GROUP}")
    "localhost".encode("idna")  # Python's own files are not for everyone where this runs
    os.setgroups([])
    os.setegid(GROUP)
    os.seteuid(GROUP)
    try:
        yield
    finally:
        os.seteuid(0)


async def ping(request: pb.PingRequest, service: ProbeService | None = None) -> list[pb.PingReply]:
    """All replies of a call."""
    replies: list[pb.PingReply] = []

    async def send(message: Message) -> None:
        assert isinstance(message, pb.PingReply)
        replies.append(message)

    await (service or ProbeService()).ping(request, CALL, send)
    return replies


def packets(replies: Sequence[pb.PingReply]) -> list[pb.PingPacket]:
    return [reply.packet for reply in replies if reply.HasField("packet")]


@pytest.mark.root
def test_both_families_without_privileges() -> None:
    async def check(_daemon: Daemon) -> None:
        async with open_links() as links:
            await start_loopback(links)
        for host, size in (("127.0.0.1", 56), ("::1", 8972), ("localhost", 0)):
            with without_privileges():
                replies = await ping(pb.PingRequest(host=host, count=2, size=size, interval=QUICK))
            assert [reply.WhichOneof("part") for reply in replies] == [
                "address", "packet", "packet", "summary",
            ]  # fmt: skip
            address, summary = replies[0].address, replies[-1].summary
            assert host in {address, "localhost"}
            assert [packet.sequence for packet in packets(replies)] == [1, 2]
            for packet in packets(replies):
                assert (packet.sender, packet.size, packet.error) == (address, size, "")
                assert packet.time_to_live == 64
                assert 0 < packet.round_trip.ToNanoseconds() < 10**9
            assert (summary.sent, summary.received) == (2, 2)
            assert summary.min.ToNanoseconds() <= summary.avg.ToNanoseconds() <= summary.max.ToNanoseconds()

    run_in_namespace(check)


@pytest.mark.root
def test_a_busy_process_does_not_lengthen_round_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EchoSocket, "send", keep_busy(EchoSocket.send))

    async def check(_daemon: Daemon) -> None:
        async with open_links() as links:
            await start_loopback(links)
        set_kernel("net.ipv4.ping_group_range", f"0 {GROUP}")
        for host in ("127.0.0.1", "::1"):
            replies = await ping(pb.PingRequest(host=host, count=3, interval=QUICK))
            assert 0 < replies[-1].summary.min.ToNanoseconds() < BUSY * 10**9 / 2

    run_in_namespace(check)


@pytest.mark.root
def test_packets_without_a_reply_have_the_reason() -> None:
    async def check(_daemon: Daemon) -> None:
        async with open_links() as links:
            await start_loopback(links)
            peer = await lay_cable(links, "near", [f"{OWN}/24"], [f"{FAR}/24"])
        peer.run(set_kernel, "net.ipv4.icmp_echo_ignore_all", "1")
        set_kernel("net.ipv4.ping_group_range", f"0 {GROUP}")
        short = pb.PingRequest(host=FAR, count=3, interval=QUICK, timeout=make_duration(0.3))
        replies = await ping(short)
        assert [packet.sequence for packet in packets(replies)] == [1, 2, 3]
        assert {packet.error for packet in packets(replies)} == {"no answer within 0.3 s"}
        assert replies[-1].summary == pb.PingSummary(sent=3)
        [lost] = packets(await ping(pb.PingRequest(host=BEHIND, count=1)))
        assert lost == pb.PingPacket(sequence=1, error="not sent: network is unreachable")
        peer.close()

    run_in_namespace(check)


@pytest.mark.root
def test_a_call_ends_with_its_client_and_gives_its_place_back() -> None:
    async def check(_daemon: Daemon) -> None:
        async with open_links() as links:
            await start_loopback(links)
        set_kernel("net.ipv4.ping_group_range", f"0 {GROUP}")
        service = ProbeService()
        endless = pb.PingRequest(host="127.0.0.1", count=10_000, interval=make_duration(60))
        async with trio.open_nursery() as nursery:
            for _ in range(MAX_CALLS):
                nursery.start_soon(ping, endless, service)
            await trio.testing.wait_all_tasks_blocked(0.2)
            with pytest.raises(RpcError, match="8 probes run on this node: try again") as caught:
                await ping(pb.PingRequest(host="127.0.0.1"), service)
            assert caught.value.code is Code.RESOURCE_EXHAUSTED
            nursery.cancel_scope.cancel()
        assert len(await ping(pb.PingRequest(host="127.0.0.1", count=1), service)) == 3

    run_in_namespace(check)


@pytest.mark.root
def test_a_config_that_leaves_out_the_daemons_group_is_named() -> None:
    async def check(_daemon: Daemon) -> None:
        with pytest.raises(
            RpcError, match="ping_group_range leaves out the group 0: take it out of"
        ) as caught:
            await ping(pb.PingRequest(host="127.0.0.1"))
        assert caught.value.code is Code.FAILED_PRECONDITION

    run_in_namespace(check)


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (pb.PingRequest(), "host '' is none: an address, or a name of at most 253 characters"),
        (pb.PingRequest(host="a" * 254), "is none: an address, or a name"),
        (pb.PingRequest(host="a\nb"), r"host 'a\\nb' is none"),
        (pb.PingRequest(host="127.0.0.1", count=0), "count 0 is out of bounds: give 1 to 10000"),
        (pb.PingRequest(host="127.0.0.1", count=10_001), "count 10001 is out of bounds"),
        (pb.PingRequest(host="127.0.0.1", size=8973), "size 8973 is out of bounds: give 0 to 8972"),
        (
            pb.PingRequest(host="127.0.0.1", interval=Duration()),
            "interval 0s is out of bounds: give 100ms to 1m",
        ),
        (
            pb.PingRequest(host="127.0.0.1", timeout=Duration(seconds=-(2**63))),
            "timeout -.* is out of bounds",
        ),
        (pb.PingRequest(host="224.0.0.1"), "224.0.0.1 is no address of one machine"),
        (pb.PingRequest(host="::"), "host '::': :: is no address of one machine"),
    ],
)
async def test_what_is_out_of_bounds_is_refused_with_the_bounds(request_: pb.PingRequest, text: str) -> None:
    with pytest.raises(RpcError, match=text) as caught:
        await ping(request_)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert "\n" not in caught.value.message


async def test_a_name_that_is_none_is_one_line() -> None:
    for host in ("a..b", "x" * 64 + ".invalid"):
        with pytest.raises(RpcError, match="try `talosctl dns-query`, or give an address") as caught:
            await ping(pb.PingRequest(host=host))
        assert caught.value.code is Code.NOT_FOUND
