"""What kubed does for PID 1, which runs the kubelet: it acts in Kubernetes as the kubelet."""

import json
from collections.abc import Mapping
from urllib.parse import quote

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.definitions.k8s_pb2 import NodeStatusSpec
from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.api.internal import kubelet_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError, Service
from talos.kubed.admin import AdminAccess, connect_admin
from talos.kubed.node_access import KubeletIdentity
from talos.kubed.shutdown.inhibitors import Inhibitors
from talos.kubed.shutdown.logind import MAX_DELAY
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.kubernetes.drain import drain
from talos.resource import ids, kinds
from talos.resource.changes import wait_for
from talos.resource.resource import Resource
from talos.resource.state import NotFoundError, State
from talos.system.logging import Log

CORDON_TIMEOUT = 60.0  # seconds
DRAIN_TIMEOUT = 300.0
"""Seconds, as upstream."""
MAX_SHOWN = 200
"""Characters of an endpoint that an error repeats."""


class KubeletService:
    """The handlers of ``talos.internal.Kubelet``."""

    def __init__(self, state: State, identity: KubeletIdentity, inhibitors: Inhibitors, log: Log) -> None:
        self._state = state
        self._identity = identity
        self._inhibitors = inhibitors
        self._log = log
        self._admin = AdminAccess()

    def make_internal(self) -> Service:
        """The service for PID 1."""
        descriptor = pb.DESCRIPTOR.services_by_name["Kubelet"]
        handlers: Mapping[str, Handler] = {
            "Identify": self.identify,
            "Drain": self.drain,
            "PrepareForShutdown": self.prepare_for_shutdown,
            "Read": self.read,
        }
        return Service(descriptor, handlers)

    async def identify(self, request: pb.IdentifyRequest, _call: Call) -> Empty:
        """Use another certificate from now on."""
        self._identity.set(request.pem, request.serving)
        return Empty()

    async def drain(self, _request: Empty, _call: Call) -> pb.DrainResponse:
        """Evict this node's pods once it is cordoned, which the stage of the machine demands."""
        name, client = await self._connect()
        try:
            if await client.get_or_none(f"/api/v1/nodes/{quote(name)}") is None:
                return pb.DrainResponse()
            with trio.move_on_after(CORDON_TIMEOUT) as scope:
                await wait_for(self._state, kinds.NODE_STATUS, name, _is_cordoned)
            if scope.cancelled_caught:
                raise RpcError(Code.DEADLINE_EXCEEDED, f"not cordoned within {CORDON_TIMEOUT:.0f} s")
            remaining = await drain(
                client,
                name,
                sleep=trio.sleep,
                now=trio.current_time,
                seconds=DRAIN_TIMEOUT,
                report=self._log.info,
            )
        except KubernetesError as error:
            raise RpcError(Code.UNAVAILABLE, f"Kubernetes does not answer: {error}") from None
        return pb.DrainResponse(remaining=remaining)

    async def prepare_for_shutdown(
        self, request: pb.PrepareForShutdownRequest, _call: Call
    ) -> pb.PrepareForShutdownResponse:
        """Announce the node's end to the kubelet, which ends its pods and then releases its lock."""
        seconds = min(max(request.seconds, 0.0), MAX_DELAY)
        return pb.PrepareForShutdownResponse(delayed_by=await self._inhibitors.end(seconds))

    async def read(self, request: pb.ReadRequest, _call: Call) -> pb.ReadResponse:
        """What there is at a path, as an administrator sees it."""
        try:
            root = (await self._state.get(*ids.KUBERNETES_ROOT_SECRET)).spec
        except NotFoundError:
            raise RpcError(Code.FAILED_PRECONDITION, "this node has no Kubernetes") from None
        client = _connect_to(root, request.endpoint) if request.endpoint else self._admin.connect(root)
        try:
            found = await client.call("GET", request.path)
        except KubernetesError as error:
            raise RpcError(Code.UNAVAILABLE, f"Kubernetes: {error}") from None
        return pb.ReadResponse(object=json.dumps(found).encode())

    async def _connect(self) -> tuple[str, KubernetesClient]:
        try:
            name = (await self._state.get(*ids.NODENAME)).spec.nodename
            secret = (await self._state.get(*ids.KUBELET_SECRET)).spec
        except NotFoundError:
            raise RpcError(Code.FAILED_PRECONDITION, "this node has no Kubernetes") from None
        if not self._identity.pem:
            raise RpcError(Code.FAILED_PRECONDITION, "the kubelet has not joined yet")
        return name, self._identity.connect(secret)


def _connect_to(root: KubernetesRootSpec, endpoint: str) -> KubernetesClient:
    """A client of another API server than the node's own; RpcError."""
    try:
        return connect_admin(root, endpoint)
    except ValueError:
        text = f"the endpoint {endpoint[:MAX_SHOWN]!r} is no URL: give one such as https://10.0.0.1:6443"
        raise RpcError(Code.INVALID_ARGUMENT, text) from None


def _is_cordoned(status: Resource[NodeStatusSpec]) -> bool:
    return status.spec.unschedulable
