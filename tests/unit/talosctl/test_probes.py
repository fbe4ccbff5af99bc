"""``ping``, ``traceroute`` and ``dns-query``: what people and programs read of a node's probes."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from typing import Any

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from tests.unit.talosctl.fake import Client, FakeNode

from talos.api.probe import probe_pb2 as pb
from talos.api.timestamps import make_duration
from talos.talosctl.cli.exit import Exit
from talos.talosctl.output.rows import RowStream

PING = "/talos.probe.ProbeService/Ping"
TRACE = "/talos.probe.ProbeService/Traceroute"
QUERY = "/talos.probe.ProbeService/DNSQuery"
PINGS = (
    pb.PingReply(address="10.9.0.1"),
    pb.PingReply(
        packet=pb.PingPacket(
            sequence=1, sender="10.9.0.1", size=56, time_to_live=63, round_trip=make_duration(0.0012345)
        )
    ),
    pb.PingReply(packet=pb.PingPacket(sequence=2, error="no answer within 2 s")),
    pb.PingReply(
        packet=pb.PingPacket(
            sequence=3, sender="10.0.0.1", round_trip=make_duration(0.002), error="host unreachable"
        )
    ),
    pb.PingReply(
        summary=pb.PingSummary(
            sent=3,
            received=1,
            min=make_duration(0.0012345),
            avg=make_duration(0.0012345),
            max=make_duration(0.0012345),
            deviation=make_duration(0),
        )
    ),
)


def test_ping_shows_a_row_for_each_packet_and_a_summary(talosctl: Client, node: FakeNode) -> None:
    node.on(PING, pb.PingRequest, PINGS, stream=True)
    result = talosctl("ping", "gw.example", "-n", "10.0.0.2", "-4", "--count", "3", "--interval", "200ms")
    assert (result.code, result.err) == (Exit.DONE, "")
    assert result.out == (
        "NODE       ADDRESS    SEQUENCE   FROM              BYTES   TTL   TIME        ERROR\n"
        "10.0.0.2   10.9.0.1   1          10.9.0.1          56      63    1.234ms\n"
        "10.0.0.2   10.9.0.1   2                                                      no answer within 2 s\n"
        "10.0.0.2   10.9.0.1   3          10.0.0.1                        2ms         host unreachable\n"
        "\n"
        "NODE       ADDRESS    SENT   RECEIVED   LOST   MIN       AVG       MAX       DEVIATION\n"
        "10.0.0.2   10.9.0.1   3      1          67%    1.234ms   1.234ms   1.234ms   0s\n"
    )
    request = node.seen[-1][2]
    assert request == pb.PingRequest(
        host="gw.example",
        family=pb.FAMILY_IPV4,
        count=3,
        size=56,
        interval=make_duration(0.2),
        timeout=make_duration(2),
    )


def test_ping_of_several_nodes_for_programs(talosctl: Client, node: FakeNode) -> None:
    node.on(PING, pb.PingRequest, PINGS, stream=True)
    result = talosctl("ping", "gw.example", "-n", "10.0.0.2,10.0.0.3", "-o", "json")
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [entry["node"] for entry in found[-2:]] == ["10.0.0.2", "10.0.0.3"]
    assert found[-1]["lost"] == "67%"
    rows = [entry for entry in found if entry["node"] == "10.0.0.3" and "sequence" in entry]
    assert [row["error"] for row in rows] == ["", "no answer within 2 s", "host unreachable"]
    assert rows[0]["time"] == "1.234ms"
    assert result.code == Exit.DONE


@pytest.fixture
def interruptible() -> Generator[None]:
    """A shell has programs in the background ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_an_interrupted_ping_has_the_summary_of_what_it_has_seen(
    talosctl: Client, node: FakeNode, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    seen: list[Sequence[str]] = []
    show = RowStream.show

    def show_and_interrupt(stream: RowStream, row: Sequence[str]) -> None:
        show(stream, row)
        seen.append(row)
        if len(seen) == 2 * 3:
            signal.raise_signal(signal.SIGINT)

    async def answer(_request: Any, metadata: Mapping[str, str]) -> AsyncIterator[pb.PingReply]:
        for part in PINGS[:4] if metadata["node"] != "10.0.0.4" else ():
            yield part
        await asyncio.Event().wait()

    monkeypatch.setattr(RowStream, "show", show_and_interrupt)
    node.on(PING, pb.PingRequest, answer, stream=True)
    result = talosctl("ping", "gw.example", "-n", "10.0.0.2,10.0.0.3,10.0.0.4", "-o", output)
    assert (result.code, result.err) == (Exit.INTERRUPTED, "")
    if output == "table":
        assert result.out.endswith(
            "\n\n"
            "NODE       ADDRESS    SENT   RECEIVED   LOST   MIN       AVG       MAX       DEVIATION\n"
            "10.0.0.2   10.9.0.1   3      1          67%    1.234ms   1.234ms   1.234ms   0s\n"
            "10.0.0.3   10.9.0.1   3      1          67%    1.234ms   1.234ms   1.234ms   0s\n"
        )
    elif output == "json":
        found = [json.loads(line) for line in result.out.splitlines()]
        assert [(entry["node"], entry["sent"]) for entry in found[-2:]] == [
            ("10.0.0.2", "3"),
            ("10.0.0.3", "3"),
        ]
    else:
        assert result.out.count('sent: "3"\nreceived: "1"\n') == 2


def test_ping_without_a_single_reply_has_another_exit_code(talosctl: Client, node: FakeNode) -> None:
    lost = [PINGS[0], PINGS[2], pb.PingReply(summary=pb.PingSummary(sent=1))]
    node.on(PING, pb.PingRequest, lost, stream=True)
    result = talosctl("ping", "gw.example", "-n", "10.0.0.2", "-o", "yaml")
    assert result.code == Exit.TIMED_OUT
    assert 'received: "0"\nlost: 100%\n' in result.out


def test_one_node_that_refuses_leaves_the_others_rows(talosctl: Client, node: FakeNode) -> None:
    def answer(_request: Any, metadata: Mapping[str, str]) -> AsyncIterator[Any] | GRPCError | Any:
        if metadata["node"] == "10.0.0.3":
            return GRPCError(Status.INVALID_ARGUMENT, "count 0 is out of bounds: give 1 to 10000")
        return PINGS

    node.on(PING, pb.PingRequest, answer, stream=True)
    result = talosctl("ping", "gw.example", "--count", "0", "-n", "10.0.0.2,10.0.0.3")
    assert result.code == Exit.REFUSED
    assert (
        "error: 10.0.0.3: rpc error: code = InvalidArgument desc = count 0 is out of bounds: give 1 to 10000"
        in result.err
    )
    assert "10.0.0.2   10.9.0.1   1 " in result.out


def make_hop(number: int, *senders: str, arrives: bool = False, error: str = "") -> pb.TracerouteReply:
    answers = [
        pb.HopAnswer(sender=sender, round_trip=make_duration(0.001), error=error)
        if sender
        else pb.HopAnswer()
        for sender in senders
    ]
    return pb.TracerouteReply(hop=pb.Hop(number=number, answers=answers, is_destination=arrives))


def test_traceroute_shows_a_row_for_each_hop(talosctl: Client, node: FakeNode) -> None:
    hops = [
        pb.TracerouteReply(address="10.9.0.1"),
        make_hop(1, "10.0.0.1", "10.0.0.1", "10.0.0.3"),
        make_hop(2, "", ""),
        make_hop(3, "10.9.0.1", "", arrives=True),
    ]
    node.on(TRACE, pb.TracerouteRequest, hops, stream=True)
    result = talosctl("traceroute", "gw.example", "-n", "10.0.0.2", "--icmp", "-6", "--max-hops", "9")
    assert (result.code, result.err) == (Exit.DONE, "")
    assert result.out == (
        "NODE       ADDRESS    HOP   FROM                 TIMES                         ERROR\n"
        "10.0.0.2   10.9.0.1   1     10.0.0.1, 10.0.0.3   1ms 1ms 1ms\n"
        "10.0.0.2   10.9.0.1   2                          * *\n"
        "10.0.0.2   10.9.0.1   3     10.9.0.1             1ms *\n"
    )
    assert node.seen[-1][2] == pb.TracerouteRequest(
        host="gw.example",
        family=pb.FAMILY_IPV6,
        protocol=pb.TracerouteRequest.ICMP,
        max_hops=9,
        queries=3,
        timeout=make_duration(1),
    )


def test_a_traceroute_that_does_not_arrive_has_another_exit_code(talosctl: Client, node: FakeNode) -> None:
    hops = [pb.TracerouteReply(address="10.9.0.1"), make_hop(1, "10.0.0.1", error="host unreachable")]
    node.on(TRACE, pb.TracerouteRequest, hops, stream=True)
    result = talosctl("traceroute", "gw.example", "-n", "10.0.0.2,10.0.0.3", "-o", "json")
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert sorted(row["node"] for row in rows) == ["10.0.0.2", "10.0.0.3"]
    assert (rows[0]["from"], rows[0]["error"]) == ("10.0.0.1", "host unreachable")
    assert result.code == Exit.TIMED_OUT


def test_dns_query_shows_a_row_for_each_record(talosctl: Client, node: FakeNode) -> None:
    records = [
        pb.Record(name="a.example.", time_to_live=60, type="CNAME", data="b.example."),
        pb.Record(name="b.example.", time_to_live=5, type="A", data="192.0.2.1"),
    ]
    reply = pb.DNSQueryReply(
        server="10.0.0.53:53", round_trip=make_duration(0.003), code="NOERROR", records=records
    )
    node.on(QUERY, pb.DNSQueryRequest, reply)
    result = talosctl("dns-query", "a.example", "-n", "10.0.0.2", "--server", "10.0.0.53", "-t", "A")
    assert (result.code, result.err) == (Exit.DONE, "")
    assert result.out == (
        "NODE       SERVER         TIME   CODE      SECTION   NAME         TTL   TYPE    DATA\n"
        "10.0.0.2   10.0.0.53:53   3ms    NOERROR   answer    a.example.   60    CNAME   b.example.\n"
        "10.0.0.2   10.0.0.53:53   3ms    NOERROR   answer    b.example.   5     A       192.0.2.1\n"
    )
    request = pb.DNSQueryRequest(name="a.example", type="A", server="10.0.0.53", timeout=make_duration(5))
    assert node.seen[-1][2] == request


def test_a_name_that_a_node_does_not_find_has_another_exit_code(talosctl: Client, node: FakeNode) -> None:
    def answer(_request: Any, metadata: Mapping[str, str]) -> pb.DNSQueryReply | GRPCError:
        if metadata["node"] == "10.0.0.4":
            return GRPCError(Status.DEADLINE_EXCEEDED, "10.0.0.53:53: no answer in time")
        code = "NXDOMAIN" if metadata["node"] == "10.0.0.3" else "NOERROR"
        return pb.DNSQueryReply(server="10.0.0.53:53", round_trip=make_duration(0.003), code=code)

    node.on(QUERY, pb.DNSQueryRequest, answer)
    result = talosctl("dns-query", "a.example", "-n", "10.0.0.2,10.0.0.3", "-o", "json")
    assert result.code == Exit.FAILED
    assert [(row["node"], row["code"]) for row in json.loads(result.out)] == [
        ("10.0.0.2", "NOERROR"),
        ("10.0.0.3", "NXDOMAIN"),
    ]
    assert talosctl("dns-query", "a.example", "-n", "10.0.0.4").code == Exit.TIMED_OUT


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        (["NOERROR"], Exit.DONE),
        (["SERVFAIL"], Exit.FAILED),
        (["REFUSED"], Exit.REFUSED),
        (["REFUSED", "REFUSED"], Exit.REFUSED),
        (["NOERROR", "REFUSED"], Exit.FAILED),
    ],
)
def test_a_server_that_refuses_the_query_is_a_refusal(
    talosctl: Client, node: FakeNode, codes: list[str], expected: Exit
) -> None:
    def answer(_request: Any, metadata: Mapping[str, str]) -> pb.DNSQueryReply:
        code = codes[int(metadata["node"].removeprefix("10.0.0."))]
        return pb.DNSQueryReply(server="10.0.0.53:53", code=code)

    node.on(QUERY, pb.DNSQueryRequest, answer)
    nodes = ",".join(f"10.0.0.{number}" for number in range(len(codes)))
    assert talosctl("dns-query", "a.example", "-n", nodes).code == expected


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("ping",), "1"),
        (("ping", "a", "b"), "1"),
        (("ping", "a", "--count", "70000"), "count"),
        (("ping", "a", "-4", "-6"), "ipv6"),
        (("dns-query",), "1"),
        (("traceroute", "a", "-4", "-6"), "ipv6"),
    ],
)
def test_a_wrong_command_line_calls_no_node(
    talosctl: Client, node: FakeNode, argv: tuple[str, ...], text: str
) -> None:
    result = talosctl(*argv, "-n", "10.0.0.2")
    assert (result.code, node.seen) == (Exit.USAGE, [])
    assert text in result.err
