"""The host's resolver before real sockets: good servers, dead ones, hostile ones, many clients."""

import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address

import pytest
import trio
from tests.unit.dnsd.server import (
    LOCALHOST,
    Answer,
    make_authority,
    make_question,
    make_record,
    make_reply,
    serving,
)

from talos.dnsd import upstream as upstream_module
from talos.dnsd.message import AAAA, encode_name
from talos.dnsd.resolver import Resolver
from talos.dnsd.server import Listener
from talos.dnsd.upstream import Server, Upstream
from talos.system.logging import Log

ADDRESS = bytes([192, 0, 2, 1])


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_module, "UDP_TIMEOUT", 0.2)
    monkeypatch.setattr(upstream_module, "STREAM_TIMEOUT", 0.5)


class Client:
    """Queries the resolver as programs do."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def udp(self, query: bytes) -> bytes:
        with trio.socket.socket(trio.socket.AF_INET, trio.socket.SOCK_DGRAM) as udp:
            await udp.connect(("127.0.0.1", self.port))
            await udp.send(query)
            return await udp.recv(65535)

    async def tcp(self, *queries: bytes) -> list[bytes]:
        answers: list[bytes] = []
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
            # All at once: a client may send the next question before it has the answer.
            await stream.send_all(b"".join(len(query).to_bytes(2) + query for query in queries))
            data = b""
            while len(answers) < len(queries):
                received = await stream.receive_some()
                assert received, "the resolver closed the connection"
                data += received
                while len(data) >= 2 and len(data) >= 2 + int.from_bytes(data[:2]):
                    size = 2 + int.from_bytes(data[:2])
                    answers.append(data[2:size])
                    data = data[size:]
        return answers


def listen(resolver: Resolver) -> Listener:
    """On a port that is free for UDP and for TCP."""
    while True:
        with suppress(OSError):
            return Listener(resolver, LOCALHOST, 0)


@asynccontextmanager
async def resolving(*upstreams: Upstream) -> AsyncGenerator[tuple[Resolver, Client]]:
    resolver = Resolver(Log())
    await resolver.use(upstreams)
    listener = listen(resolver)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listener.serve)
        yield resolver, Client(listener.port)
        nursery.cancel_scope.cancel()


def code(answer: bytes) -> int:
    return answer[3] & 15


def counts(answer: bytes) -> tuple[int, ...]:
    return struct.unpack("!4H", answer[4:12])


def one_address(query: bytes) -> Sequence[bytes]:
    return [make_reply(query, make_record(ADDRESS))]


async def test_an_answer_is_passed_on_kept_and_grows_old() -> None:
    queries: list[bytes] = []
    async with serving(one_address, queries) as upstream, resolving(upstream) as (resolver, client):
        began = trio.current_time()
        first = await client.udp(make_question("a.example", number=0x1234))
        assert (first[:2], code(first), counts(first)) == (b"\x124", 0, (1, 1, 0, 0))
        assert first.endswith(ADDRESS)
        # The case of the client's letters comes back, EDNS only to those that use it.
        second = await client.udp(make_question("a.example", edns=True).replace(b"\7example", b"\7eXaMpLe"))
        assert b"\7eXaMpLe" in second
        assert counts(second) == (1, 1, 0, 1)
        await trio.sleep(1.1)
        third = await client.udp(make_question("a.example"))
        (left,) = struct.unpack("!I", third[-10:-6])
        assert 59 - (trio.current_time() - began) <= left <= 59
        [answer] = await client.tcp(make_question("a.example"))
        assert answer.endswith(ADDRESS)
        assert len(queries) == 1
        # What the client sent is not what goes out, and its number is not guessed from the client's.
        assert queries[0][2:] != make_question("a.example")[2:]
        assert resolver.upstreams[0].is_healthy


async def test_equal_queries_at_the_same_time_are_sent_once() -> None:
    queries: list[bytes] = []
    async with serving(one_address, queries) as upstream, resolving(upstream) as (_, client):
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(client.udp, make_question("a.example", number=number))
        assert len(queries) == 1


@pytest.mark.parametrize(
    ("seconds", "minimum", "again"),
    [(60, 60, 1), (60, 0, 2), (0, 60, 2)],
    ids=["kept", "least", "life"],
)
async def test_a_denial_holds_as_long_as_its_authority_says(seconds: int, minimum: int, again: int) -> None:
    queries: list[bytes] = []

    def deny(query: bytes) -> Sequence[bytes]:
        return [make_reply(query, code=3, authorities=[make_authority(seconds, minimum)])]

    async with serving(deny, queries) as upstream, resolving(upstream) as (_, client):
        for _ in range(2):
            assert code(await client.udp(make_question("none.example"))) == 3
        assert len(queries) == again


def forged(query: bytes) -> Sequence[bytes]:
    """Answers with another number, to another question, cut off, and the real one last."""
    evil = make_record(bytes([6, 6, 6, 6]))
    number = (int.from_bytes(query[:2]) ^ 1).to_bytes(2)
    other = encode_name("b.example") + b"\0\1\0\1"
    return [
        make_reply(number + query[2:], evil),
        make_reply(query, evil, question=other),
        make_reply(query, evil)[:-15],
        query,
        b"",
        *one_address(query),
    ]


def endless(query: bytes) -> Sequence[bytes]:
    return [make_reply(b"\0\0" + query[2:]) for _ in range(100)]


def circular(query: bytes) -> Sequence[bytes]:
    """Names that point at themselves are not followed."""
    return [make_reply(query, make_record(ADDRESS, name=b"\xc0\x1b"))]


def overlong(query: bytes) -> Sequence[bytes]:
    return [make_reply(query, make_record(b"\xff" * 10)[:-1])[:-12]]


def silent(_: bytes) -> Sequence[bytes]:
    return []


def truncated(query: bytes) -> Sequence[bytes]:
    return [make_reply(query, flags=0x0200)]


async def test_forged_answers_before_the_real_one_are_ignored() -> None:
    async with serving(forged) as upstream, resolving(upstream) as (_, client):
        assert (await client.udp(make_question("a.example"))).endswith(ADDRESS)


@pytest.mark.parametrize("answer", [endless, overlong, truncated, silent])
async def test_a_server_that_gives_no_answer_is_put_last_and_the_next_queried(answer: Answer) -> None:
    queries: list[bytes] = []
    async with (
        serving(answer, queries) as bad,
        serving(one_address) as good,
        resolving(bad, good) as (resolver, client),
    ):
        assert (await client.udp(make_question("a.example"))).endswith(ADDRESS)
        first = len(queries)
        assert [upstream.is_healthy for upstream in resolver.upstreams] == [False, True]
        assert (await client.udp(make_question("b.example"))).endswith(ADDRESS)
        assert len(queries) == first


async def test_an_answer_with_names_in_a_circle_ends() -> None:
    async with serving(circular) as upstream, resolving(upstream) as (_, client):
        assert code(await client.udp(make_question("a.example"))) == 0


async def test_without_any_answer_the_client_gets_an_error_in_time() -> None:
    silent = Upstream(Server(address=ip_address("127.0.0.1")), port=1)
    async with resolving(silent) as (_, client):
        with trio.fail_after(5):  # what clients wait
            assert code(await client.udp(make_question("a.example"))) == 2
    async with resolving() as (_, client):
        assert code(await client.udp(make_question("a.example"))) == 2


async def test_a_large_answer_goes_over_tcp() -> None:
    def many(query: bytes) -> Sequence[bytes]:
        full = make_reply(query, *[make_record(bytes([10, 0, n // 256, n % 256])) for n in range(2000)])
        return [full]

    # Over UDP the server sends all of it, too: the loopback link carries that.
    async with serving(many) as upstream, resolving(upstream) as (_, client):
        short = await client.udp(make_question("a.example"))
        assert short[2] & 2, "truncated"
        assert len(short) <= 512
        [whole] = await client.tcp(make_question("a.example"))
        assert counts(whole)[1] == 2000


async def test_own_names_need_no_server() -> None:
    async with resolving() as (resolver, client):
        resolver.local = {encode_name("node-1"): [ip_address("10.5.0.2"), ip_address("fd00::2")]}
        assert (await client.udp(make_question("NODE-1"))).endswith(bytes([10, 5, 0, 2]))
        assert (await client.udp(make_question("node-1", AAAA))).endswith(ip_address("fd00::2").packed)
        nothing = await client.udp(make_question("node-1", 15))
        assert (code(nothing), counts(nothing)[1]) == (0, 0)


def replaced(start: int, data: bytes) -> bytes:
    """A question with other bytes at a place, counted from the end when it is negative."""
    query = bytearray(make_question("a.example"))
    start %= len(query)
    query[start : start + len(data)] = data
    return bytes(query)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (replaced(12, b"\xc0\x0c"), 1),
        (replaced(4, b"\0\2"), 1),
        (replaced(2, b"\x28"), 1),
        (replaced(-4, struct.pack("!HH", 252, 1)), 5),
        (replaced(-4, struct.pack("!HH", 255, 1)), 4),
        (replaced(-4, struct.pack("!HH", 16, 3)), 5),
    ],
    ids=["pointer", "two questions", "update", "transfer", "any", "chaos"],
)
async def test_a_question_that_is_none_is_refused(query: bytes, expected: int) -> None:
    async with resolving() as (_, client):
        assert code(await client.udp(query)) == expected
        [answer] = await client.tcp(query)
        assert code(answer) == expected


async def test_what_is_an_answer_is_not_answered() -> None:
    async with serving(one_address) as upstream, resolving(upstream) as (_, client):
        with pytest.raises(trio.TooSlowError), trio.fail_after(0.3):
            await client.udp(b"\0\1\x80" + make_question("a.example")[3:])


async def test_silent_clients_keep_no_other_waiting() -> None:
    async with serving(one_address) as upstream, resolving(upstream) as (_, client):
        silent = [await trio.open_tcp_stream("127.0.0.1", client.port) for _ in range(70)]
        await silent[0].send_all(b"\xff\xff")
        assert (await client.udp(make_question("a.example"))).endswith(ADDRESS)
        for stream in silent:
            await trio.aclose_forcefully(stream)
        answers = await client.tcp(make_question("a.example"), make_question("a.example", number=8))
        assert [answer[1] for answer in answers] == [7, 8]
