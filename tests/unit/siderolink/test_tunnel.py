"""WireGuard's datagrams over gRPC: a node's relay, the service, and sockets in place of both WireGuards."""

import socket
from functools import partial

import pytest
import trio
from tests.unit.siderolink.test_server import NODE, run_test

from talos.api.rpc import Code, RpcError
from talos.api.siderolink.provision_pb2 import ProvisionRequest, ProvisionResponse
from talos.api.siderolink.wireguard_pb2 import PeerPacket
from talos.api.siderolink_endpoint import STREAM_PEER
from talos.clusterd.siderolink.provision import METHOD as PROVISION
from talos.clusterd.siderolink.relay import METHOD, Relay
from talos.process.run import Daemon
from talos.rpc.channel import open_remote
from talos.rpc.port.remote import RemoteServer
from talos.siderolink.registry import STREAM_NETWORK
from talos.system.logging import Log

EXCHANGE_TIMEOUT = 30
"""Seconds."""


async def open_datagrams() -> tuple[trio.socket.SocketType, int]:
    """A WireGuard's socket on the loopback interface, with its port."""
    made = trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    await made.bind(("127.0.0.1", 0))
    return made, made.getsockname()[1]


async def join(daemon: Daemon, remote: RemoteServer, uuid: str) -> str:
    """The name of the machine's stream."""
    request = ProvisionRequest(
        node_uuid=uuid, node_public_key=NODE, join_token="token", wireguard_over_grpc=True
    )
    async with open_remote(daemon.bridge, remote) as transport:
        reply = await transport.unary(PROVISION, request, ProvisionResponse)
    assert list(reply.server_endpoint) == [reply.grpc_peer_addr_port]
    return reply.grpc_peer_addr_port


def test_datagrams_go_both_ways_and_a_new_stream_takes_the_place_of_an_old_one() -> None:
    async def test(plain: socket.socket, daemon: Daemon, port: int, _lines: list[str]) -> None:
        manager = trio.socket.from_stdlib_socket(plain)
        remote = RemoteServer(host="127.0.0.1", port=port, context=None)
        peer = await join(daemon, remote, "uuid")
        assert peer.startswith(f"[{STREAM_NETWORK.network_address}"[:-2])
        link, link_port = await open_datagrams()
        stranger, _ = await open_datagrams()
        replaced = trio.Event()

        def write(line: str) -> None:
            if "peer replaced" in line:
                replaced.set()

        relay = Relay(partial(open_remote, daemon.bridge, remote), peer, Log(write=write))
        relay_port = await relay.bind()
        with trio.fail_after(EXCHANGE_TIMEOUT), link, stranger:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(relay.run)
                await link.sendto(b"before it is joined", ("127.0.0.1", relay_port))
                await relay.join(link_port)
                await stranger.sendto(b"stranger", ("127.0.0.1", relay_port))
                await link.sendto(b"there", ("127.0.0.1", relay_port))
                seen, address = await manager.recvfrom(100)
                while seen != b"there":
                    assert seen == b"before it is joined"
                    seen, address = await manager.recvfrom(100)
                await manager.sendto(b"back", address)
                assert await link.recv(100) == b"back"
                async with (
                    open_remote(daemon.bridge, remote) as transport,
                    transport.duplex(METHOD, PeerPacket, metadata={STREAM_PEER: [peer]}) as call,
                ):
                    await call.send(PeerPacket(Data=b"other"))
                    while await manager.recv(100) != b"other":
                        pass
                await replaced.wait()
                await link.sendto(b"again", ("127.0.0.1", relay_port))
                while await manager.recv(100) != b"again":
                    pass
                relay.end()

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        plain.bind(("127.0.0.1", 0))
        run_test(partial(test, plain), relayed=plain.getsockname())


def test_a_stranger_has_no_stream() -> None:
    async def test(daemon: Daemon, port: int, lines: list[str]) -> None:
        remote = RemoteServer(host="127.0.0.1", port=port, context=None)
        for peer in ("[fd00::1]:50888", ""):
            async with (
                open_remote(daemon.bridge, remote) as transport,
                transport.duplex(METHOD, PeerPacket, metadata={STREAM_PEER: [peer]}) as call,
            ):
                with pytest.raises(RpcError, match="peer not allowed") as raised:
                    await call.receive()
            assert raised.value.code == Code.PERMISSION_DENIED
        assert not [line for line in lines if "stream" in line]

    run_test(test)
