"""A twin of a running cluster: nodes that take configs with delays, and the Kubernetes API that they serve.

Every call checks what must hold all the time: each API server and each client of it accept each other. Every
change of a config checks that all pods are ready, so that no two nodes change at a time.
"""

import asyncio
import base64
import functools
import io
import tarfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast, override

import yaml
from google.protobuf.message import Message
from tests.unit.kubernetes.twin import Twin, make_map

from talos.api.common.common_pb2 import Data, PEMEncodedCertificate
from talos.api.cosi import state_pb2
from talos.api.cosi.resource_pb2 import Metadata, Resource, Spec
from talos.api.definitions.k8s_pb2 import (
    BootstrapManifestsConfigSpec,
    ManifestSpec,
    NodenameSpec,
    SingleManifest,
    StaticPodSpec,
)
from talos.api.definitions.secrets_pb2 import KubeletSpec, KubernetesRootSpec
from talos.api.definitions.v1alpha1_pb2 import ServiceSpec
from talos.api.machine import image_pb2, machine_pb2
from talos.api.rpc import Code, RpcError
from talos.client.session import Session
from talos.config.effective import secrets as effective
from talos.config.model import Config
from talos.config.read.loader import dump, load
from talos.health.calls import ClusterNodes
from talos.kubernetes.access import ClusterAccess
from talos.kubernetes.client import JSON, MAX_REPLY, KubernetesClient, KubernetesError, Reply
from talos.pki.certificate import PemPair
from talos.resource import kinds
from talos.resource.objects import to_struct
from talos.talosctl.kubernetes.components import (
    API_SERVER,
    CONTROLLER_MANAGER,
    KUBELET,
    PROXY,
    SCHEDULER,
    STATIC_PODS,
    find_image,
)
from talos.talosctl.kubernetes.follow import CONFIG_VERSION, SECRETS_VERSION
from talos.talosctl.kubernetes.rotation import LEASES, ROOT_CA, make_kubernetes_authority
from talos.talosctl.kubernetes.system_pods import IN_CLUSTER
from talos.talosctl.kubernetes.versions import PODS

READ_DELAY, START_DELAY, READY_DELAY = 2.5, 1.5, 4.5
"""Seconds until a node has read its config, until what it runs is replaced, and until that is ready."""
RESTART_DELAY = 6.0
"""Seconds after which a new kubelet starts the static pods once more."""
CONTROLS, WORKERS = 2, 1
NODES, PROXY_PATH = "/api/v1/nodes", "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"


@dataclass
class Node:
    """A node. ``config`` was sent, ``read`` is in effect, ``runs`` and the other fields are what runs."""

    name: str
    address: str
    is_control_plane: bool
    config: Config
    read: Config = field(init=False)
    runs: Config = field(init=False)
    kubelet_runs: Config = field(init=False)
    versions: dict[str, int] = field(default_factory=dict[str, int])
    """Of the resources that static pods are made of, and of the kubelet's service."""
    shown: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """The annotations of the pods that run."""
    is_healthy: bool = True
    are_pods_ready: bool = True
    stuck: str = ""
    """The image with which nothing gets ready."""

    def __post_init__(self) -> None:
        self.read = self.runs = self.kubelet_runs = self.config
        self.show()

    @property
    def pods(self) -> dict[str, dict[str, str]]:
        """The annotations of the pods that the node wants."""
        if not self.is_control_plane:
            return {}
        secrets = str(self.versions.get("secrets", 1))
        return {
            one.name: {CONFIG_VERSION: str(self.versions.get(one.name, 1)), SECRETS_VERSION: secrets}
            for one in STATIC_PODS
        }

    def show(self) -> None:
        self.shown = self.pods

    @property
    def is_at_rest(self) -> bool:
        is_ready = self.is_healthy and self.are_pods_ready and self.shown == self.pods
        return is_ready and find_programs(self.config) == find_programs(self.runs)

    def apply(self, config: Config) -> None:
        self.config = config
        asyncio.get_running_loop().call_later(READ_DELAY, self._take)

    def _take(self) -> None:
        before, self.read = self.read, self.config
        is_rotated = authorities(before) != authorities(self.read)
        changed = {one.name for one in STATIC_PODS if find_image(before, one) != find_image(self.read, one)}
        for name in (*changed, *(["secrets"] if is_rotated else [])):
            self._count(name)
        later = asyncio.get_running_loop().call_later
        if is_rotated or find_image(before, KUBELET) != find_image(self.read, KUBELET):
            self.is_healthy = False
            later(START_DELAY, self._start_kubelet)
        later(START_DELAY, self._start_pods, bool(changed) or is_rotated)

    def _start_kubelet(self) -> None:
        self.kubelet_runs = self.read
        self._count("kubelet")
        later = asyncio.get_running_loop().call_later
        later(READY_DELAY, self._get_healthy)
        later(READY_DELAY + RESTART_DELAY, self._start_pods, self.is_control_plane)

    def _get_healthy(self) -> None:
        self._count("kubelet")
        self.is_healthy = True

    def _start_pods(self, is_anew: bool) -> None:
        self.runs = self.read
        if is_anew and self.is_control_plane:
            self.show()
            self.are_pods_ready = False
            asyncio.get_running_loop().call_later(READY_DELAY, self._get_ready)

    def _get_ready(self) -> None:
        self.are_pods_ready = self.stuck not in {find_image(self.runs, one) for one in STATIC_PODS}

    def _count(self, name: str) -> None:
        self.versions[name] = self.versions.get(name, 1) + 1


