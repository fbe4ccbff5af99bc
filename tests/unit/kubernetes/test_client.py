"""What the client of the Kubernetes API asks for again: what an API server that stops leaves undone."""

import ssl
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import trio

from talos.kubernetes.client import MAX_REPEATS, Access, KubernetesClient, KubernetesError
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType

LOCALHOST = "127.0.0.1"
TAKEN = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"kind": "Pod"}'
STOPS = b'HTTP/1.1 503 -\r\nRetry-After: 0\r\nContent-Length: 20\r\n\r\n{"message": "stops"}'
BROKEN = b'HTTP/1.1 503 -\r\nContent-Length: 21\r\n\r\n{"message": "broken"}'
ENDS = b""


async def call(folder: Path, method: str, answers: Sequence[bytes]) -> tuple[str, int]:
    """What comes of a call, and how many of the answers it took, each on a connection of its own."""
    authority = CertificateAuthority.generate(KeyType.P256, organizations=["kubernetes"])
    server = authority.issue(ips=[LOCALHOST], usages=Usage.SERVER)
    (folder / "crt").write_bytes(server.crt)
    (folder / "key").write_bytes(server.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "crt", folder / "key")
    left = list(answers)

    async def handle(plain: trio.SocketStream) -> None:
        async with trio.SSLStream(plain, context, server_side=True, https_compatible=True) as stream:
            await stream.receive_some()
            await stream.send_all(left.pop(0))

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host=LOCALHOST))
        url = f"https://{LOCALHOST}:{listeners[0].socket.getsockname()[1]}"
        client = KubernetesClient(Access(server=url, authority=authority.crt), trio.to_thread.run_sync)
        try:
            outcome = str((await client.call(method, "/api/v1/pods"))["kind"])
        except KubernetesError as error:
            outcome = f"{error.status} {error}"
        nursery.cancel_scope.cancel()
    return outcome, len(answers) - len(left)


@pytest.mark.parametrize(
    ("method", "answers", "outcome", "taken"),
    [
        ("GET", [ENDS, STOPS, TAKEN], "Pod", 3),
        ("POST", [STOPS, TAKEN], "Pod", 2),
        # Whether something was done is not known.
        ("POST", [ENDS, TAKEN], "0 ", 1),
        # Nothing says that it passes.
        ("GET", [BROKEN, TAKEN], "503 broken", 1),
        ("GET", [STOPS] * 9, "503 stops", MAX_REPEATS + 1),
        ("GET", [ENDS] * 9, "0 ", MAX_REPEATS + 1),
    ],
)
async def test_what_a_server_that_stops_leaves_undone_is_asked_for_again(
    tmp_path: Path, method: str, answers: Sequence[bytes], outcome: str, taken: int
) -> None:
    found, count = await call(tmp_path, method, answers)
    assert found.startswith(outcome)
    assert count == taken
