"""A kubelet without a certificate whose request waits is a diagnostic, once that lasts, until it is over."""

import socketserver
import ssl
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast, override

import pytest
import trio
from tests.harness.serving import serving
from tests.harness.tls import make_server_tls
from trio.testing import MockClock

from talos.kubed.controllers.kubelet_request import (
    DIAGNOSTIC,
    PERSISTENCE,
    KubeletRequestController,
    find_refusal,
)
from talos.kubed.node_access import KubeletIdentity, NodeAccess, NodeClient
from talos.kubed.serving_request import GROUP, SIGNER, USER_PREFIX
from talos.pki.authority import CertificateAuthority
from talos.pki.keys import KeyType
from talos.resource import kinds
from talos.resource.changes import wait_for
from talos.resource.controller.controller import ControllerRuntime
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.resource.state import NotFoundError


class Kubelet(socketserver.ThreadingTCPServer):
    """Speaks TLS; without a certificate of its own it ends each handshake with alert 80, as Go does."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        pair = CertificateAuthority.generate(KeyType.P256).issue(dns_names=["localhost"])
        self.context = make_server_tls(folder, pair)
        self.context.sni_callback = self._choose
        self.has_certificate = False

    def _choose(self, *_: object) -> int | None:
        return None if self.has_certificate else ssl.ALERT_DESCRIPTION_INTERNAL_ERROR

    @override
    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    @override
    def process_request_thread(self, request: Any, client_address: Any) -> None:
        with request:
            request.settimeout(5)
            try:
                request.do_handshake()
            except OSError:
                return


@contextmanager
def running_kubelet(folder: Path) -> Generator[Kubelet]:
    with serving(Kubelet(folder)) as kubelet:
        yield kubelet


def test_the_alert_of_a_kubelet_without_a_certificate(tmp_path: Path) -> None:
    with running_kubelet(tmp_path) as kubelet:
        port = kubelet.server_address[1]
        assert "internal error" in find_refusal(port)
        kubelet.has_certificate = True
        assert find_refusal(port) == ""
    assert find_refusal(port) == ""


class Client:
    """Has two requests of this node and one of another."""

    def __init__(self) -> None:
        self.approved = False

    async def list_all(self, path: str) -> Sequence[Mapping[str, Any]]:
        await trio.lowlevel.checkpoint()
        assert path.endswith(f"?fieldSelector=spec.signerName%3D{SIGNER}")
        status = {"conditions": [{"type": "Approved"}]} if self.approved else {}
        return [
            {
                "metadata": {"name": name},
                "spec": {"username": USER_PREFIX + node, "groups": [GROUP], "signerName": SIGNER},
                "status": status,
            }
            for name, node in (("csr-1", "one"), ("csr-2", "one"), ("csr-3", "two"))
        ]


class Access(NodeAccess):
    def __init__(self, client: Client) -> None:
        super().__init__(KubeletIdentity())
        self._client = client

    @override
    async def find(self, runtime: ControllerRuntime) -> NodeClient:
        await trio.lowlevel.checkpoint()
        return NodeClient(name="one", is_admin=False, key=b"", connect=lambda: cast("Any", self._client))


async def test_a_request_that_waits_is_a_diagnostic(autojump_clock: MockClock) -> None:
    del autojump_clock

    async def probe() -> str:
        await trio.lowlevel.checkpoint()
        return "tlsv1 alert internal error"

    state, client = MemoryState(), Client()
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, [KubeletRequestController(Access(client), probe)])
        found = await wait_for(state, kinds.DIAGNOSTIC, DIAGNOSTIC, lambda _: True)
        assert trio.current_time() - began >= PERSISTENCE
        assert found.spec.message == "kubelet server certificate rotation is enabled, but CSR is not approved"
        assert list(found.spec.details) == [
            "kubelet API error: tlsv1 alert internal error",
            "pending CSRs: csr-1, csr-2",
        ]
        client.approved = True
        await trio.sleep(2 * PERSISTENCE)
        with pytest.raises(NotFoundError):
            await state.get(kinds.DIAGNOSTIC, DIAGNOSTIC)
        nursery.cancel_scope.cancel()
