"""Queries of a time server, against servers of our own."""

import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from talos.api.rpc import Code, RpcError
from talos.timed.ntp.client import query

NOW = 1_800_000_000.25
EPOCH_OFFSET = 2_208_988_800


def reply(request: bytes, time: float, *, flags: int = 4 << 3 | 4, stratum: int = 2) -> bytes:
    seconds = int(time)
    stamp = struct.pack("!II", (seconds + EPOCH_OFFSET) % 2**32, int((time - seconds) * 2**32))
    return bytes([flags, stratum, 0, 0]) + bytes(8) + b"RATE" + bytes(8) + request[40:48] + stamp + stamp


@asynccontextmanager
async def server(answer: Callable[[bytes], bytes | None]) -> AsyncGenerator[int]:
    async with trio.open_nursery() as nursery:
        channel = trio.socket.socket(trio.socket.AF_INET, trio.socket.SOCK_DGRAM)
        await channel.bind(("127.0.0.1", 0))

        async def run() -> None:
            while True:
                packet, sender = await channel.recvfrom(512)
                text = answer(packet)
                if text is not None:
                    await channel.sendto(text, sender)

        nursery.start_soon(run)
        yield channel.getsockname()[1]
        nursery.cancel_scope.cancel()
        channel.close()


@pytest.mark.parametrize("ahead", [0.0, 3.5, -3600.0, 400_000_000.0])
async def test_the_offset_is_what_our_clock_lacks(ahead: float) -> None:
    # The last one lies in the era after 2036.
    async with server(lambda packet: reply(packet, NOW + ahead)) as port:
        sample = await query("127.0.0.1", lambda: NOW, port=port)
    assert sample.offset == pytest.approx(ahead, abs=1e-3)


@pytest.mark.parametrize("local", [0.0, 4_100_000_000.0, 900_000_000.0])
async def test_a_wrong_local_clock_does_not_change_the_era(local: float) -> None:
    async with server(lambda packet: reply(packet, NOW)) as port:
        sample = await query("127.0.0.1", lambda: local, port=port)
    assert sample.offset == pytest.approx(NOW - local, abs=1e-3)


def answer_wrongly(packet: bytes, kind: str) -> bytes | None:
    match kind:
        case "refusal":
            return reply(packet, NOW, stratum=0)
        case "alarm":
            return reply(packet, NOW, flags=0xE4)
        case "stratum":
            return reply(packet, NOW, stratum=16)
        case "distant":
            good = reply(packet, NOW)
            return good[:4] + (2 << 16).to_bytes(4) * 2 + good[12:]
        case "foreign":
            return reply(bytes(48), NOW)
        case "garbage":
            return b"garbage"
        case _:
            return None


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("refusal", "refuses to answer: RATE"),
        ("alarm", "no synchronized clock"),
        ("stratum", "no synchronized clock"),
        ("distant", "no synchronized clock"),
        ("silence", "did not answer within 0.2 s"),
        ("foreign", "did not answer within 0.2 s"),
        ("garbage", "did not answer within 0.2 s"),
    ],
)
async def test_an_unusable_answer_is_reported(kind: str, message: str) -> None:
    async with server(lambda packet: answer_wrongly(packet, kind)) as port:
        with pytest.raises(RpcError, match=message) as caught:
            await query("127.0.0.1", lambda: NOW, port=port, max_wait=0.2)
    assert caught.value.code is Code.UNAVAILABLE
