"""The static pods as the kubelet has them, fetched at a port with the certificates of both sides."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, override

import pytest
import trio
import trio.testing
from tests.harness.serving import serving
from tests.harness.tls import make_server_tls

from talos.api.common.common_pb2 import PEMEncodedCertificate, PEMEncodedCertificateAndKey
from talos.api.definitions.k8s_pb2 import StaticPodSpec
from talos.api.definitions.secrets_pb2 import KubernetesDynamicCertsSpec, KubernetesRootSpec
from talos.kubed.controllers.static_pod_status import POLL_INTERVAL, SOURCE, StaticPodStatusController
from talos.kubed.node_access import KubeletIdentity
from talos.kubed.rollout import POD_UID
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.resource.objects import to_struct
from talos.system.logging import Log


def make_pod(name: str, uid: str = "1", *, source: str = "http") -> dict[str, Any]:
    metadata = {"namespace": "kube-system", "name": name, "uid": uid, "annotations": {SOURCE: source}}
    return {"metadata": metadata, "spec": {}, "status": {"phase": "Running"}}


class Handler(BaseHTTPRequestHandler):
    """Ends a connection after its reply without announcing it, as happens to one that was long at rest."""

    protocol_version = "HTTP/1.1"

    @override
    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def do_GET(self) -> None:
        node: Any = self.server
        node.questions += 1
        content = b"Forbidden" if node.is_refusing else json.dumps({"items": node.pods}).encode()
        self.send_response(403 if node.is_refusing else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True


class Node(ThreadingHTTPServer):
    """A kubelet's port, and the State of its node."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.own = CertificateAuthority.generate(KeyType.P256, common_name="kubelet")
        self.cluster = CertificateAuthority.generate(KeyType.P256, common_name="kubernetes")
        pair = self.own.issue(common_name="node", usages=Usage.SERVER)
        self.tls = make_server_tls(folder, pair, clients=self.cluster.crt)
        self.pods = [make_pod("server"), make_pod("web", source="api")]
        self.questions, self.is_refusing = 0, False
        self.identity, self.state = KubeletIdentity(), MemoryState()
        self.lines: list[str] = []
        self.has_logged = trio.Event()

    def log(self, line: str) -> None:
        self.lines.append(line)
        self.has_logged.set()

    def join(self) -> None:
        self.identity.set(b"pem", self.own.crt)

    async def put_pod(self) -> None:
        """A change for which the controller calls the kubelet."""
        await put(self.state, kinds.STATIC_POD, "server", StaticPodSpec(pod=to_struct(self.pods[0])))

    async def wait_for_uid(self, uid: str) -> None:
        await wait_for(
            self.state,
            kinds.STATIC_POD_STATUS,
            "kube-system/server",
            lambda found: found.metadata.annotations[POD_UID] == uid,
        )

    @asynccontextmanager
    async def controller(self) -> AsyncGenerator[None]:
        """Run it on a control plane node; nothing waits for the next poll."""
        pair = self.cluster.issue(common_name="kube-apiserver", usages=Usage.CLIENT)
        client = PEMEncodedCertificateAndKey(crt=pair.crt, key=pair.key)
        root = KubernetesRootSpec(accepted_c_as=[PEMEncodedCertificate(crt=self.cluster.crt)])
        await put(self.state, *ids.KUBERNETES_ROOT_SECRET, root)
        certificates = KubernetesDynamicCertsSpec(api_server_kubelet_client=client)
        await put(self.state, *ids.KUBERNETES_DYNAMIC_CERT, certificates)
        log = Log(write=self.log)
        controller = StaticPodStatusController(self.identity, log, port=self.server_port)
        with trio.fail_after(POLL_INTERVAL - 5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run_controllers, self.state, [controller])
                yield
                nursery.cancel_scope.cancel()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    with serving(node, node.tls) as found:
        yield found


async def test_the_pods_are_known_as_soon_as_the_kubelet_has_joined(node: Node) -> None:
    async with node.controller():
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not node.questions
        node.join()
        await node.wait_for_uid("1")
    found = await node.state.list(kinds.STATIC_POD_STATUS)
    assert [pod.metadata.id for pod in found] == ["kube-system/server"]


async def test_a_kubelet_that_never_joins_shows_its_pods(node: Node) -> None:
    async with node.controller():
        node.identity.set(b"", node.own.crt)
        await node.wait_for_uid("1")


async def test_a_connection_that_was_closed_is_made_anew(node: Node) -> None:
    node.join()
    async with node.controller():
        await node.wait_for_uid("1")
        node.pods = [make_pod("server", "2")]
        await node.put_pod()
        await node.wait_for_uid("2")
    assert not node.lines


async def test_pods_stay_known_while_the_kubelet_refuses(node: Node) -> None:
    node.join()
    async with node.controller():
        await node.wait_for_uid("1")
        node.is_refusing = True
        await node.put_pod()
        await node.has_logged.wait()
        assert "the kubelet's pods can't be read: 403: Forbidden" in node.lines[0]
        await node.wait_for_uid("1")
