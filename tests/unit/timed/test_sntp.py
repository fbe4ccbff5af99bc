"""Asking a time server, against servers of our own."""

import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.rpc import Call, Code, RpcError
from talos.api.time.time_pb2 import TimeRequest
from talos.timed.service import TimeService
from talos.timed.sntp import EPOCH_OFFSET, Answer, query

NOW = 1_800_000_000.25
CALL = Call(method="/time.TimeService/Time", metadata={}, deadline=float("inf"), peer="")


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
        answer = await query("127.0.0.1", lambda: NOW, port=port)
    assert answer.offset == pytest.approx(ahead, abs=1e-3)
    assert answer.remote == pytest.approx(NOW + ahead, abs=1e-3)


def answer_wrongly(packet: bytes, kind: str) -> bytes | None:
    match kind:
        case "refusal":
            return reply(packet, NOW, stratum=0)
        case "alarm":
            return reply(packet, NOW, flags=0xE4)
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


async def test_time_takes_the_first_server_that_answers() -> None:
    async def servers() -> list[str]:
        return ["dead", "alive"]

    async def query_twin(name: str) -> Answer:
        if name == "dead":
            raise RpcError(Code.UNAVAILABLE, "dead")
        return Answer(server=name, local=NOW, remote=NOW + 1, offset=1.0)

    service = TimeService(servers, query_twin)
    message = (await service.time(Empty(), CALL)).messages[0]
    assert (message.server, message.localtime.seconds) == ("alive", 1_800_000_000)
    assert message.remotetime.ToNanoseconds() - message.localtime.ToNanoseconds() == 1_000_000_000
    with pytest.raises(RpcError, match="dead"):
        await service.check(TimeRequest(server="dead"), CALL)
    with pytest.raises(RpcError, match="no time server is named"):
        await service.check(TimeRequest(), CALL)
