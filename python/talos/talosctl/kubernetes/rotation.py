"""Rotation of the CA of the Kubernetes API, while the API stays reachable.

The order is upstream's: all nodes accept the new CA; all issue with it and still accept the old one; none
accepts the old one any more. One node follows the other only when its control plane and its kubelet run with
the change, and the pods of the system are started again before a certificate of the new CA comes up: they
read what they trust once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.api.rpc import RpcError
from talos.config.model import Config
from talos.daemon.health_calls import ClusterNodes
from talos.kubernetes.apply import apply, find_place
from talos.kubernetes.client import (
    MERGE,
    Access,
    KubernetesClient,
    KubernetesError,
    parse_kubeconfig,
)
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType
from talos.resource import ids, kinds
from talos.resource.kind import Kind
from talos.resource.objects import to_plain
from talos.system.errors import UserError
from talos.talosctl.client.change import change_config
from talos.talosctl.client.kubeconfig import fetch_kubeconfig
from talos.talosctl.client.resources import get_resource, list_resources
from talos.talosctl.client.rotation import format_indented, format_quoted
from talos.talosctl.client.session import Session
from talos.talosctl.kubernetes.authorities import accept_authority, refuse_authority, swap_authority
from talos.talosctl.kubernetes.sync import ROLLED_OUT, find_unfinished
from talos.talosctl.kubernetes.versions import PODS

PATIENCE = 300.0
"""Seconds for one node, or the pods of the system, to follow a step."""
PAUSE = 1.0
STEADY = 3
"""Looks in a row without anything to wait for: resources follow each other within a second."""
SECRETS_VERSION = "talos.dev/secrets-version"
IN_CLUSTER = "11-kube-config-in-cluster"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
ROOT_CA = "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt"

type Change = Callable[[Config], Config]
type Check = Callable[[], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationOptions:
    """What is rotated, and how configs are written. ``endpoint`` replaces the cluster's if it is given."""

    nodes: ClusterNodes
    endpoint: str
    dry_run: bool
    docs: bool
    examples: bool
    report: Callable[[str], None]


def make_kubernetes_authority() -> PemPair:
    """A new CA, of the kind that new clusters have."""
    return CertificateAuthority.generate(KeyType.P256, organizations=["kubernetes"]).pem


