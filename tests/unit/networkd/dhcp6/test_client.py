"""The DHCPv6 client against a server's twin, with a clock that needs no waiting."""

import math
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from ipaddress import IPv6Address
from typing import override

import pytest
import trio
from trio.testing import MockClock

from talos.networkd.dhcp6.client import Client6
from talos.networkd.dhcp6.message import Kind, Lease6, make_duid, make_message, parse_message
from talos.networkd.dhcp6.options import Option, UnusableReplyError
from talos.networkd.dhcp6.wire import Wire6
from talos.system.logging import Log

DUID = make_duid(bytes((2, 0, 0, 0, 0, 1)))
SERVER = b"\0\3\0\1\2\0\0\0\0\2"
SENDER = IPv6Address("fe80::2")
ADDRESS = "fd00::100"
HOUR = 3600


def option(number: int, value: bytes) -> bytes:
    return struct.pack("!HH", number, len(value)) + value


def association(*inner: bytes, renew: int = 0, rebind: int = 0, number: int = 1) -> bytes:
    return option(Option.ASSOCIATION, struct.pack("!III", number, renew, rebind) + b"".join(inner))


def address(text: str = ADDRESS, seconds: int = HOUR) -> bytes:
    return option(Option.ADDRESS, struct.pack("!16sII", IPv6Address(text).packed, seconds, seconds))


def status(number: int, text: str = "") -> bytes:
    return option(Option.STATUS, number.to_bytes(2) + text.encode())


def answer(
    kind: Kind, transaction: bytes, *options: bytes, client: bytes = DUID, server: bytes = SERVER
) -> bytes:
    ends = option(Option.CLIENT_ID, client) + option(Option.SERVER_ID, server)
    return bytes((kind,)) + transaction + ends + b"".join(options)


class Server(Wire6):
    """Offers one address. ``silent`` and ``refusal`` make it a bad one."""

    def __init__(self) -> None:
        self.silent = False
        self.rapid = False
        self.refusal = b""
        self.address = ADDRESS
        self.received: list[tuple[Kind, bool]] = []
        self._send, self._receive = trio.open_memory_channel[tuple[bytes, IPv6Address]](100)

    @override
    async def send(self, message: bytes) -> None:
        kind, transaction = Kind(message[0]), message[1:4]
        self.received.append((kind, SERVER in message))
        if self.silent:
            return
        given = self.refusal or association(address(self.address))
        reply = Kind.ADVERTISE if kind is Kind.SOLICIT and not self.rapid else Kind.REPLY
        options = [given] if kind is not Kind.CONFIRM else [self.refusal or status(0)]
        if self.rapid:
            options.append(option(Option.RAPID_COMMIT, b""))
        # Of another client's exchange, and of an older one of ours.
        self.reply_with(answer(reply, transaction, given, client=make_duid(bytes(6))))
        self.reply_with(answer(reply, bytes(3), given))
        self.reply_with(answer(reply, transaction, *options))

    def reply_with(self, data: bytes) -> None:
        self._send.send_nowait((data, SENDER))

    @override
    async def receive(self) -> tuple[bytes, IPv6Address]:
        return await self._receive.receive()


@asynccontextmanager
async def client_of(server: Server) -> AsyncGenerator[tuple[Client6, list[Lease6 | None]]]:
    leases: list[Lease6 | None] = []

    async def report(lease: Lease6 | None) -> None:
        leases.append(lease)

    client = Client6(link="eth0", wire=server, duid=DUID, association=1, report=report, log=Log())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        yield client, leases
        nursery.cancel_scope.cancel()


async def test_addresses_are_requested_and_renewed(autojump_clock: MockClock) -> None:
    server = Server()
    async with client_of(server) as (_, leases):
        await trio.sleep(10)
        assert server.received == [(Kind.SOLICIT, False), (Kind.REQUEST, True)]
        assert leases[0] is not None
        assert [str(item.address) for item in leases[0].addresses] == [ADDRESS]
        await trio.sleep(HOUR / 2)
        assert server.received[-1] == (Kind.RENEW, True)
        assert len(leases) == 1


async def test_rapid_commit_needs_one_exchange(autojump_clock: MockClock) -> None:
    server = Server()
    server.rapid = True
    async with client_of(server) as (_, leases):
        await trio.sleep(10)
        assert [kind for kind, _ in server.received] == [Kind.SOLICIT]
        assert leases[0] is not None


async def test_a_server_that_fell_silent_is_missed_at_the_end_of_the_lease(autojump_clock: MockClock) -> None:
    server = Server()
    async with client_of(server) as (_, leases):
        await trio.sleep(10)
        server.silent = True
        await trio.sleep(HOUR - 30)
        assert len(leases) == 1
        # First the server itself gets the request, later all.
        assert {(Kind.RENEW, True), (Kind.REBIND, False)} <= set(server.received)
        await trio.sleep(60)
        assert leases[-1] is None
        assert len(server.received) < 40, "it does not flood the network"
        server.silent = False
        await trio.sleep(200)
        assert leases[-1] is not None


