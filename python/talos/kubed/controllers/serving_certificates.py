"""Approves the serving certificates of kubelets that rotate them: nothing in Kubernetes itself does.

A node's names are those of its member, which discovery knows. Without discovery they are those of its object
in Kubernetes, which its kubelet writes: then no two nodes may have the same one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote

import trio

from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.kubed.admin import ADMIN_INPUTS, AdminAccess, find_admin_secret
from talos.kubed.serving_request import SIGNER, Names, find_node, find_problem, is_decided
from talos.kubed.watch import keep_following
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.resource import kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input
from talos.resource.objects import format_now
from talos.system.logging import Log

COLLECTION = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
LEAST_PAUSE = 5.0
"""Seconds between two tries to reach the API; more when that takes long."""
MAX_WAITING = 1000
"""Requests that wait for a node to be known; more come from no cluster of ours."""


class ServingCertificatesController(Controller):
    """CertificateSigningRequest, Member → approval; on control plane nodes."""

    name = "k8s.KubeletServingCertificateController"
    inputs = (
        *ADMIN_INPUTS,
        Input(kinds.MEMBER),
    )

    def __init__(self, log: Log) -> None:
        self._log = log
        self._access = AdminAccess()
        self._root: KubernetesRootSpec | None = None
        self._waiting: dict[str, Mapping[str, Any]] = {}
        self._scope = trio.CancelScope()

    async def run(self, runtime: ControllerRuntime) -> None:
        """Follow the requests; look again at those that wait when members change."""
        self._root = None
        async with trio.open_nursery() as nursery:
            async for _ in runtime.events():
                spec = await find_admin_secret(runtime)
                if spec != self._root:
                    self._root = spec
                    self._scope.cancel()
                    if spec is not None:
                        self._scope = trio.CancelScope()
                        nursery.start_soon(self._keep_following, runtime, spec, self._scope)
                elif spec is not None:
                    for request in list(self._waiting.values()):
                        await self._decide(runtime, spec, request)

    async def _keep_following(
        self, runtime: ControllerRuntime, root: KubernetesRootSpec, scope: trio.CancelScope
    ) -> None:
        async def handle(event: str, request: Mapping[str, Any]) -> None:
            self._waiting.pop(request["metadata"]["name"], None)
            if event != "DELETED" and not is_decided(request):
                await self._decide(runtime, root, request)

        def report(error: KubernetesError) -> None:
            self._waiting.clear()  # those that still wait come again
            self._log.once(f"kubelets' requests wait: {error}", key="requests", level="info")

        with scope:
            self._waiting.clear()
            connect = partial(self._access.connect, root)
            await keep_following(
                connect, COLLECTION, f"spec.signerName={SIGNER}", handle, report, least_pause=LEAST_PAUSE
            )

    async def _decide(
        self, runtime: ControllerRuntime, root: KubernetesRootSpec, request: Mapping[str, Any]
    ) -> None:
        name, node = request["metadata"]["name"], find_node(request)
        if not node:
            return
        client = self._access.connect(root)
        known = await self._find_names(runtime, client, node)
        problem = find_problem(request, node, known)
        if not problem:
            await approve(client, request)
            self._waiting.pop(name, None)
            self._log.info(f"the serving certificate of node {node} is approved", request=name)
            return
        if len(self._waiting) < MAX_WAITING:
            self._waiting[name] = request
        text = f"the serving certificate of node {node} is not approved: {problem}"
        self._log.once(text, key=f"request {name}", level="warning")

    async def _find_names(self, runtime: ControllerRuntime, client: KubernetesClient, node: str) -> Names:
        members = await runtime.list(kinds.MEMBER)
        if members:
            own = [member.spec for member in members if member.id == node]
            return Names(
                dns_names=frozenset({node, *(spec.hostname for spec in own)} if own else ()),
                ips=frozenset(str(ip_address(one.ip[:16])) for spec in own for one in spec.addresses),
            )
        nodes = (await client.call("GET", "/api/v1/nodes"))["items"]
        return find_unique_names(nodes, node)


def find_unique_names(nodes: Sequence[Mapping[str, Any]], name: str) -> Names:
    """What only this node is called by its object."""
    claims = {
        one["metadata"]["name"]: {found["address"] for found in one["status"].get("addresses", ())}
        for one in nodes
    }
    count = Counter(address for addresses in claims.values() for address in addresses)
    own = {address for address in claims.get(name, ()) if count[address] == 1}
    ips = frozenset(address for address in own if _is_ip(address))
    return Names(dns_names=frozenset(own - ips), ips=ips)


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


async def approve(client: KubernetesClient, request: Mapping[str, Any]) -> None:
    """Approve a request; nothing happens when another control plane node was faster."""
    condition = {
        "type": "Approved",
        "status": "True",
        "reason": "TalosKubeletServing",
        "message": "node, names and addresses are known",
        "lastUpdateTime": format_now(),
    }
    body = {**request, "status": {**request.get("status", {}), "conditions": [condition]}}
    body |= {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    path = f"{COLLECTION}/{quote(request['metadata']['name'])}/approval"
    try:
        await client.call("PUT", path, body)
    except KubernetesError as error:
        if error.status not in (404, 409):
            raise
