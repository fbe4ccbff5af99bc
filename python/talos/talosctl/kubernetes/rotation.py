"""Rotation of the CA of the Kubernetes API, while the API stays reachable.

The order is upstream's: all nodes accept the new CA; all issue with it and still accept the old one; none
accepts the old one any more. One node follows the other only when its control plane and its kubelet run with
the change, and the pods of the system are started again before a certificate of the new CA comes up: they
read what they trust once.

A rotation that was interrupted has left CAs that some nodes accept or issue with, and the key of the new one
may be lost. The next one begins from there: it replaces all of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from talos.api.specs import parse_spec
from talos.client.resources import get_resource
from talos.client.session import Session
from talos.client.wait import wait_until
from talos.config.effective import secrets as effective
from talos.config.model import Config
from talos.health.calls import ClusterNodes
from talos.kubernetes.access import ClusterAccess, parse_kubeconfig
from talos.kubernetes.client import KubernetesClient
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import PemPair
from talos.pki.keys import KeyType
from talos.resource import ids, kinds
from talos.resource.objects import is_ready
from talos.system.errors import UserError
from talos.talosctl.client.change import Change, change_config
from talos.talosctl.client.health import SessionCalls
from talos.talosctl.client.kubeconfig import fetch_kubeconfig
from talos.talosctl.client.rotation import format_indented, format_quoted
from talos.talosctl.kubernetes.authorities import (
    ORGANIZATION,
    accept_authority,
    find_left,
    refuse_authorities,
    swap_authority,
)
from talos.talosctl.kubernetes.follow import SECRETS_VERSION, find_late_pods, read_kubelet
from talos.talosctl.kubernetes.system_pods import apply_in_cluster, restart_pods

STEP_TIMEOUT = 300.0
"""Seconds for one node, or the pods of the system, to follow a step."""
STEADY = 3
"""Looks in a row without anything to wait for: resources follow each other within a second."""
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
ROOT_CA = "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt"


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
    return CertificateAuthority.generate(KeyType.P256, organizations=[ORGANIZATION]).pem


class KubernetesRotation:
    """One rotation. Errors are UserError, RpcError, KubernetesError."""

    def __init__(
        self,
        options: RotationOptions,
        session: Session,
        new: PemPair,
        *,
        connect: Callable[[ClusterAccess], KubernetesClient] = KubernetesClient,
    ) -> None:
        self._connect = connect
        self._options = options
        self._session = session
        self._calls = SessionCalls(session)
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
        client = self._connect(await self._fetch_access())
        old = await self._find_old()
        self._report("> Verifying connectivity with existing PKI...")
        await self._verify(client)

        self._report("> Adding new Kubernetes CA as accepted...")
        await self._patch(client, lambda config: accept_authority(config, new.crt))
        client = self._connect(await self._fetch_access())
        await self._restart_pods(client)

        self._report("> Making new Kubernetes CA the issuing CA, old Kubernetes CA the accepted CA...")
        await self._patch(client, lambda config: swap_authority(config, new))
        self._report("> Building new Kubernetes client...")
        access = await self._fetch_access()
        if not options.dry_run:
            # From here on nothing that the old CA has signed is trusted.
            access = replace(access, authority=new.crt)
        client = self._connect(access)
        self._report("> Verifying connectivity with new PKI...")
        await self._verify(client)

        self._report("> Removing old Kubernetes CA from the accepted CAs...")
        await self._patch(client, lambda config: refuse_authorities(config, old))
        if not options.dry_run:
            await apply_in_cluster(self._session, nodes.control_plane[0], client)
        self._report("> Verifying connectivity with new PKI...")
        await self._verify(client)
        if not options.dry_run:
            self._report(
                "> Kubernetes CA rotation done, new 'kubeconfig' can be fetched with `talosctl kubeconfig`."
            )

    async def _fetch_access(self) -> ClusterAccess:
        access = parse_kubeconfig(await fetch_kubeconfig(self._session, self._options.nodes.control_plane[0]))
        if not self._options.endpoint:
            return access
        endpoint = self._options.endpoint
        return replace(access, server=endpoint if "://" in endpoint else f"https://{endpoint}")

    async def _find_old(self) -> list[bytes]:
        """All that is replaced, the CA that issues first; UserError when there is none."""
        known = [await self._read_accepted(node) for node in self._options.nodes.all]
        current, *left = find_left(known) or [b""]
        if not current:
            raise UserError(
                "it has no CA of Kubernetes", where=f"node {self._options.nodes.control_plane[0]}"
            )
        titles = ("Current", *("Left by an interrupted rotation, replaced, too:" for _ in left), "New")
        for title, crt in zip(titles, (current, *left, self._new.crt), strict=True):
            self._report(f"> {title}" if title.endswith(":") else f"> {title} Kubernetes CA:")
            self._report(format_indented(crt))
        return [current, *left]

    async def _verify(self, client: KubernetesClient) -> None:
        """Every node is ready, and its kubelet has reached the API since this began."""
        if self._options.dry_run:
            self._report(" - OK (dry-run)")
            return
        seen: dict[str, str] = {}
        count = 0

        async def check() -> str:
            nonlocal count
            nodes: Sequence[Any] = await client.list_all("/api/v1/nodes")
            leases: Sequence[Any] = await client.list_all(LEASES)
            renewed = {one["metadata"]["name"]: one["spec"].get("renewTime", "") for one in leases}
            count = len(nodes)
            for node in nodes:
                name = node["metadata"]["name"]
                if not is_ready(node["status"]):
                    return f"node {name} is not ready"
                if renewed.get(name) == seen.setdefault(name, renewed.get(name, "")):
                    return f"node {name} has not reported yet"
            return ""

        await wait_until(check, what="the nodes", seconds=STEP_TIMEOUT)
        self._report(f" - OK ({count} nodes ready)")

    async def _patch(self, client: KubernetesClient, change: Change) -> None:
        """Change the config of one node after the other, control plane first."""
        options = self._options
        for node in options.nodes.all:
            if options.dry_run:
                self._report(f"  - {node}: skipped (dry-run)")
                continue
            wanted = list[bytes]()

            def note(config: Config, wanted: list[bytes] = wanted) -> Config:
                changed = change(config)
                wanted[:] = (crt.strip() for crt in effective.kubernetes_cas(changed))
                return changed

            before = (await read_kubelet(self._session, node)).version
            if await change_config(self._session, node, note, docs=options.docs, examples=options.examples):
                await self._follow(client, node, before, wanted)
            self._report(f"  - {node}: OK")

    async def _follow(
        self, client: KubernetesClient, node: str, before: str, wanted: Sequence[bytes]
    ) -> None:
        """Wait until the kubelet has started again, and the control plane's pods with other secrets."""
        is_control = node in self._options.nodes.control_plane
        steady = 0

        async def find_reason() -> str:
            kubelet = await read_kubelet(self._session, node)
            if kubelet.version == before or not kubelet.is_healthy:
                return "its kubelet has not started again"
            if await self._read_accepted(node) != wanted:
                return "it has not read its config"
            return await self._find_late_pod(client, node, wanted) if is_control else ""

        async def check() -> str:
            nonlocal steady
            reason = await find_reason()
            steady = 0 if reason else steady + 1
            return reason or ("" if steady >= STEADY else "its pods may follow")

        await wait_until(check, what=f"node {node}", seconds=STEP_TIMEOUT)

    async def _find_late_pod(self, client: KubernetesClient, node: str, wanted: Sequence[bytes]) -> str:
        """Which of a node's static pods is not ready with the node's secrets, by the API server."""
        kind, id_ = ids.KUBERNETES_ROOT_SECRET
        found = await get_resource(self._session, node, kind.namespace, kind.type, id_)
        root = parse_spec(kind.spec, found)
        if [one.crt.strip() for one in root.accepted_c_as] != wanted:
            return "it has not read its config"
        return await find_late_pods(self._session, client, node, SECRETS_VERSION)

    async def _restart_pods(self, client: KubernetesClient) -> None:
        """Start those pods again that come with the system, once they find the new CA where they look."""
        self._report("> Restarting pods of the system, which read once what they trust...")
        if self._options.dry_run:
            self._report("  - skipped (dry-run)")
            return
        node = self._options.nodes.control_plane[0]
        await apply_in_cluster(self._session, node, client)
        text = self._new.crt.decode("ascii").strip()

        async def is_published() -> str:
            found = await client.get_or_none(ROOT_CA) or {}
            return "" if text in found.get("data", {}).get("ca.crt", "") else "it has the old CA alone"

        await wait_until(is_published, what="the ConfigMap kube-root-ca.crt", seconds=STEP_TIMEOUT)
        await restart_pods(self._session, node, client, seconds=STEP_TIMEOUT, report=self._report)

    async def _read_accepted(self, node: str) -> list[bytes]:
        """The authorities that a node's kubelet accepts, the issuing one first."""
        found: Sequence[Any] = await self._calls.specs(node, kinds.KUBELET_SECRET)
        return [one.crt.strip() for spec in found for one in spec.accepted_c_as]