def find_programs(config: Config) -> tuple[object, ...]:
    """What of a config the node itself runs, and with which authorities."""
    return (*(find_image(config, one) for one in (*STATIC_PODS, KUBELET)), *authorities(config))


@functools.cache
def authorities(config: Config) -> list[bytes]:
    """What a config accepts, the issuing one first."""
    return [crt.strip() for crt in effective.kubernetes_cas(config)]


def make_config(version: str, authority: PemPair, *, is_control_plane: bool) -> str:
    """A config with what concerns Kubernetes."""
    pair = {"crt": base64.b64encode(authority.crt).decode()}
    machine: dict[str, Any] = {"type": "worker", "kubelet": {"image": f"registry/kubelet:v{version}"}}
    cluster: dict[str, Any] = {"ca": pair}
    if is_control_plane:
        machine["type"] = "controlplane"
        pair["key"] = base64.b64encode(authority.key).decode()
        programs = {"apiServer": API_SERVER, "controllerManager": CONTROLLER_MANAGER}
        for section, program in {**programs, "scheduler": SCHEDULER, "proxy": PROXY}.items():
            cluster[section] = {"image": f"registry/{program.name}:v{version}"}
    return yaml.safe_dump({"version": "v1alpha1", "machine": machine, "cluster": cluster})


class Api(Twin):
    """The Kubernetes API as a client with this access reaches it, or as one that all accept."""

    def __init__(self, cluster: "Cluster", access: ClusterAccess | None = None) -> None:
        super().__init__()
        self._cluster, self._access = cluster, access
        self.objects = cluster.objects

    @override
    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        kind: str = JSON,
        max_reply: int = MAX_REPLY,
    ) -> Reply:
        await asyncio.sleep(0)
        cluster, plain = self._cluster, path.partition("?")[0]
        cluster.check_trust(self._access)
        if plain == "/apis/apps/v1":
            return {"resources": [{"name": "daemonsets", "kind": "DaemonSet", "namespaced": True}]}
        if plain.startswith(f"{PODS}/"):
            return cluster.find_pod(plain.removeprefix(f"{PODS}/"))
        if plain == NODES:
            return {"items": [cluster.show_node(node) for node in cluster.nodes.values()]}
        if plain.startswith(f"{NODES}/"):
            [found] = [one for one in cluster.nodes.values() if f"{NODES}/{one.name}" == plain]
            return cluster.show_node(found)
        if plain == LEASES:
            now = str(asyncio.get_running_loop().time())
            return {"items": [cluster.show_lease(node, now) for node in cluster.nodes.values()]}
        if plain == ROOT_CA:
            return {"data": {"ca.crt": b"".join(cluster.published).decode()}}
        if (method, plain) == ("PATCH", PROXY_PATH) and "fieldManager" not in path:
            cluster.proxy_trust = cluster.published
            cluster.restarts += 1
            return {}
        if (method, plain) == ("GET", PROXY_PATH) and cluster.restarts:
            return {"kind": "DaemonSet", "metadata": {}, "spec": {}}
        return await super().call(method, path, body, kind=kind, max_reply=max_reply)


