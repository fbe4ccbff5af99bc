"""The end of a node's pods, before that of the services that they need: etcd, above all."""

import json
import math
import signal
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import trio

from talos.api.containerd import containers_pb2, task_pb2, tasks_pb2
from talos.machined.containerd.client import CRI_SOCKET, PODS, Containerd
from talos.machined.node.ports.services import ServiceState
from talos.machined.services.health import Connect
from talos.machined.services.kubelet import KUBELET
from talos.machined.services.supervisor import Supervisor
from talos.system.logging import Log

CRI = "cri"
DEFAULT_GRACE_PERIOD, MAX_GRACE_PERIOD = 30.0, 120.0
"""Seconds that a container has when its pod names none, and at most."""
SYSTEM_GRACE_PERIOD = 10.0  # seconds
"""For pods of the system, as the kubelet gives critical ones at a shutdown."""
KILL_TIMEOUT = 10.0  # seconds
"""For the processes of a container that was killed to end."""
_KIND, _CONTAINER = "io.cri-containerd.kind", "container"
_NAMESPACE = "io.kubernetes.pod.namespace"
_POD, _NAME = "io.kubernetes.pod.name", "io.kubernetes.container.name"
_SYSTEM = "kube-system"
_METADATA = "io.cri-containerd.container.metadata"
_GRACE_PERIOD = "io.kubernetes.pod.terminationGracePeriod"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContainer:
    """A container that runs, named after its pod and itself, and the seconds that it has to end."""

    id: str
    name: str
    is_system: bool
    grace: float


async def stop_pods(connect: Connect, supervisor: Supervisor, log: Log) -> None:
    """End the kubelet, then the containers of all pods, those of the system last.

    What has not ended when its time is over is killed, and named. RpcError, OSError.
    """
    if not any(one.id == CRI and one.state is ServiceState.RUNNING for one in supervisor.list()):
        return
    await supervisor.halt(KUBELET)
    async with connect(CRI_SOCKET) as transport:
        containerd = Containerd(transport, PODS)
        waves: dict[bool, list[PodContainer]] = defaultdict(list)
        for container in await find_running(containerd):
            waves[container.is_system].append(container)
        killed: list[str] = []
        for is_system in (False, True):
            async with trio.open_nursery() as nursery:
                for container in waves[is_system]:
                    nursery.start_soon(_stop, containerd, container, killed)
    if killed:
        log.warning("containers of pods were killed, they did not end in time", containers=sorted(killed))


async def find_running(containerd: Containerd) -> Sequence[PodContainer]:
    """Containers of pods, without those that only hold a pod's network."""
    found = await containerd.call(
        "containers.v1.Containers/List",
        containers_pb2.ListContainersRequest(),
        containers_pb2.ListContainersResponse,
    )
    tasks = await containerd.call(
        "tasks.v1.Tasks/List", tasks_pb2.ListTasksRequest(), tasks_pb2.ListTasksResponse
    )
    running = {task.id for task in tasks.tasks if task.status == task_pb2.RUNNING}
    containers: list[PodContainer] = []
    for container in found.containers:
        if container.labels.get(_KIND) == _CONTAINER and container.id in running:
            is_system = container.labels.get(_NAMESPACE) == _SYSTEM
            grace = parse_grace(container.extensions[_METADATA].value)
            name = f"{container.labels.get(_POD, '')}:{container.labels.get(_NAME, '')}"
            containers.append(
                PodContainer(
                    id=container.id,
                    name=name,
                    is_system=is_system,
                    grace=min(grace, SYSTEM_GRACE_PERIOD) if is_system else grace,
                )
            )
    return containers


def parse_grace(metadata: bytes) -> float:
    """The seconds that a pod has to end, in what the plugin for Kubernetes notes of a container."""
    try:
        document = cast("dict[str, Any]", json.loads(metadata))
        seconds = float(document["Metadata"]["Config"]["annotations"][_GRACE_PERIOD])
    except (ValueError, KeyError, TypeError):
        return DEFAULT_GRACE_PERIOD
    return min(max(seconds, 0.0), MAX_GRACE_PERIOD) if math.isfinite(seconds) else DEFAULT_GRACE_PERIOD


async def _stop(containerd: Containerd, container: PodContainer, killed: list[str]) -> None:
    await _send(containerd, container.id, signal.SIGTERM)
    if await _has_ended(containerd, container.id, container.grace):
        return
    killed.append(container.name)
    await _send(containerd, container.id, signal.SIGKILL)
    await _has_ended(containerd, container.id, KILL_TIMEOUT)


async def _send(containerd: Containerd, id: str, number: signal.Signals) -> None:
    request = tasks_pb2.KillRequest(container_id=id, signal=number, all=number == signal.SIGKILL)
    await containerd.remove("tasks.v1.Tasks/Kill", request)


async def _has_ended(containerd: Containerd, id: str, seconds: float) -> bool:
    """Wait until a container's first process has ended; false when it has not within the time."""
    request = tasks_pb2.WaitRequest(container_id=id)
    with trio.move_on_after(seconds):
        # Its own error for a call that takes too long is an unknown one: so the limit here is the shorter.
        limit = seconds + KILL_TIMEOUT
        await containerd.remove("tasks.v1.Tasks/Wait", request, tasks_pb2.WaitResponse, limit)
        return True
    return False
