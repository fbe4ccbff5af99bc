"""The management service on a real port, called as a node calls it."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from talos.api.rpc import Code, RpcError
from talos.api.service_endpoint import Endpoint as Place
from talos.api.siderolink.events_pb2 import EventRequest, EventResponse
from talos.clusterd.roots import TrustedRoots
from talos.clusterd.siderolink.provision import Enrollment, provision
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType
from talos.pki.wireguard import make_private_key, make_public_key
from talos.process.run import Daemon, host
from talos.rpc.channel import open_remote
from talos.rpc.port.remote import RemoteServer
from talos.serving.endpoint import Endpoint
from talos.siderolink.main import admit_elsewhere
from talos.siderolink.registry import SERVER, Registry, make_address
from talos.siderolink.server import LinkServer, Settings
from talos.system.logging import Log

AUTHORITY = CertificateAuthority.generate(KeyType.P256)
OWN, NODE = (make_public_key(make_private_key()) for _ in range(2))
PLACES = ("192.0.2.1:1", "name:2", "[2001:db8::1]:3")

type Test = Callable[[Daemon, int, list[str]], Awaitable[None]]


def run_test(test: Test, *, tls: bool = False, relayed: tuple[str, int] = ("127.0.0.1", 9)) -> None:
    """Run a test beside a service; it has the port and the lines of the log."""
    lines: list[str] = []

    async def main(daemon: Daemon) -> None:
        pair = AUTHORITY.issue(common_name="siderolink", ips=["127.0.0.1"], usages=Usage.SERVER)
        settings = Settings(
            endpoint=Endpoint(host="127.0.0.1", port=0, tls=pair if tls else None),
            public_key=OWN,
            wireguard=PLACES,
            relayed=relayed,
        )
        server = LinkServer(settings, Registry("token", admit_elsewhere), Log(write=lines.append))
        await daemon.bridge.call(server.start)
        try:
            await test(daemon, server.port, lines)
        finally:
            with trio.CancelScope(shield=True):
                await daemon.bridge.call(server.stop)

    asyncio.run(host(main, "test", Log(write=lambda _: None)))


def enroll(port: int, *, tls: bool = False, token: str = "token") -> Enrollment:
    return Enrollment(
        server=Place(host="127.0.0.1", port=port, is_plain=not tls),
        has_tunnel=False,
        node_uuid="uuid",
        join_token=token,
        unique_token="",
    )


@pytest.mark.parametrize("tls", [False, True])
def test_a_node_is_given_its_end_of_the_link(tmp_path: Path, *, tls: bool) -> None:
    roots = tmp_path / "roots"
    roots.write_bytes(AUTHORITY.pem.crt)

    async def test(daemon: Daemon, port: int, lines: list[str]) -> None:
        context = await TrustedRoots(trio.Path(roots)).read_context() if tls else None
        remote = RemoteServer(host="127.0.0.1", port=port, context=context)
        call = partial(provision, public_key=NODE, version="v1")
        async with open_remote(daemon.bridge, remote) as transport:
            reply = await call(transport, enroll(port, tls=tls))
            assert reply.node_address == make_address("uuid")
            assert (reply.server_address, reply.server_key) == (SERVER.ip, OWN)
            assert [one.port for one in reply.endpoints] == [1, 2, 3], "in the order of the flags"
            with pytest.raises(RpcError, match="invalid join token") as raised:
                await call(transport, enroll(port, tls=tls, token="x"))
            assert raised.value.code == Code.PERMISSION_DENIED
        [line] = [line for line in lines if "provisioned" in line]
        assert NODE in line
        assert "token" not in line

    run_test(test, tls=tls)


def test_an_event_is_a_line() -> None:
    async def test(daemon: Daemon, port: int, lines: list[str]) -> None:
        remote = RemoteServer(host="127.0.0.1", port=port, context=None)
        async with open_remote(daemon.bridge, remote) as transport:
            event = EventRequest(id="a\nb")
            event.data.type_url = "type.googleapis.com/machine.SequenceEvent"
            await transport.unary("/events.EventSinkService/Publish", event, EventResponse)
        [line] = [line for line in lines if "SequenceEvent" in line]
        assert "a?b" in line

    run_test(test)