@pytest.mark.parametrize(
    "refusal",
    [association(status(3, "gone")), association(address(seconds=0))],
    ids=["no binding", "lifetime 0"],
)
async def test_addresses_taken_back_are_given_up_at_once(autojump_clock: MockClock, refusal: bytes) -> None:
    server = Server()
    async with client_of(server) as (_, leases):
        await trio.sleep(10)
        server.refusal = refusal
        await trio.sleep(HOUR / 2)
        assert leases[-1] is None
        server.refusal, server.address = b"", "fd00::200"
        await trio.sleep(100)
        lease = leases[-1]
        assert lease is not None
        assert str(lease.addresses[0].address) == "fd00::200"


async def test_addresses_of_another_link_are_given_up(autojump_clock: MockClock) -> None:
    server = Server()
    async with client_of(server) as (client, leases):
        await trio.sleep(10)
        client.check()
        await trio.sleep(10)
        assert len(leases) == 1
        server.refusal = status(4)
        client.check()
        await trio.sleep(10)
        assert server.received[-2:][0][0] in {Kind.CONFIRM, Kind.SOLICIT}
        assert None in leases


async def test_an_address_of_another_machine_is_declined(autojump_clock: MockClock) -> None:
    server = Server()
    async with client_of(server) as (client, leases):
        await trio.sleep(10)
        assert leases[-1] is not None
        client.decline(frozenset({IPv6Address("fd00::999")}))
        await trio.sleep(10)
        assert leases == leases[:1], "an address that the lease does not contain changes nothing"
        client.decline(frozenset({IPv6Address(ADDRESS)}))
        server.address = "fd00::200"
        await trio.sleep(5)
        assert server.received[-1] == (Kind.DECLINE, True)
        assert leases[-1] is None
        client.decline(frozenset())
        await trio.sleep(20)
        lease = leases[-1]
        assert lease is not None
        assert str(lease.addresses[0].address) == "fd00::200"


def parse(*options: bytes) -> Lease6:
    data = answer(Kind.REPLY, b"abc", *options)
    reply = parse_message(data, transaction=b"abc", client=DUID, association=1)
    assert reply is not None
    assert reply.lease is not None
    return reply.lease


def test_what_makes_no_sense_is_ignored_with_a_remark() -> None:
    lease = parse(
        association(address(), address("ff02::1"), address("fd00::2", 1), renew=7000, rebind=10),
        option(Option.DNS_SERVERS, b"x" * 15),
        option(Option.DOMAIN_LIST, b"\3a\nb\0"),
        option(Option.NTP_SERVER, option(3, b"\3ntp\7example\0")),
        option(Option.CLIENT_NAME, b"\0\4node\7example\0"),
    )
    assert [(str(item.address), item.seconds) for item in lease.addresses] == [
        (ADDRESS, HOUR),
        ("fd00::2", 30),
    ]
    assert (lease.resolvers, lease.search) == ((), ())
    assert (lease.hostname, lease.time_servers) == ("node.example", ("ntp.example",))
    assert (lease.renew_seconds, lease.rebind_seconds) == (15, 24)
    assert len(lease.remarks) == 5


def test_a_lease_for_ever_is_never_renewed() -> None:
    lease = parse(association(address(seconds=0xFFFFFFFF)))
    assert (lease.seconds, lease.renew_seconds) == (math.inf, math.inf)


@pytest.mark.parametrize(
    "options",
    [
        (association(),),
        (association(address(), number=2),),
        (association(address("fe80::1")),),
        (association(status(2, "no\naddress\x1b[2J")),),
        (status(1), association(address())),
        (option(Option.ASSOCIATION, b"short"),),
        (b"\0\3\xff\xff",),
        (option(99, b"") * 300,),
        (option(Option.SERVER_ID, SERVER), association(address())),
    ],
    ids=[
        "empty",
        "another",
        "link-local",
        "refused",
        "failed",
        "cut off",
        "too long",
        "too many",
        "two servers",
    ],
)
def test_a_reply_that_cannot_be_used_has_a_reason_on_one_line(options: tuple[bytes, ...]) -> None:
    with pytest.raises(UnusableReplyError) as caught:
        parse(*options)
    assert str(caught.value).isprintable()


def test_a_message_to_servers_can_be_read() -> None:
    message = make_message(
        Kind.RENEW,
        transaction=b"abc",
        client=DUID,
        association=1,
        elapsed=1000.0,
        server=SERVER,
        addresses=[IPv6Address(ADDRESS)],
    )
    assert message[:4] == b"\5abc"
    assert association(option(Option.ADDRESS, IPv6Address(ADDRESS).packed + bytes(8))) in message
    assert option(Option.ELAPSED, b"\xff\xff") in message
