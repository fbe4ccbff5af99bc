"""The DHCP client against a server's twin, with a clock that needs no waiting."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from random import Random

import pytest
import trio
from tests.unit.networkd.dhcp.server import OPTIONS, SERVER, Server
from trio.testing import MockClock

from talos.networkd.dhcp.client import Client
from talos.networkd.dhcp.lease import Lease, UnusableAnswerError, parse_lease
from talos.networkd.dhcp.message import MessageType, make_request, parse_reply
from talos.networkd.dhcp.wire import make_packet, parse_packet
from talos.system.logging import Log

MAC = bytes((2, 0, 0, 0, 0, 1))


class Leases:
    def __init__(self) -> None:
        self.leases: list[Lease | None] = []

    async def report(self, lease: Lease | None) -> None:
        self.leases.append(lease)


@asynccontextmanager
async def client_of(server: Server, *, previous: str = "") -> AsyncGenerator[tuple[Client, Leases]]:
    reported = Leases()
    client = Client(link="eth0", wire=server, hardware_address=MAC, report=reported.report, log=Log())
    if previous:
        client.previous = IPv4Interface(previous).ip
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        yield client, reported
        nursery.cancel_scope.cancel()


async def test_a_lease_is_requested_taken_and_renewed(autojump_clock: MockClock) -> None:
    server = Server()
    async with client_of(server) as (_, reported):
        await trio.sleep(10)
        assert [kind for kind, _, _ in server.received] == ["DISCOVER", "REQUEST"]
        assert reported.leases[0] is not None
        assert reported.leases[0].address == IPv4Interface("10.0.2.15/24")
        await trio.sleep(1800)
        kind, options, to = server.received[-1]
        assert (kind, to, "requested_ip" in options) == ("REQUEST", SERVER, False)
        assert len(reported.leases) == 1


async def test_a_server_that_fell_silent_is_missed_at_the_end_of_the_lease(autojump_clock: MockClock) -> None:
    server = Server()
    async with client_of(server) as (_, reported):
        await trio.sleep(10)
        server.silent = True
        await trio.sleep(3500)
        assert len(reported.leases) == 1
        # First the server itself gets the request, later all.
        assert {to for _, _, to in server.received[2:]} == {SERVER, None}
        await trio.sleep(110)
        assert reported.leases[-1] is None
        server.silent = False
        await trio.sleep(70)
        assert reported.leases[-1] is not None


async def test_a_lease_taken_back_is_given_up_at_once(autojump_clock: MockClock) -> None:
    server = Server()
    async with client_of(server) as (_, reported):
        await trio.sleep(10)
        server.refusing = True
        await trio.sleep(1800)
        assert reported.leases[-1] is None
        server.refusing, server.address = False, "10.0.2.77"
        await trio.sleep(100)
        lease = reported.leases[-1]
        assert lease is not None
        assert str(lease.address) == "10.0.2.77/24"


async def test_the_old_address_is_requested_first(
    autojump_clock: MockClock,
) -> None:
    server = Server()
    async with client_of(server, previous="10.0.2.15/24") as (_, reported):
        await trio.sleep(10)
        assert [kind for kind, _, _ in server.received] == ["REQUEST"]
        assert len(reported.leases) == 1
    server = Server()
    server.refusing = True
    async with client_of(server, previous="10.0.2.15/24") as (_, reported):
        await trio.sleep(1)
        assert [kind for kind, _, _ in server.received[:2]] == ["REQUEST", "DISCOVER"]


async def test_after_the_cable_was_pulled_the_lease_is_checked(autojump_clock: MockClock) -> None:
    server = Server()
    async with client_of(server) as (client, reported):
        await trio.sleep(10)
        client.check()
        await trio.sleep(1)
        assert server.received[-1][1]["requested_ip"] == "10.0.2.15"
        assert len(reported.leases) == 1
        server.refusing = True
        client.check()
        await trio.sleep(1)
        assert reported.leases[-1] is None


@pytest.mark.parametrize("seed", range(20))
async def test_nonsense_is_survived(
    seed: int, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    random = Random(seed)
    server = Server()
    async with client_of(server) as (_, reported):
        for _ in range(30):
            server.raw = bytes((99, 130, 83, 99)) + random.randbytes(random.randrange(200))
            if random.random() < 0.5:
                server.raw = server.raw[:4] + b"\x35\x01\x02" + server.raw[4:]
            await trio.sleep(60)
        server.raw = None
        await trio.sleep(130)
        assert reported.leases[-1] is not None
    assert "Traceback" not in caplog.text


def parse(**options: object) -> Lease:
    return parse_lease("10.0.2.15", {**OPTIONS, **options})


def test_classless_routes_take_the_routers_place() -> None:
    routes = [24, 192, 0, 2, 10, 0, 2, 9, 0, 10, 0, 2, 1, 16, 172, 16, 0, 0, 0, 0]
    lease = parse(classless_static_route=routes)
    assert [str(route.destination) for route in lease.routes] == [
        "192.0.2.0/24",
        "0.0.0.0/0",
        "172.16.0.0/16",
    ]
    assert [str(route.gateway) for route in lease.routes] == ["10.0.2.9", "10.0.2.1", "None"]
    assert parse().routes[0].destination == IPv4Network("0.0.0.0/0")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("subnet_mask", "255.0.255.0"),
        ("subnet_mask", "0.0.0.0"),
        ("router", []),
        ("router", ["255.255.255.255"]),
        ("name_server", ["127.0.0.1"]),
        ("interface_mtu", 5),
        ("host_name", "a b"),
        ("host_name", "x" * 300),
        ("host_name", [255, 254]),
        ("domain_name", "evil\nnameserver 6.6.6.6"),
        ("classless_static_route", [33, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("classless_static_route", [24, 1]),
        ("domain_search", [0xC0, 0x00]),
        ("domain_search", [63, 1]),
        ("lease_time", 1),
        ("renewal_time", 100000),
        ("server_id", "224.0.0.1"),
    ],
)
def test_a_value_without_sense_is_ignored_and_reported(option: str, value: object) -> None:
    lease = parse(**{option: value})
    assert any(option in remark or "renewal" in remark for remark in lease.remarks)
    assert str(lease.address.ip) == "10.0.2.15"
    assert lease.seconds >= 30
    assert 0 < lease.renew_seconds < lease.rebind_seconds < lease.seconds


@pytest.mark.parametrize("address", ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "", "x"])
def test_an_answer_without_an_address_is_refused(address: str) -> None:
    with pytest.raises(UnusableAnswerError):
        parse_lease(address, OPTIONS)


def test_domains_are_read_as_in_dns() -> None:
    data = b"\x03eng\x07example\x03org\x00\x05sales\xc0\x04"
    assert parse(domain_search=list(data)).search == ("eng.example.org", "sales.example.org")


@pytest.mark.parametrize("seed", range(200))
def test_any_bytes_are_read_or_refused(seed: int) -> None:
    random = Random(seed)
    message = make_request(MessageType.DISCOVER, transaction=7, hardware_address=MAC, identifier=None)
    noise = bytearray(b"\2" + message[1:])
    for _ in range(random.randrange(40)):
        noise[random.randrange(236, len(noise))] = random.randrange(256)
    try:
        reply = parse_reply(bytes(noise), transaction=7, hardware_address=MAC)
        if reply is not None:
            parse_lease("10.0.0.1", reply.options)
    except ValueError:
        pass


def test_others_answers_are_none_of_ours() -> None:
    message = (
        b"\2" + make_request(MessageType.DISCOVER, transaction=7, hardware_address=MAC, identifier=None)[1:]
    )
    assert parse_reply(message, transaction=8, hardware_address=MAC) is None
    assert parse_reply(message, transaction=7, hardware_address=bytes(6)) is None
    assert parse_reply(message, transaction=7, hardware_address=MAC) is not None


def test_a_packet_holds_what_was_put_in() -> None:
    source, destination = IPv4Interface("10.0.0.1").ip, IPv4Interface("10.0.0.2").ip
    packet = make_packet(b"hello", source, destination)
    assert parse_packet(packet) == (b"hello", source)
    for cut in range(len(packet)):
        parse_packet(packet[:cut])


async def test_an_address_of_another_machine_is_declined(autojump_clock: MockClock) -> None:
    server = Server()
    server.owners[IPv4Address("10.0.2.15")] = bytes(6)
    async with client_of(server) as (_, reported):
        await trio.sleep(5)
        assert reported.leases == []
        kind, options, _ = server.received[-1]
        assert (kind, options["requested_ip"], options["server_id"]) == ("DECLINE", "10.0.2.15", "10.0.2.2")
        await trio.sleep(10)
        assert reported.leases[0] is not None
        assert str(reported.leases[0].address.ip) == "10.0.2.16"
