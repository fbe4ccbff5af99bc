"""Queries of servers of the test's, over real sockets."""

from pathlib import Path

import pytest
import trio
from tests.unit.dnsd.probes.kernel import CALL
from tests.unit.dnsd.server import (
    LOCALHOST,
    Answer,
    make_authority,
    make_record,
    make_reply,
    serving,
)

from talos.api.probe import probe_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.api.timestamps import make_duration
from talos.dnsd import upstream as upstream_module
from talos.dnsd.message import MalformedError, Query, Reply, encode_name
from talos.dnsd.probes.dns_query import MAX_SERVERS, Querier, parse_resolv_conf, parse_type
from talos.dnsd.probes.records import MAX_RECORDS, TYPES, format_code, read_records
from talos.dnsd.probes.service import MAX_CALLS, ProbeService
from talos.dnsd.upstream import Upstream

SERVER = str(LOCALHOST)
SHORT = make_duration(0.5)
TARGET = encode_name("b.example")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_module, "UDP_TIMEOUT", 0.1)


async def query(
    request: pb.DNSQueryRequest, answer: Answer, seen: list[bytes] | None = None
) -> pb.DNSQueryReply:
    """The reply of a service whose servers are the test's."""
    async with serving(answer, seen) as upstream:
        service = ProbeService(Querier(port=upstream.port))
        return await service.query(request, CALL)


