"""Access to this node's objects in Kubernetes: as the kubelet, on control plane nodes as an administrator.

A kubelet may change its own node, but neither its taints nor the labels by which pods are kept apart
(https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction).
"""

from collections.abc import Callable
from dataclasses import dataclass

from talos.api.definitions.secrets_pb2 import KubeletSpec
from talos.config.static_pods import API_SERVER
from talos.kubed.admin import AdminAccess, call_in_thread
from talos.kubernetes.access import ClusterAccess
from talos.kubernetes.client import KubernetesClient
from talos.pki.certificate import join_certificates
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input
from talos.system.wakeup import Signal

INPUTS = (
    Input(*ids.KUBERNETES_ROOT_SECRET),
    Input(*ids.KUBELET_SECRET),
    Input(*ids.NODENAME),
    Input(kinds.STATIC_POD, API_SERVER),
)
"""What a controller has to declare that uses :meth:`NodeAccess.find`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClient:
    """``connect`` gives a client whose certificate is valid; ``key`` is another one with other secrets."""

    name: str
    is_admin: bool
    key: bytes
    connect: Callable[[], KubernetesClient]


class KubeletIdentity:
    """The kubelet's certificate, as PID 1 has handed it over."""

    def __init__(self) -> None:
        self.pem, self.serving = b"", b""
        self.changed = Signal()

    def set(self, pem: bytes, serving: bytes) -> None:
        """Use another certificate, with its key, from now on; ``serving`` is that of the kubelet's port."""
        self.pem, self.serving = pem, serving
        self.changed.notify()

    def connect(self, secret: KubeletSpec) -> KubernetesClient:
        """A client of the API server that the kubelet uses, too."""
        authority = join_certificates(secret.accepted_c_as)
        access = ClusterAccess(
            server=secret.endpoint.full_path,
            server_name=secret.endpoint_tls_server_name,
            authority=authority,
            certificate=self.pem,
            key=b"",
        )
        return KubernetesClient(access, call_in_thread)


class NodeAccess:
    """Finds out whether the node's objects can be reached, and as whom."""

    def __init__(self, kubelet: KubeletIdentity) -> None:
        self.kubelet = kubelet
        self._admin = AdminAccess()

    async def find(self, runtime: ControllerRuntime) -> NodeClient | None:
        """None while there is no API server, or the kubelet of a worker has not joined."""
        nodename = await runtime.get_or_none(*ids.NODENAME)
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        secret = await runtime.get_or_none(*ids.KUBELET_SECRET)
        if nodename is None or secret is None:
            return None
        name = nodename.spec.nodename
        if root is not None:
            if await runtime.get_or_none(kinds.STATIC_POD, API_SERVER) is None:
                return None
            key, spec = root.spec.SerializeToString(deterministic=True), root.spec
            return NodeClient(name=name, is_admin=True, key=key, connect=lambda: self._admin.connect(spec))
        if not self.kubelet.pem:
            return None
        client = self.kubelet.connect(secret.spec)
        key = secret.spec.SerializeToString(deterministic=True) + self.kubelet.pem
        return NodeClient(name=name, is_admin=False, key=key, connect=lambda: client)
