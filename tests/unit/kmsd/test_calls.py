"""From PID 1's request to a key management service and back, over sockets, with and without TLS."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from tests.harness.limits import REAL_TIMEOUT

from talos.kms.server import KEY_SIZE, KeyServer, Settings
from talos.kmsd.calls import KeyCaller
from talos.machined.node.key_requests import KeyRequests, make_key_service
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType
from talos.process.run import Daemon, host
from talos.rpc.channel import open_channel, open_remote
from talos.rpc.server import serve
from talos.serving.endpoint import Endpoint
from talos.system.errors import UserError
from talos.system.logging import Log

UUID = "2f1d4e0a-7c39-4b58-9d6e-81c5a3f0b742"
SECRET = bytes(range(KEY_SIZE))
AUTHORITY = CertificateAuthority.generate(KeyType.P256)

type Test = Callable[[Daemon, KeyRequests], Awaitable[None]]


def run_node(folder: Path, test: Test) -> None:
    """PID 1's requests, and kmsd beside it."""
    (folder / "roots").write_bytes(AUTHORITY.crt)

    async def main(daemon: Daemon) -> None:
        requests = KeyRequests()
        with trio.fail_after(REAL_TIMEOUT):
            async with (
                serve(daemon, [make_key_service(requests)], folder / "keys", grace=0),
                open_channel(daemon, folder / "keys", wait_for_ready=True) as transport,
                trio.open_nursery() as nursery,
            ):
                connect = partial(open_remote, daemon.bridge)
                caller = KeyCaller(transport, connect, daemon.log, trio.Path(folder / "roots"))
                nursery.start_soon(caller.run)
                await test(daemon, requests)
                nursery.cancel_scope.cancel()

    asyncio.run(host(main, "test", Log(write=lambda _: None)))


@asynccontextmanager
async def serving(daemon: Daemon, settings: Settings) -> AsyncGenerator[int]:
    """A service; its port."""
    server = KeyServer(settings)
    await daemon.bridge.call(server.start)
    try:
        yield server.port
    finally:
        with trio.CancelScope(shield=True):
            await daemon.bridge.call(server.stop)


def make_settings(*, tls: bool) -> Settings:
    pair = AUTHORITY.issue(common_name="kms", ips=["127.0.0.1"], usages=Usage.SERVER)
    return Settings(
        endpoint=Endpoint(host="127.0.0.1", port=0, tls=pair if tls else None), key=b"k" * KEY_SIZE
    )


@pytest.mark.parametrize("tls", [False, True])
def test_a_key_is_sealed_and_unsealed(tmp_path: Path, *, tls: bool) -> None:
    async def test(daemon: Daemon, requests: KeyRequests) -> None:
        async with serving(daemon, make_settings(tls=tls)) as port:
            endpoint = f"{'https' if tls else 'grpc'}://127.0.0.1:{port}"
            sealed = await requests.call(endpoint, UUID, SECRET, seal=True)
            assert len(sealed) == 60
            assert await requests.call(endpoint, UUID, sealed, seal=False) == SECRET
            assert requests.is_empty

    run_node(tmp_path, test)


@pytest.mark.parametrize(
    ("scheme", "uuid", "data", "reason"),
    [
        ("grpc", "other", b"", "the data were not sealed here for this node"),
        ("grpc", UUID, b"short", "incorrect data length"),
        ("https", UUID, b"", "."),
        ("nothing at", UUID, b"", "it is no URL with a host and a port"),
    ],
)
def test_what_fails_has_its_reason(tmp_path: Path, scheme: str, uuid: str, data: bytes, reason: str) -> None:
    async def test(daemon: Daemon, requests: KeyRequests) -> None:
        async with serving(daemon, make_settings(tls=False)) as port:
            sealed = await requests.call(f"127.0.0.1:{port}", UUID, SECRET, seal=True)
            with pytest.raises(UserError, match=reason):
                await requests.call(f"{scheme}://127.0.0.1:{port}", uuid, data or sealed, seal=False)

    run_node(tmp_path, test)


def test_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    async def test(daemon: Daemon, requests: KeyRequests) -> None:
        roots = trio.Path(tmp_path / "roots")
        await roots.write_bytes(CertificateAuthority.generate(KeyType.P256).crt)
        async with serving(daemon, make_settings(tls=True)) as port:
            with pytest.raises(UserError, match="certificate"):
                await requests.call(f"https://127.0.0.1:{port}", UUID, SECRET, seal=True)

    run_node(tmp_path, test)
