"""Diagnostic, in upstream's words: the kubelet's request for the certificate of its port is not approved."""

import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import trio

from talos.api.definitions.runtime_pb2 import DiagnosticSpec
from talos.kubed.node_access import INPUTS, NodeAccess
from talos.kubed.serving_request import REQUESTS, SIGNER, find_node, is_decided
from talos.kubernetes.client import KubernetesError
from talos.resource import kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Output

DIAGNOSTIC = "kubelet-csr"
MESSAGE = "kubelet server certificate rotation is enabled, but CSR is not approved"
PORT = 10250
INTERVAL = 60.0
"""Seconds between two checks. One that finds something is repeated after PERSISTENCE."""
PERSISTENCE = 30.0
"""Seconds that it has to last: requests are approved within a moment."""
CONNECT_TIMEOUT = 5.0
"""Seconds for the handshake."""
NO_CERTIFICATE = "TLSV1_ALERT_INTERNAL_ERROR"
"""OpenSSL's name of alert 80, by which a kubelet without a certificate ends a handshake."""

type Probe = Callable[[], Awaitable[str]]


class KubeletRequestController(Controller):
    """The kubelet's port, CertificateSigningRequest → Diagnostic."""

    name = "runtime.KubeletRequestController"
    inputs = INPUTS
    outputs = (Output(kinds.DIAGNOSTIC, shared=True),)

    def __init__(self, access: NodeAccess, probe: Probe) -> None:
        self._access = access
        self._probe = probe

    async def run(self, runtime: ControllerRuntime) -> None:
        """Look again and again; what was found goes when it is over."""
        since: float | None = None
        while True:
            details = await self._find_details(runtime)
            now = trio.current_time()
            since = (now if since is None else since) if details else None
            if since is not None and now - since >= PERSISTENCE:
                await runtime.put(
                    kinds.DIAGNOSTIC, DIAGNOSTIC, DiagnosticSpec(message=MESSAGE, details=details)
                )
            elif not details:
                await runtime.remove(kinds.DIAGNOSTIC, DIAGNOSTIC)
            runtime.reset_backoff()
            await trio.sleep(PERSISTENCE if details else INTERVAL)

    async def _find_details(self, runtime: ControllerRuntime) -> list[str]:
        error = await self._probe()
        found = await self._access.find(runtime) if error else None
        if found is None:
            return []
        try:
            requests = await found.connect().list_all(f"{REQUESTS}?fieldSelector=spec.signerName%3D{SIGNER}")
        except KubernetesError:
            return []
        pending = list_pending(requests, found.name)
        return [f"kubelet API error: {error}", f"pending CSRs: {', '.join(pending)}"] if pending else []


def list_pending(requests: Sequence[Mapping[str, Any]], node: str) -> list[str]:
    """The names of a node's requests that are neither approved nor denied."""
    return [one["metadata"]["name"] for one in requests if find_node(one) == node and not is_decided(one)]


async def probe_kubelet() -> str:
    """:func:`find_refusal` of the node's kubelet."""
    return await trio.to_thread.run_sync(find_refusal, PORT)


def find_refusal(port: int) -> str:
    """How the kubelet ends a handshake for want of a certificate; empty when it doesn't, or isn't there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent
    try:
        with (
            socket.create_connection(("127.0.0.1", port), CONNECT_TIMEOUT) as connection,
            context.wrap_socket(connection),
        ):
            return ""
    except ssl.SSLError as error:
        return str(error) if error.reason == NO_CERTIFICATE else ""
    except OSError:
        return ""
