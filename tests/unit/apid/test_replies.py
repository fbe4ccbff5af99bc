"""Large replies are bounded and counted for their client until it has read them."""

import asyncio
from pathlib import Path

import pytest

from talos.api.methods import max_reply
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.port import call as port_call
from talos.rpc.protocol import OK, Status

from .raw_clients import Session, http2_client
from .world import GET, VERSION, Pki, node

pytestmark = pytest.mark.asyncio

SIZE = 1 << 20


class Machined:
    """Answers every call with a reply of a size."""

    def __init__(self, size: int = SIZE) -> None:
        self.size = size

    async def answer(self, call: ServerCall) -> Status:
        await call.receive()
        await call.send(bytes(self.size))
        return OK


def begin(session: Session, path: str = GET) -> int:
    stream = session.begin({}, path)
    session.h2.send_data(stream, b"\0\0\0\0\0", end_stream=True)
    session.flush()
    return stream


async def trailers(session: Session, stream: int) -> dict[str, str]:
    return await session.answer(stream)


async def test_replies_that_wait_for_their_reader_are_bounded(tmp_path: Path, pki: Pki) -> None:
    """A client that opens no window gets half of the memory, and another one a part of the rest."""
    async with (
        node(tmp_path, pki, Machined().answer, reply_memory=8 * SIZE) as a,
        http2_client(a, pki) as greedy,
        http2_client(a, pki) as other,
    ):
        greedy.h2.update_settings({4: 0})  # pyright: ignore[reportArgumentType]
        greedy.flush()
        streams = [begin(greedy) for _ in range(6)]
        refused = await asyncio.gather(*(trailers(greedy, stream) for stream in streams[4:5]))
        assert refused[0]["grpc-status"] == "8"
        assert refused[0]["grpc-message"] == "too many large replies at a time, try again"
        stream = begin(other)
        while not any(type(event).__name__ == "DataReceived" for event in await other.events()):
            pass
        other.h2.reset_stream(stream)


async def test_an_unread_reply_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pki: Pki) -> None:
    monkeypatch.setattr(port_call, "MAX_STALL", 0.3)
    async with (
        node(tmp_path, pki, Machined().answer, reply_memory=2 * SIZE) as a,
        http2_client(a, pki) as session,
    ):
        session.h2.update_settings({4: 0})  # pyright: ignore[reportArgumentType]
        for _ in range(3):  # there is room for one of them
            reply = await trailers(session, begin(session))
            assert (reply["grpc-status"], reply["grpc-message"]) == ("4", "the reply was not read in time")


async def test_a_window_of_the_connection_is_no_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pki: Pki
) -> None:
    monkeypatch.setattr(port_call, "MAX_STALL", 0.5)
    async with node(tmp_path, pki, Machined().answer) as a, http2_client(a, pki) as session:
        session.h2.update_settings({4: 0})  # pyright: ignore[reportArgumentType]
        answer = asyncio.ensure_future(trailers(session, begin(session)))
        while not answer.done():
            session.h2.increment_flow_control_window(1)
            session.flush()
            await asyncio.wait([answer], timeout=0.1)
        assert (await answer)["grpc-status"] == "4"


async def test_small_replies_may_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pki: Pki) -> None:
    """As those of a log that is shown page by page."""
    monkeypatch.setattr(port_call, "MAX_STALL", 0.1)
    async with node(tmp_path, pki, Machined(1000).answer) as a, http2_client(a, pki) as session:
        session.h2.update_settings({4: 0})  # pyright: ignore[reportArgumentType]
        stream = begin(session)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await session.answer(stream)
        session.h2.update_settings({4: 65535})  # pyright: ignore[reportArgumentType]
        assert (await trailers(session, stream))["grpc-status"] == "0"


@pytest.mark.parametrize("path", [VERSION, GET])
async def test_replies_have_a_bound_by_method(tmp_path: Path, path: str, pki: Pki) -> None:
    async with (
        node(tmp_path, pki, Machined(max_reply(path) + 1).answer) as a,
        http2_client(a, pki) as session,
    ):
        reply = await trailers(session, begin(session, path))
        assert reply["grpc-status"] == "8"
        assert f"larger than max ({max_reply(path) + 1} vs. {max_reply(path)})" in reply["grpc-message"]