class KubernetesRotation:
    """One rotation. Errors are UserError, RpcError, KubernetesError; a config that is put back reverts it."""

    def __init__(self, options: RotationOptions, session: Session, new: PemPair) -> None:
        self._options = options
        self._session = session
        self._new = new
        self._report = options.report

    async def run(self) -> None:
        """All steps in their order."""
        options, new, nodes = self._options, self._new, self._options.nodes
        self._report(
            f"> Starting Kubernetes API PKI rotation, dry-run mode {str(options.dry_run).lower()}..."
        )
        self._report("> Cluster topology:")
        self._report(f"  - control plane nodes: {format_quoted(nodes.control_plane)}")
        self._report(f"  - worker nodes: {format_quoted(nodes.workers)}")
        self._report("> Building current Kubernetes client...")
        client = KubernetesClient(await self._fetch_access())
        old = (await self._root(nodes.control_plane[0])).issuing_ca.crt
        for title, crt in (("Current", old), ("New", new.crt)):
            self._report(f"> {title} Kubernetes CA:")
            self._report(format_indented(crt))
        self._report("> Verifying connectivity with existing PKI...")
        await self._verify(client)

        self._report("> Adding new Kubernetes CA as accepted...")
        await self._patch(client, lambda config: accept_authority(config, new.crt), {old, new.crt})
        client = KubernetesClient(await self._fetch_access())
        await self._restart_pods(client)

        self._report("> Making new Kubernetes CA the issuing CA, old Kubernetes CA the accepted CA...")
        await self._patch(client, lambda config: swap_authority(config, old, new), {old, new.crt})
        self._report("> Building new Kubernetes client...")
        access = await self._fetch_access()
        if not options.dry_run:
            # From here on nothing that the old CA has signed is trusted.
            access = replace(access, authority=new.crt)
        client = KubernetesClient(access)
        self._report("> Verifying connectivity with new PKI...")
        await self._verify(client)

        self._report("> Removing old Kubernetes CA from the accepted CAs...")
        await self._patch(client, lambda config: refuse_authority(config, old), {new.crt})
        if not options.dry_run:
            await self._apply_in_cluster(client)
        self._report("> Verifying connectivity with new PKI...")
        await self._verify(client)
        if not options.dry_run:
            self._report(
                "> Kubernetes CA rotation done, new 'kubeconfig' can be fetched with `talosctl kubeconfig`."
            )

    async def _fetch_access(self) -> Access:
        access = parse_kubeconfig(await fetch_kubeconfig(self._session, self._options.nodes.control_plane[0]))
        if not self._options.endpoint:
            return access
        endpoint = self._options.endpoint
        return replace(access, server=endpoint if "://" in endpoint else f"https://{endpoint}")

    async def _verify(self, client: KubernetesClient) -> None:
        """Every node is ready, and its kubelet has reached the API since this began."""
        if self._options.dry_run:
            self._report(" - OK (dry-run)")
            return
        seen: dict[str, str] = {}
        count = 0

        async def check() -> str:
            nonlocal count
            nodes: Sequence[Any] = (await client.call("GET", "/api/v1/nodes"))["items"]
            leases: Sequence[Any] = (await client.call("GET", LEASES))["items"]
            renewed = {one["metadata"]["name"]: one["spec"].get("renewTime", "") for one in leases}
            count = len(nodes)
            for node in nodes:
                name = node["metadata"]["name"]
                conditions = {one["type"]: one["status"] for one in node["status"]["conditions"]}
                if conditions.get("Ready") != "True":
                    return f"node {name} is not ready"
                if renewed.get(name) == seen.setdefault(name, renewed.get(name, "")):
                    return f"node {name} has not reported yet"
            return ""

        await self._wait("the nodes", check)
        self._report(f" - OK ({count} nodes ready)")

    async def _patch(self, client: KubernetesClient, change: Change, accepted: set[bytes]) -> None:
        """Change the config of one node after the other, control plane first."""
        options = self._options
        for node in options.nodes.all:
            if options.dry_run:
                self._report(f"  - {node}: skipped (dry-run)")
                continue
            before = (await self._service(node)).metadata.version
            if await change_config(self._session, node, change, docs=options.docs, examples=options.examples):
                await self._follow(client, node, before, accepted)
            self._report(f"  - {node}: OK")

    async def _follow(self, client: KubernetesClient, node: str, before: str, accepted: set[bytes]) -> None:
        """Wait until the kubelet has started again, and the control plane's pods with other secrets."""
        is_control = node in self._options.nodes.control_plane
        steady = 0

        async def look() -> str:
            service = await self._service(node)
            spec = kinds.SERVICE.spec.FromString(service.spec.proto_spec)
            if service.metadata.version == before or not spec.running or not spec.healthy:
                return "its kubelet has not started again"
            if not is_control:
                return ""
            root = await self._root(node)
            found = {one.crt.strip() for one in root.accepted_c_as}
            if found != {crt.strip() for crt in accepted}:
                return "it has not read its config"
            return await self._find_late_pod(client, node)

        async def check() -> str:
            nonlocal steady
            reason = await look()
            steady = 0 if reason else steady + 1
            return reason or ("" if steady >= STEADY else "its pods may follow")

        await self._wait(f"node {node}", check)

    async def _find_late_pod(self, client: KubernetesClient, node: str) -> str:
        """Which of a node's static pods is not ready with the node's secrets, by the API server."""
        (nodename,) = await self._specs(node, kinds.NODENAME)
        for spec in await self._specs(node, kinds.STATIC_POD):
            pod = to_plain(spec.pod)
            wanted = _annotations(pod).get(SECRETS_VERSION)
            if wanted is None:
                continue  # the user's
            name = f"{pod['metadata']['name']}-{nodename.nodename}"
            live = await client.get_or_none(f"{PODS}/{quote(name)}")
            if live is None or _annotations(live).get(SECRETS_VERSION) != wanted:
                return f"{name} has not started again"
            conditions = {one["type"]: one["status"] for one in live.get("status", {}).get("conditions", ())}
            if conditions.get("Ready") != "True":
                return f"{name} is not ready"
        return ""

    async def _restart_pods(self, client: KubernetesClient) -> None:
        """Start those pods again that come with the system, once they find the new CA where they look."""
        self._report("> Restarting pods of the system, which read once what they trust...")
        if self._options.dry_run:
            self._report("  - skipped (dry-run)")
            return
        await self._apply_in_cluster(client)
        text = self._new.crt.decode("ascii").strip()

        async def is_published() -> str:
            found = await client.get_or_none(ROOT_CA) or {}
            return "" if text in found.get("data", {}).get("ca.crt", "") else "it has the old CA alone"

        await self._wait("the ConfigMap kube-root-ca.crt", is_published)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        annotations = {"annotations": {"kubectl.kubernetes.io/restartedAt": now}}
        patch = {"spec": {"template": {"metadata": annotations}}}
        for manifest in await self._find_objects(lambda name: not name.startswith("99-")):
            if manifest["kind"] not in ROLLED_OUT:
                continue
            place = await find_place(client, manifest)
            await client.call("PATCH", place.path, patch, kind=MERGE)

            async def is_finished(path: str = place.path) -> str:
                return find_unfinished(await client.call("GET", path))

            await self._wait(place.id.subject, is_finished)
            self._report(f"  - {place.id.subject}: OK")

    async def _apply_in_cluster(self, client: KubernetesClient) -> None:
        """The file by which pods find the API has the CAs, too."""
        for manifest in await self._find_objects(lambda name: name == IN_CLUSTER):
            await apply(client, await find_place(client, manifest), manifest)

    async def _find_objects(self, is_wanted: Callable[[str], bool]) -> list[dict[str, Any]]:
        node, kind = self._options.nodes.control_plane[0], kinds.MANIFEST
        found = await list_resources(self._session, node, kind.namespace, kind.type)
        specs = [kind.spec.FromString(one.spec.proto_spec) for one in found if is_wanted(one.metadata.id)]
        return [to_plain(item.object) for spec in specs for item in spec.items]

    async def _wait(self, what: str, check: Check) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                reason = await check()
            except KubernetesError as error:
                reason = f"the API server does not answer: {error}"
            except RpcError as error:
                reason = error.message
            if not reason:
                return
            if time.monotonic() > end:
                raise UserError(f"{reason}, after {PATIENCE:g} s", where=what)
            await asyncio.sleep(PAUSE)

    async def _root(self, node: str) -> KubernetesRootSpec:
        kind, id_ = ids.KUBERNETES_ROOT_SECRET
        found = await get_resource(self._session, node, kind.namespace, kind.type, id_)
        return kind.spec.FromString(found.spec.proto_spec)

    async def _service(self, node: str) -> Any:
        kind = kinds.SERVICE
        return await get_resource(self._session, node, kind.namespace, kind.type, "kubelet")

    async def _specs(self, node: str, kind: Kind[Any]) -> list[Any]:
        found = await list_resources(self._session, node, kind.namespace, kind.type)
        return [kind.spec.FromString(resource.spec.proto_spec) for resource in found]


def _annotations(found: Mapping[str, Any]) -> Mapping[str, str]:
    return found["metadata"].get("annotations") or {}
