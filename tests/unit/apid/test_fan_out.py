"""Replies of several nodes: how they are merged, and the memory of those that are held until then."""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
from pathlib import Path

import pytest

from talos.api.machine import machine_pb2 as machine
from talos.api.rpc import Code
from talos.apid import fan_out
from talos.rpc.client_quota import ClientQuota
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.protocol import OK, Status

from .backends import tagged, two_nodes
from .world import Backend, Pki, call, client

pytestmark = pytest.mark.asyncio


BOTH = ["127.0.0.1", "127.0.0.2"]
MEMORY = 4096


def value_of(call: ServerCall, key: str) -> str:
    return next((value for name, value in call.metadata if name == key and isinstance(value, str)), "")


async def sized(call: ServerCall) -> Status:
    """Answers with a tag as long as the metadata demands."""
    await call.receive()
    reply = machine.VersionResponse()
    reply.messages.add().version.tag = "x" * int(value_of(call, "size"))
    await call.send(reply.SerializeToString())
    return OK


def outcomes(reply: bytes) -> dict[str, int]:
    """The length of each node's tag; of a node that failed the negative status code."""
    return {
        m.metadata.hostname: -m.metadata.status.code if m.metadata.error else len(m.version.tag)
        for m in machine.VersionResponse.FromString(reply).messages
    }


class TestReplyMemory:
    async def test_a_reply_beyond_the_clients_part_is_an_error_element(
        self, tmp_path: Path, pki: Pki
    ) -> None:
        async with (
            two_nodes(tmp_path, pki, tagged("a"), sized, reply_memory=MEMORY) as (a, _),
            client(a, pki, pki.client("os:reader")) as channel,
        ):
            reply = await call(channel, metadata={"nodes": BOTH, "size": "3000"})
            assert outcomes(reply) == {"127.0.0.1": 1, "127.0.0.2": -Code.RESOURCE_EXHAUSTED}
            by_host = {m.metadata.hostname: m for m in machine.VersionResponse.FromString(reply).messages}
            assert by_host["127.0.0.2"].metadata.error == (
                "rpc error: code = ResourceExhausted desc = too many large replies at a time, try again"
            )

    async def test_memory_is_returned_after_the_call(self, tmp_path: Path, pki: Pki) -> None:
        async with (
            two_nodes(tmp_path, pki, tagged("a"), sized, reply_memory=MEMORY) as (a, _),
            client(a, pki, pki.client("os:reader")) as channel,
        ):
            for _ in range(5):
                reply = await call(channel, metadata={"nodes": BOTH, "size": "1500"})
                assert outcomes(reply) == {"127.0.0.1": 1, "127.0.0.2": 1500}

    async def test_calls_share_it_and_another_client_has_a_part(self, tmp_path: Path, pki: Pki) -> None:
        """One client's call waits for its slow node; the reply of its other node is held."""

        held, may_answer = asyncio.Event(), asyncio.Event()

        def slow(answer: Backend) -> Backend:
            async def backend(call: ServerCall) -> Status:
                if value_of(call, "slow"):
                    held.set()
                    await may_answer.wait()
                return await answer(call)

            return backend

        async with (
            two_nodes(tmp_path, pki, sized, slow(tagged("b")), reply_memory=MEMORY) as (a, _),
            client(a, pki, pki.client("os:reader")) as one,
            client(a, pki, pki.client("os:reader")) as other,
        ):
            first = asyncio.ensure_future(call(one, metadata={"nodes": BOTH, "size": "1500", "slow": "yes"}))
            await held.wait()
            exhausted = {"127.0.0.1": -Code.RESOURCE_EXHAUSTED, "127.0.0.2": 1}
            # Until the first call's reply is held this one has room.
            while outcomes(await call(one, metadata={"nodes": BOTH, "size": "1500"})) != exhausted:
                pass
            reply = await call(other, metadata={"nodes": BOTH, "size": "1000"})
            assert outcomes(reply) == {"127.0.0.1": 1000, "127.0.0.2": 1}
            may_answer.set()
            assert outcomes(await first) == {"127.0.0.1": 1500, "127.0.0.2": 1}


async def unknown(call: ServerCall) -> Status:
    """Has none of its methods."""
    del call
    return Status(code=Code.UNIMPLEMENTED, message="unknown method")


@pytest.mark.parametrize(
    ("method", "streams"),
    [("/machine.MachineService/Gone", False), ("/machine.MachineService/NewStream", True)],
)
async def test_what_other_releases_know_answers_once_unless_it_says_otherwise(
    tmp_path: Path, pki: Pki, method: str, *, streams: bool
) -> None:
    async with (
        two_nodes(tmp_path, pki, unknown, unknown) as (a, _),
        client(a, pki, pki.client("os:admin")) as channel,
    ):
        rpc = channel.unary_stream(method)(b"", metadata=[("nodes", node) for node in BOTH])
        replies = [reply async for reply in rpc]
    if streams:
        metadata = [machine.Event.FromString(reply).metadata for reply in replies]
    else:
        [reply] = replies
        metadata = [m.metadata for m in machine.VersionResponse.FromString(reply).messages]
    assert {found.hostname for found in metadata} == set(BOTH)
    assert {found.status.code for found in metadata} == {Code.UNIMPLEMENTED}


def test_errors_have_a_place_in_a_full_reply() -> None:
    """The room that is left for them is in every message that a client takes."""
    memory = ClientQuota(total=10 * fan_out.MAX_MESSAGE, what="replies")
    replies = fan_out.Replies(memory, "c")
    replies.add(b"x" * (fan_out.MAX_MESSAGE - fan_out.ERRORS_SIZE))
    replies.add_error(b"e" * fan_out.ERRORS_SIZE)
    assert len(replies.merge()) == fan_out.MAX_MESSAGE
    replies.close()
    memory.take("c", 5 * fan_out.MAX_MESSAGE)