def record_queries(patch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of the servers that are queried from now on."""
    calls: list[str] = []
    query = Upstream.query

    async def recorded(upstream: Upstream, message: Query) -> Reply:
        calls.append(str(upstream.server.address))
        return await query(upstream, message)

    patch.setattr(Upstream, "query", recorded)
    return calls


def number(*values: int) -> bytes:
    return b"".join(value.to_bytes(2) for value in values)


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("A", bytes((192, 0, 2, 1)), "192.0.2.1"),
        ("AAAA", bytes(15) + b"\1", "::1"),
        ("CNAME", TARGET, "b.example."),
        ("CNAME", b"\1b\xc0\x0e", "b.example."),
        ("PTR", b"\0", "."),
        ("MX", number(10) + TARGET, "10 b.example."),
        ("SRV", number(1, 2, 443) + TARGET, "1 2 443 b.example."),
        ("TXT", b'\5a "b"\0\1\xff', '"a \\"b\\"" "" "\\255"'),
        ("CAA", b"\x80\5issueca.example", '128 issue "ca.example"'),
        ("HTTPS", b"\0\1\0", "\\# 3 000100"),
        ("TYPE65280", b"", "\\# 0"),
    ],
)
async def test_records_are_text_as_in_zone_files(kind: str, data: bytes, text: str) -> None:
    record = make_record(data, kind=parse_type(kind), seconds=300)
    request = pb.DNSQueryRequest(name="A.example", type=kind, server=SERVER)
    reply = await query(request, lambda question: [make_reply(question, record)])
    assert (reply.code, reply.server) == ("NOERROR", f"{SERVER}:53")
    assert 0 < reply.round_trip.ToNanoseconds() < 10**9
    assert list(reply.records) == [pb.Record(name="a.example.", time_to_live=300, type=kind, data=text)]


async def test_a_name_that_is_not_there_has_its_code_and_its_authority() -> None:
    request = pb.DNSQueryRequest(name="a.example", server=SERVER)
    reply = await query(
        request, lambda question: [make_reply(question, code=3, authorities=[make_authority(9, 5)])]
    )
    [record] = reply.records
    assert (reply.code, record.type, record.data) == ("NXDOMAIN", "SOA", ". . 1 2 3 4 5")
    assert record.section == pb.Record.AUTHORITY


async def test_an_address_has_a_name_of_its_own() -> None:
    seen: list[bytes] = []
    for address, name in (
        ("192.0.2.1", "1.2.0.192.in-addr.arpa"),
        ("2001:db8::1", "1" + ".0" * 23 + ".8.b.d.0.1.0.0.2.ip6.arpa"),
    ):
        await query(
            pb.DNSQueryRequest(name=address, type="ptr", server=SERVER), lambda one: [make_reply(one)], seen
        )
        assert encode_name(name) in seen[-1]


async def test_the_nodes_own_servers_are_queried_in_their_order(tmp_path: Path) -> None:
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.write_text("search example\nnameserver 127.0.0.9\nnameserver  127.0.0.1\noptions x\n")
    async with serving(lambda question: [make_reply(question)]) as upstream:
        querier = Querier(resolv_conf=str(resolv_conf), port=upstream.port)
        assert (await querier.run(pb.DNSQueryRequest(name="a.example"))).server == "127.0.0.1:53"
    resolv_conf.write_text("# none\n")
    with pytest.raises(
        RpcError, match="no name servers: see `talosctl get resolvers`, or name one"
    ) as caught:
        await querier.run(pb.DNSQueryRequest(name="a.example"))
    assert caught.value.code is Code.FAILED_PRECONDITION


def test_servers_of_resolv_conf() -> None:
    text = "nameserver 10.0.0.1\nnameserver x\nnameserver\nnameserver ::1\n" + "nameserver 10.0.0.2\n" * 9
    assert [str(address) for address in parse_resolv_conf(text)] == ["10.0.0.1", "::1", "10.0.0.2"]
    assert len(parse_resolv_conf(text)) == MAX_SERVERS


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([], "127.0.0.1:53: no answer in time; try another server"),
        ([make_record(bytes(5))], "127.0.0.1:53: a record A of another length"),
        ([make_record(b"\xc0\xff", kind=5)], "127.0.0.1:53: a name that leads forward"),
        ([make_record(b"\xff", kind=16)], "127.0.0.1:53: cut off"),
    ],
)
async def test_a_server_without_a_usable_answer_is_one_line(records: list[bytes], text: str) -> None:
    def answer(question: bytes) -> list[bytes]:
        return [make_reply(question, *records)] if records else []

    timeout = make_duration(30) if records else SHORT
    request = pb.DNSQueryRequest(name="a.example", server=SERVER, timeout=timeout)
    async with serving(answer) as upstream:
        with pytest.raises(RpcError, match=text) as caught:
            await Querier(port=upstream.port).run(request)
    assert caught.value.code is Code.DEADLINE_EXCEEDED


async def test_a_server_that_refuses_is_named_at_once() -> None:
    async with serving(lambda _: []) as upstream:
        port = upstream.port
    with (
        trio.fail_after(2),
        pytest.raises(RpcError, match=r"127\.0\.0\.1:53: Connection refused; try another") as caught,
    ):
        await Querier(port=port).run(pb.DNSQueryRequest(name="a.example", server=SERVER))
    assert caught.value.code is Code.FAILED_PRECONDITION


async def test_only_a_server_that_is_silent_is_queried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed port, and what is no answer, stay what they are: nothing would space the queries."""
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.write_text("nameserver 127.0.0.9\nnameserver 127.0.0.1\n")
    seen: list[bytes] = []
    calls = record_queries(monkeypatch)

    def answer(question: bytes) -> list[bytes]:
        seen.append(question)
        return [] if len(seen) < 3 else [make_reply(question, make_record(bytes(5)))]

    async with serving(answer) as upstream:
        querier = Querier(resolv_conf=str(resolv_conf), port=upstream.port)
        with pytest.raises(RpcError, match="a record A of another length"):
            await querier.run(pb.DNSQueryRequest(name="a.example", timeout=make_duration(30)))
    assert calls == ["127.0.0.9", "127.0.0.1", "127.0.0.1", "127.0.0.1"]


async def test_the_code_is_that_of_the_server_which_is_named(tmp_path: Path) -> None:
    """The first one refuses; the time is over while the second one is waited for."""
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.write_text("nameserver 127.0.0.9\nnameserver 127.0.0.1\n")
    async with serving(lambda _: []) as upstream:
        querier = Querier(resolv_conf=str(resolv_conf), port=upstream.port)
        with pytest.raises(RpcError, match=r"127\.0\.0\.1:53: no answer in time") as caught:
            await querier.run(pb.DNSQueryRequest(name="a.example", timeout=SHORT))
    assert caught.value.code is Code.DEADLINE_EXCEEDED


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (pb.DNSQueryRequest(), "name '' is none: labels of 1 to 63 ASCII characters"),
        (pb.DNSQueryRequest(name="a..b"), r"name 'a\.\.b' is none"),
        (pb.DNSQueryRequest(name="x" * 64), "is none: labels"),
        (pb.DNSQueryRequest(name="ä.example"), "is none: labels"),
        (pb.DNSQueryRequest(name="a." * 500), "is none: labels"),
        (pb.DNSQueryRequest(name="a", type="AXFR"), "type 'AXFR' is none of records: give one such as AAAA"),
        (pb.DNSQueryRequest(name="a", type="TYPE255"), "type 'TYPE255' is none"),
        (pb.DNSQueryRequest(name="a", type="TYPE65536"), "type 'TYPE65536' is none"),
        (pb.DNSQueryRequest(name="a", type="1"), "type '1' is none"),
        (
            pb.DNSQueryRequest(name="a", server="dns"),
            "server 'dns' is no address: give one such as 10.96.0.10",
        ),
        (pb.DNSQueryRequest(name="a", server="224.0.0.251"), "server '224.0.0.251' is no address"),
        (
            pb.DNSQueryRequest(name="a", timeout=make_duration(31)),
            "timeout 31s is out of bounds: give 100ms to 30s",
        ),
    ],
)
async def test_what_is_out_of_bounds_is_refused(request_: pb.DNSQueryRequest, text: str) -> None:
    with pytest.raises(RpcError, match=text) as caught:
        await Querier().run(request_)
    assert caught.value.code is Code.INVALID_ARGUMENT


async def test_calls_at_a_time_are_bounded() -> None:
    async with serving(lambda _: []) as upstream, trio.open_nursery() as nursery:
        service = ProbeService(Querier(port=upstream.port))
        request = pb.DNSQueryRequest(name="a", server=SERVER, timeout=make_duration(30))
        for _ in range(MAX_CALLS):
            nursery.start_soon(service.query, request, CALL)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(RpcError, match="8 probes run on this node"):
            await service.query(request, CALL)
        nursery.cancel_scope.cancel()


def test_codes_and_the_bound_of_records() -> None:
    assert [format_code(code) for code in (0, 5, 16, 15)] == ["NOERROR", "REFUSED", "BADVERS", "RCODE15"]
    question = encode_name("a.example") + number(TYPES["A"], 1)
    header = number(0, 0x8180, 1, MAX_RECORDS + 1, 0, 0)
    with pytest.raises(MalformedError, match="more than 500 records"):
        read_records(header + question + make_record(bytes(4)) * (MAX_RECORDS + 1))
