"""Approves the serving certificates of kubelets that rotate them: nothing in Kubernetes itself does.

A node's name is that of its kubelet, its addresses are those of discovery, or without it those of its
object in Kubernetes. Both the node writes itself: :mod:`talos.kubed.serving_names` decides which count.
"""

import json
from collections.abc import Mapping
from functools import partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote

import trio

from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.config.active import read_config
from talos.config.effective import cluster as effective_cluster
from talos.config.effective import network as effective_network
from talos.config.model import Config
from talos.kubed.admin import ADMIN_INPUTS, AdminAccess, find_admin_secret
from talos.kubed.controllers.certificates import make_sans
from talos.kubed.serving_names import (
    NodeNames,
    ReservedNames,
    find_names,
    make_reserved,
    read_members,
    read_nodes,
)
from talos.kubed.serving_request import REQUESTS, SIGNER, find_node, find_problem, is_decided
from talos.kubed.watch import keep_following
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input
from talos.resource.objects import format_now
from talos.system.logging import Log

MIN_RETRY_INTERVAL = 5.0
"""Seconds between two tries to reach the API; more when that takes long."""
MAX_WAITING = 1000
"""Requests that wait for a node to be known; more come from no cluster of ours."""
MAX_REQUEST = 16 << 10
"""Bytes of one of them as JSON: a kubelet's has two or three thousand. A larger one is not kept."""


class ServingCertificatesController(Controller):
    """CertificateSigningRequest, Affiliate, nodes' objects → approval; on control plane nodes."""

    name = "k8s.KubeletServingCertificateController"
    inputs = (
        *ADMIN_INPUTS,
        Input(kinds.AFFILIATE),
        Input(*ids.MACHINE_CONFIG),
        Input(*ids.NODENAME),
        Input(*ids.NODE_IP),
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
                connect,
                REQUESTS,
                f"spec.signerName={SIGNER}",
                handle,
                report,
                least_pause=MIN_RETRY_INTERVAL,
            )

    async def _decide(
        self, runtime: ControllerRuntime, root: KubernetesRootSpec, request: Mapping[str, Any]
    ) -> None:
        name, node = request["metadata"]["name"], find_node(request)
        if not node:
            return
        client = self._access.connect(root)
        known = await self._find_names(runtime, client, root, node)
        problem = find_problem(request, node, known)
        if not problem:
            await approve(client, request)
            self._waiting.pop(name, None)
            self._log.info(f"the serving certificate of node {node} is approved", request=name)
            return
        if len(self._waiting) < MAX_WAITING and len(json.dumps(request)) <= MAX_REQUEST:
            self._waiting[name] = request
        text = f"the serving certificate of node {node} is not approved: {problem}"
        self._log.once(text, key=f"request {name}", level="warning")

    async def _find_names(
        self, runtime: ControllerRuntime, client: KubernetesClient, root: KubernetesRootSpec, node: str
    ) -> NodeNames:
        config = await read_config(runtime)
        reserved = find_reserved(config, root) if config else None
        if config is None or reserved is None:
            return NodeNames(dns_names=frozenset(), ips=frozenset())
        affiliates = [one.spec for one in await runtime.list(kinds.AFFILIATE)]
        # Objects count as well: who has the cluster's id can withdraw another node at a discovery server.
        nodes = await client.list_all("/api/v1/nodes")
        names = find_names(node, [*read_members(affiliates), *read_nodes(nodes)], reserved)
        nodename = await runtime.get_or_none(*ids.NODENAME)
        if nodename is None or nodename.spec.nodename != node:
            return names
        # This very node, whose addresses are on its links whatever others report.
        node_ip = await runtime.get_or_none(*ids.NODE_IP)
        addresses = node_ip.spec.addresses if node_ip is not None else ()
        own = {str(ip_address(one.ip[:16])) for one in addresses} - set(
            effective_network.virtual_addresses(config)
        )
        return NodeNames(dns_names=frozenset({node}), ips=names.ips | own, reasons=names.reasons)


def find_reserved(config: Config, root: KubernetesRootSpec) -> ReservedNames:
    """What is the cluster's: the names of the API server, but for those of the node that it runs on."""
    sans = make_sans(root, ["localhost"], [])
    virtual = effective_network.virtual_addresses(config)
    return make_reserved(
        sans.dns_names,
        [*(str(ip_address(one.ip)) for one in sans.i_ps), *virtual],
        [*effective_cluster.pod_subnets(config), *effective_cluster.service_subnets(config)],
    )


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
    path = f"{REQUESTS}/{quote(request['metadata']['name'])}/approval"
    try:
        await client.call("PUT", path, body)
    except KubernetesError as error:
        if error.status not in (404, 409):
            raise
