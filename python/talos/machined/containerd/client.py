"""Calls to containerd: one of a node's two instances, and a namespace in it."""

import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace

import trio
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from talos.api.containerd import leases_pb2
from talos.api.rpc import Code, DuplexTransport, RpcError
from talos.machined.node.workloads import Workloads
from talos.process.daemons import RUN

SYSTEM_SOCKET = f"{RUN}/containerd/containerd.sock"
"""The instance for the system itself; it is there without a disk."""
CRI_SOCKET = "/run/containerd/containerd.sock"
"""The instance for Kubernetes: pods in its namespace ``k8s.io``, etcd and the kubelet in ``system``."""
SYSTEM_ROOT, CRI_ROOT = "/system/var/lib/containerd", "/var/lib/containerd"
"""Where the two instances keep what they have."""
SYSTEM, PODS = "system", "k8s.io"
SNAPSHOTTER = "overlayfs"
TIMEOUT = 30.0
"""Seconds for a call that only touches containerd's own store, perhaps on a slow and busy disk."""
WORK_TIMEOUT = 120.0
"""Seconds for a call that starts a program or writes much to the disk."""
LEASE_TTL = 60 * 60.0
"""Seconds after which containerd itself drops a lease, should its owner be lost."""

type Connect = Callable[[str], AbstractAsyncContextManager[DuplexTransport]]


@dataclass(frozen=True, slots=True)
class Containerd:
    """Calls to one namespace. What is made under a ``lease`` is kept until that ends."""

    transport: DuplexTransport
    namespace: str
    lease: str = ""
    find_pid: Callable[[int], int] = int
    """The pid in PID 1's namespace by that in containerd's; ProcessLookupError when the process has ended."""

    @property
    def metadata(self) -> dict[str, list[str]]:
        """The gRPC metadata of every call."""
        found = {"containerd-namespace": [self.namespace]}
        return found | {"containerd-lease": [self.lease]} if self.lease else found

    async def call[R: Message](
        self,
        method: str,
        request: Message,
        reply: type[R],
        timeout: float = TIMEOUT,  # noqa: ASYNC109 - it is sent to the server too
    ) -> R:
        """Call a method such as ``tasks.v1.Tasks/Get``. Errors name it, as containerd's texts are short."""
        try:
            return await self.transport.unary(
                f"/containerd.services.{method}", request, reply, metadata=self.metadata, timeout=timeout
            )
        except RpcError as error:
            name = method.rpartition(".")[2]
            raise RpcError(error.code, f"containerd {name}: {error.reason}", error.details) from None

    async def find[R: Message](self, method: str, request: Message, reply: type[R]) -> R | None:
        """Call a method; None when containerd has no such thing."""
        try:
            return await self.call(method, request, reply)
        except RpcError as error:
            if error.code is Code.NOT_FOUND:
                return None
            raise

    async def remove(
        self,
        method: str,
        request: Message,
        reply: type[Message] = Empty,
        timeout: float = TIMEOUT,  # noqa: ASYNC109 - it is sent to the server too
    ) -> None:
        """Call a method that removes something; nothing happens when it isn't there."""
        try:
            await self.call(method, request, reply, timeout)
        except RpcError as error:
            if error.code is not Code.NOT_FOUND:
                raise

    @asynccontextmanager
    async def leased(self) -> AsyncGenerator["Containerd"]:
        """The same namespace under a lease: the garbage collector keeps what is made meanwhile."""
        name = f"talos-{uuid.uuid4()}"
        expiry = {"containerd.io/gc.expire": _format_time(LEASE_TTL)}
        request = leases_pb2.CreateRequest(id=name, labels=expiry)
        await self.call("leases.v1.Leases/Create", request, leases_pb2.CreateResponse)
        try:
            yield replace(self, lease=name)
        finally:
            with trio.CancelScope(shield=True), suppress(RpcError):
                await self.call("leases.v1.Leases/Delete", leases_pb2.DeleteRequest(id=name), Empty)


def open_namespace(
    transport: DuplexTransport, socket: str, namespace: str, workloads: Workloads
) -> Containerd:
    """A namespace of an instance; that for Kubernetes may itself be in a pid namespace of its own."""
    find_pid = workloads.find_pid if socket == CRI_SOCKET else int
    return Containerd(transport, namespace, find_pid=find_pid)


def find_root(socket: str) -> str:
    """Where the instance behind a socket keeps what it has."""
    return SYSTEM_ROOT if socket == SYSTEM_SOCKET else CRI_ROOT


def _format_time(seconds_from_now: float) -> str:
    """A moment as RFC 3339 has it."""
    from datetime import UTC, datetime, timedelta

    moment = datetime.now(UTC) + timedelta(seconds=seconds_from_now)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
