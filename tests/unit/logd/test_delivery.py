"""Deliveries to destinations that are healthy, slow, absent or hostile."""

import socket
import ssl
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio
from tests.harness.tls import make_server_tls
from tests.unit.logd.sink import Lines, running_sink

from talos.logd import delivery as module
from talos.logd import destination as destination_module
from talos.logd.delivery import MAX_DATAGRAM, MAX_ENDS, MAX_HELD, Delivery
from talos.logd.destination import Destination, open_connection, parse_destination
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType
from talos.system.backoff import Backoff
from talos.system.logging import Log


@asynccontextmanager
async def delivering(
    destination: Destination, log: list[str], context: ssl.SSLContext | None = None
) -> AsyncGenerator[Delivery]:
    opened = partial(open_connection, make_context=lambda: context) if context else open_connection
    delivery = Delivery(destination, Log(write=log.append), opened)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(delivery.run)
        yield delivery
        nursery.cancel_scope.cancel()


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_BACKOFF", Backoff(0.01, 0.02))


def number(index: int) -> bytes:
    return b"%06d" % index


async def test_lines_come_in_order_over_tcp() -> None:
    async with running_sink() as sink, delivering(sink.destination(), []) as delivery:
        for index in range(200):
            await delivery.put([number(2 * index), number(2 * index + 1)])
        await sink.wait_for(number(399))
        assert sink.lines == [number(index) for index in range(400)]
        await delivery.wait_until_idle(0.1)


async def test_a_destination_that_comes_late_gets_everything() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    log = Lines()
    async with delivering(Destination(scheme="tcp", host="127.0.0.1", port=port), log) as delivery:
        await delivery.put([b"first"])
        await log.wait()
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        stream = await listeners[0].accept()
        assert await stream.receive_some(100) == b"first\n"
        await stream.aclose()
        await listeners[0].aclose()
    assert len(log) == 1, "a destination that fails for one reason is one line"


async def test_what_was_not_acknowledged_is_sent_again_in_order() -> None:
    async with running_sink() as sink, delivering(sink.destination(), []) as delivery:
        sink.takes = 7  # each connection ends after a few lines, with others on the way
        lines = [number(index) for index in range(3000)]
        await delivery.put(lines)
        while sink.connections < 3:
            await sink.more.wait()
        sink.takes = float("inf")
        await delivery.put([b"last"])
        await sink.wait_for(b"last")
        firsts = [*dict.fromkeys(sink.lines)]
        assert firsts == [*lines, b"last"], "nothing overtakes, and nothing is missing"
        assert delivery.lost == 0


async def test_what_is_acknowledged_but_not_read_is_sent_again_and_given_up_at_last() -> None:
    """A load balancer without a server: its kernel takes the lines, and it resets the connection."""
    taken, is_up, log = 0, False, Lines()

    async def handle(stream: trio.SocketStream) -> None:
        nonlocal taken
        if is_up:
            sink.append(await stream.receive_some(100))
            await trio.sleep_forever()
        await trio.lowlevel.wait_readable(stream.socket)
        taken += 1
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream.socket.close()

    sink = Lines()
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        async with delivering(Destination(scheme="tcp", host="127.0.0.1", port=port), log) as delivery:
            await delivery.put([b"one", b"two"])
            await log.wait(text="lines are lost")
            assert (taken, delivery.lost) == (MAX_ENDS, 2)
            assert "connections have broken off at them" in log[-1]
            await delivery.put([b"three"])
            while taken < MAX_ENDS + 2:
                await trio.lowlevel.checkpoint()
            is_up = True
            await sink.wait()
            assert (sink, delivery.lost) == ([b"three\n"], 2)
        nursery.cancel_scope.cancel()


async def test_a_destination_that_closes_after_each_line_gets_each() -> None:
    async def handle(stream: trio.SocketStream) -> None:
        sink.append(await stream.receive_some(100))
        await stream.aclose()

    sink = Lines()
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        async with delivering(Destination(scheme="tcp", host="127.0.0.1", port=port), []) as delivery:
            for index in range(5):
                await delivery.put([number(index)])
                await sink.wait(index + 1)
            assert sink == [number(index) + b"\n" for index in range(5)]
        nursery.cancel_scope.cancel()


async def test_what_is_held_is_bounded_however_fast_a_destination_reads() -> None:
    async with running_sink() as sink, delivering(sink.destination(), []) as delivery:
        block = b"x" * 63_999
        for _ in range(40):
            await delivery.put([block])
        await delivery.put([b"last"])
        await sink.wait_for(b"last")
        assert sum(len(one.block) for one in delivery.sent) < MAX_HELD + 4 * len(block)
        await delivery.wait_until_idle(0.1)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