class Cluster:
    """Nodes 10.0.0.1 and up, control plane first; as much of a session as changes of Kubernetes use."""

    def __init__(self, version: str = "1.37.0") -> None:
        self.authority = make_kubernetes_authority()
        self.nodes = {
            f"10.0.0.{number}": Node(
                name=f"node-{number}",
                address=f"10.0.0.{number}",
                is_control_plane=number <= CONTROLS,
                config=load(make_config(version, self.authority, is_control_plane=number <= CONTROLS)),
            )
            for number in range(1, CONTROLS + WORKERS + 1)
        }
        self.first = {address: node.config for address, node in self.nodes.items()}
        self.applied: list[tuple[str, Config]] = []
        self.pulled: list[tuple[str, str]] = []
        self.unpullable = ""
        self.tag = "v1.15.0"
        self.objects: dict[str, dict[str, Any]] = {}
        self.proxy_trust = self.published
        """Read once by the pods of kube-proxy, when they start."""
        self.restarts = 0
        self.end_after = 0
        """The number of changed configs after which the client is gone, unless it is 0."""

    @property
    def controls(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.is_control_plane]

    @property
    def cluster_nodes(self) -> ClusterNodes:
        controls = tuple(node.address for node in self.controls)
        return ClusterNodes(
            control_plane=controls, workers=tuple(one for one in self.nodes if one not in controls)
        )

    @property
    def session(self) -> Session:
        return cast("Session", self)

    @property
    def published(self) -> list[bytes]:
        """What pods find as the authorities of the API: as the first control plane's programs have them."""
        return authorities(self.controls[0].runs)

    def connect(self, access: ClusterAccess | None = None) -> KubernetesClient:
        return Api(self, access)

    def check_trust(self, access: ClusterAccess | None) -> None:
        """Kubelets, pods of the system and this client accept each server, and are accepted by it."""
        for server in self.controls:
            issuer, *_ = accepted = authorities(server.runs)
            for node in self.nodes.values():
                assert issuer in authorities(node.kubelet_runs), f"{node.name} refuses {server.name}"
                assert authorities(node.kubelet_runs)[0] in accepted, f"{server.name} refuses {node.name}"
            assert issuer in self.proxy_trust, f"kube-proxy refuses {server.name}"
            if access is not None:
                assert issuer in access.authority, f"the client refuses {server.name}"
                assert access.certificate in accepted, f"{server.name} refuses the client"

    def find_pod(self, name: str) -> Reply:
        for node in self.controls:
            for program, annotations in node.shown.items():
                if name == f"{program}-{node.name}":
                    ready = {"type": "Ready", "status": str(node.are_pods_ready)}
                    return {"metadata": {"annotations": annotations}, "status": {"conditions": [ready]}}
        raise KubernetesError(404, f"{name} not found")

    def show_node(self, node: Node) -> Reply:
        version = find_image(node.kubelet_runs, KUBELET).rpartition(":")[2]
        ready = {"type": "Ready", "status": str(node.is_healthy)}
        status = {"nodeInfo": {"kubeletVersion": version}, "conditions": [ready]}
        return {"metadata": {"name": node.name}, "status": status}

    def show_lease(self, node: Node, now: str) -> Reply:
        return {"metadata": {"name": node.name}, "spec": {"renewTime": now}}

    async def unary(self, node: str, method: str, request: Any, reply: type[Any], **_options: float) -> Any:
        await asyncio.sleep(0)
        found = self.nodes[node]
        match method.rpartition("/")[2]:
            case "Version":
                info = machine_pb2.VersionInfo(tag=self.tag)
                return reply(messages=[machine_pb2.Version(version=info)])
            case "ApplyConfiguration":
                late = [one.name for one in self.nodes.values() if not one.is_at_rest]
                assert not late, f"{found.name} is changed while {late} are"
                assert request.mode == request.NO_REBOOT
                found.apply(load(request.data.decode()))
                self.applied.append((node, found.config))
                if len(self.applied) == self.end_after:
                    await asyncio.sleep(60)  # the nodes go on
                    raise ConnectionError
                return reply(messages=[machine_pb2.ApplyConfiguration()])
            case "Get":
                return state_pb2.GetResponse(resource=self._get(found, request.type, request.id))
            case _:
                raise AssertionError(method)

    def _get(self, node: Node, type: str, id: str) -> Resource:
        if type == kinds.MACHINE_CONFIG.type:
            return Resource(spec=Spec(yaml_spec=yaml.safe_dump(dump(node.config))))
        spec: Message
        version = str(node.versions.get(id, 1))
        if type == kinds.SERVICE.type:
            spec = ServiceSpec(running=True, healthy=node.is_healthy)
        elif type == kinds.KUBERNETES_ROOT_SECRET.type:
            spec = KubernetesRootSpec(accepted_c_as=_encode(authorities(node.read)))
        else:
            [component] = [one for one in STATIC_PODS if one.name == id]
            assert component.resource is not None
            spec = component.resource[0].spec(image=find_image(node.read, component))
        return Resource(metadata=Metadata(version=version), spec=Spec(proto_spec=spec.SerializeToString()))

    @asynccontextmanager
    async def stream(
        self, node: str, method: str, request: Any, reply: type[Any]
    ) -> AsyncGenerator[AsyncIterator[Any]]:
        del reply
        await asyncio.sleep(0)

        async def replies() -> AsyncIterator[Any]:
            for one in found:
                yield one

        match method.rpartition("/")[2]:
            case "List":
                found: Sequence[Any] = [
                    state_pb2.ListResponse(
                        resource=Resource(
                            metadata=Metadata(id=name), spec=Spec(proto_spec=spec.SerializeToString())
                        )
                    )
                    for name, spec in self._list(self.nodes[node], request.type)
                ]
            case "Pull":
                if request.image_ref == self.unpullable:
                    raise RpcError(Code.NOT_FOUND, "not found")
                self.pulled.append((node, request.image_ref))
                found = [image_pb2.ImageServicePullResponse(name=request.image_ref)]
            case "Kubeconfig":
                found = [Data(bytes=_pack(authorities(self.nodes[node].runs)))]
            case _:
                raise AssertionError(method)
        yield replies()

    def _list(self, node: Node, type: str) -> Sequence[tuple[str, Message]]:
        if type == kinds.NODENAME.type:
            return [("nodename", NodenameSpec(nodename=node.name))]
        if type == kinds.BOOTSTRAP_MANIFESTS_CONFIG.type:
            return [("manifests", BootstrapManifestsConfigSpec(proxy_enabled=True))]
        if type == kinds.KUBELET_SECRET.type:
            return [("kubelet", KubeletSpec(accepted_c_as=_encode(authorities(node.read))))]
        if type == kinds.STATIC_POD.type:
            pods = ({"metadata": {"name": name, "annotations": one}} for name, one in node.pods.items())
            return [("pod", StaticPodSpec(pod=to_struct(pod))) for pod in pods]
        assert type == kinds.MANIFEST.type
        container = {"name": "kube-proxy", "image": find_image(node.read, PROXY)}
        proxy = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "kube-proxy", "namespace": "kube-system"},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
        access = make_map("kubeconfig-in-cluster", "kube-system", issuer=authorities(node.read)[0].decode())
        return [("10-kube-proxy", _manifest(proxy)), (IN_CLUSTER, _manifest(access))]


def _manifest(content: dict[str, Any]) -> ManifestSpec:
    return ManifestSpec(items=[SingleManifest(object=to_struct(content))])


def _encode(found: Sequence[bytes]) -> list[PEMEncodedCertificate]:
    return [PEMEncodedCertificate(crt=crt) for crt in found]


def _pack(accepted: Sequence[bytes]) -> bytes:
    """A kubeconfig as nodes send it; instead of a certificate it has that of the authority that issues it."""

    def encode(content: bytes) -> str:
        return base64.b64encode(content).decode()

    authority = {
        "server": "https://10.0.0.100:6443",
        "certificate-authority-data": encode(b"".join(accepted)),
    }
    user = {"client-certificate-data": encode(accepted[0]), "client-key-data": encode(b"key")}
    document = {
        "clusters": [{"name": "c", "cluster": authority}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "u@c", "context": {"cluster": "c", "user": "u"}}],
    }
    content = yaml.safe_dump(document).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("kubeconfig")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()