async def test_a_sink_without_tls_gets_nothing_in_the_clear(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is silent, or answers in the clear."""
    monkeypatch.setattr(destination_module, "CONNECT_TIMEOUT", 0.2)
    seen = bytearray()

    async def handle(stream: trio.SocketStream) -> None:
        if answer:
            await stream.send_all(answer)
        with suppress(trio.BrokenResourceError):
            while data := await stream.receive_some(4096):
                seen.extend(data)

    log = Lines()
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        async with delivering(Destination(scheme="tls", host="127.0.0.1", port=port), log) as delivery:
            await delivery.put([b"secret"])
            await log.wait()
            assert ("it takes nothing in time" if not answer else "wrong version number") in log[0].lower()
        nursery.cancel_scope.cancel()
    assert b"secret" not in seen


async def test_losses_in_quick_succession_are_reported_with_one_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REPORT_INTERVAL", 0.1)
    log = Lines()
    async with delivering(Destination(scheme="tcp", host="127.0.0.1", port=1), log) as delivery:
        delivery.note_lost(1, "first")
        await log.wait(text="first")
        for _ in range(100):
            delivery.note_lost(2, "later")
        await log.wait(text="later")
        await log.wait(text='"count":200')
        assert sum("lines are lost" in line for line in log) == 2


async def test_a_slow_destination_holds_its_own_lines_up_and_no_others() -> None:
    async with (
        running_sink() as slow,
        running_sink() as well,
        delivering(slow.destination(), []) as stuck,
        delivering(well.destination(), []) as other,
    ):
        slow.reads = trio.Event()
        with trio.move_on_after(0.5) as scope:
            for _ in range(10_000):
                await stuck.put([b"x" * 8000])
        assert scope.cancelled_caught, "it takes no more than what the kernel and one block hold"
        await other.put([b"through"])
        await well.wait_for(b"through")


async def test_a_destination_that_talks_back_is_not_read_into_memory() -> None:
    async def flood(stream: trio.SocketStream) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_all, b"y" * 4_000_000)
            lines.append(await stream.receive_some(100))
            nursery.cancel_scope.cancel()

    lines = Lines()
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, flood, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        async with delivering(Destination(scheme="tcp", host="127.0.0.1", port=port), []) as delivery:
            await delivery.put([b"hello"])
            await lines.wait()
        nursery.cancel_scope.cancel()
    assert lines == [b"hello\n"]


async def test_each_message_is_a_datagram_and_one_that_is_too_long_is_counted() -> None:
    with trio.socket.socket(trio.socket.AF_INET, trio.socket.SOCK_DGRAM) as receiver:
        await receiver.bind(("127.0.0.1", 0))
        port = receiver.getsockname()[1]
        log = Lines()
        async with delivering(Destination(scheme="udp", host="127.0.0.1", port=port), log) as delivery:
            await delivery.put([b"one", b"x" * (MAX_DATAGRAM + 1), b"two"])
            assert [await receiver.recv(100) for _ in range(2)] == [b"one", b"two"]
        assert delivery.lost == 1
        assert "longer than a datagram" in log[0]


def make_tls(folder: Path, address: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = CertificateAuthority.generate(KeyType.P256, organizations=["sink"])
    issued = authority.issue(ips=[address], usages=Usage.SERVER)
    client = ssl.create_default_context(cadata=authority.crt.decode())
    return make_server_tls(folder, issued), client


async def test_lines_come_over_tls_from_a_sink_with_a_trusted_certificate(tmp_path: Path) -> None:
    server, client = make_tls(tmp_path, "127.0.0.1")
    async with (
        running_sink(server) as sink,
        delivering(sink.destination("tls"), [], client) as delivery,
    ):
        await delivery.put([b"secret"])
        await sink.wait_for(b"secret")
        await delivery.wait_until_idle(0.1)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
async def test_a_certificate_that_is_not_trusted_gets_nothing(tmp_path: Path, address: str) -> None:
    server, client = make_tls(tmp_path, address)
    context = client if address != "127.0.0.1" else ssl.create_default_context()
    log = Lines()
    async with (
        running_sink(server) as sink,
        delivering(sink.destination("tls"), log, context) as delivery,
    ):
        await delivery.put([b"secret"])
        await log.wait()
        assert "certificate" in log[0]
        assert sink.lines == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("tcp://10.0.0.1:514", None),
        ("udp://[fd00::1]:514/", "udp://[fd00::1]:514"),
        ("tls://log.example:6514", None),
    ],
)
def test_urls_are_destinations(url: str, shown: str | None) -> None:
    assert str(parse_destination(url)) == (shown or url)


@pytest.mark.parametrize("url", ["http://a:1", "tcp://a", "tcp://:5", "udp://a:0", ""])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="scheme"):
        parse_destination(url)


@pytest.mark.parametrize("host", ["a" * 64, "a..b"])
def test_a_host_that_is_no_name_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="label"):
        parse_destination(f"tcp://{host}:514")
