"""Containers, Stats and Restart: of the daemons, and of what containerd runs."""

import json
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty

from talos.api.containerd import cgroups_v1_pb2, cgroups_v2_pb2, containers_pb2, cri_pb2, task_pb2, tasks_pb2
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError, Transport
from talos.machined.api import containerd_instances as instances
from talos.machined.api.pump import in_thread
from talos.machined.containerd.client import PODS, SYSTEM, TIMEOUT, Containerd, open_namespace
from talos.machined.node.ports.node import Node
from talos.machined.node.ports.services import ServiceStatus
from talos.system.cgroups import Usage

_LIST_STATES = "/runtime.v1.RuntimeService/ListContainers"

# Labels that containerd's CRI plugin and the kubelet put on what they create.
_KIND = "io.cri-containerd.kind"
_POD_NAMESPACE = "io.kubernetes.pod.namespace"
_POD_NAME = "io.kubernetes.pod.name"
_POD_UID = "io.kubernetes.pod.uid"
_CONTAINER_NAME = "io.kubernetes.container.name"
_METADATA = "io.cri-containerd.container.metadata"
_SHORT_ID = 12

_SANDBOX_STATES = {task_pb2.RUNNING: "SANDBOX_READY"}


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""

    async def containers(request: pb.ContainersRequest, _call: Call) -> pb.ContainersResponse:
        found = await list_containers(node, request.namespace)
        infos = [make_info(row, request.namespace) for row in found]
        return pb.ContainersResponse(messages=[pb.Container(containers=infos)])

    async def stats(request: pb.StatsRequest, _call: Call) -> pb.StatsResponse:
        found = await list_containers(node, request.namespace)
        usage = await read_usage(node, request.namespace, found)
        rows = [make_stat(row, request.namespace, usage[row.id]) for row in found if row.id in usage]
        return pb.StatsResponse(messages=[pb.Stats(stats=rows)])

    async def restart(request: pb.RestartRequest, _call: Call) -> pb.RestartResponse:
        row = await find_container(node, request.namespace, request.id)
        if row is None:
            raise RpcError(Code.UNKNOWN, f'container "{request.id}" not found')
        if row.group or (request.namespace == SYSTEM and _is_service(node, row.id)):
            await node.services.terminate(row.id)
        else:
            # Its creator restarts it: the kubelet.
            async with await instances.connect_to(node, row.socket) as transport:
                kill = tasks_pb2.KillRequest(container_id=row.id, signal=signal.SIGTERM)
                await Containerd(transport, request.namespace).call("tasks.v1.Tasks/Kill", kill, Empty)
        return pb.RestartResponse(messages=[pb.Restart()])

    return {"Containers": containers, "Stats": stats, "Restart": restart}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRow:
    """A container with its task, if it has one. ``pod`` is empty outside of Kubernetes.

    ``group`` is the control group of a daemon, which containerd does not manage; ``socket`` is that of the
    instance which manages all others. ``log`` is the file that a pod's container writes.
    """

    id: str
    image: str
    pid: int = 0
    status: task_pb2.Status = task_pb2.UNKNOWN
    pod_state: cri_pb2.ContainerState = cri_pb2.CONTAINER_UNKNOWN
    pod: str = ""
    pod_uid: str = ""
    container: str = ""
    network_namespace: str = ""
    group: str = ""
    socket: str = ""
    log: str = ""

    @property
    def display(self) -> str:
        """The name shown as the id: a pod's own for its sandbox, a longer one for its containers."""
        if not self.pod:
            return self.id
        return f"{self.pod}:{self.container}:{self.id[:_SHORT_ID]}" if self.container else self.pod

    @property
    def pod_id(self) -> str:
        """The pod, or the container itself where there are no pods."""
        return self.pod or self.id

    @property
    def name(self) -> str:
        """The container's name within its pod."""
        return self.container or self.pod_id

    @property
    def state(self) -> str:
        """The status as the interface names it that made the container."""
        if not self.pod:
            return task_pb2.Status.Name(self.status)
        if self.container:
            return cri_pb2.ContainerState.Name(self.pod_state)
        return _SANDBOX_STATES.get(self.status, "SANDBOX_NOTREADY")


async def list_containers(node: Node, namespace: str) -> list[ContainerRow]:
    """What is in a namespace.

    With the system's come the daemons, and the containers of services, which the other instance manages.
    """
    first = instances.get_socket(namespace)
    if namespace == PODS and not await instances.is_running(node, namespace):
        return []  # a node in maintenance has no pods
    found = await _list_instance(node, first, namespace)
    if namespace != SYSTEM:
        return found
    if await instances.is_running(node, PODS):
        found += await _list_instance(node, instances.get_socket(PODS), namespace)
    found += [
        make_daemon_row(service) for service in node.services.list() if service.is_daemon and service.pid
    ]
    return sorted({row.id: row for row in found}.values(), key=lambda row: row.id)


async def find_container(node: Node, namespace: str, id: str) -> ContainerRow | None:
    """A container by its own id or the one that is shown."""
    found = await list_containers(node, namespace)
    return next((row for row in found if id in (row.display, row.id)), None)


def _is_service(node: Node, id: str) -> bool:
    return any(service.id == id for service in node.services.list())


async def read_usage(node: Node, namespace: str, rows: Sequence[ContainerRow]) -> Mapping[str, Usage]:
    """What containers use, by id: of daemons as their groups count, of the rest as containerd does."""
    usage = {row.id: await in_thread(node.ports.groups.read_usage, row.group) for row in rows if row.group}
    for socket in dict.fromkeys(row.socket for row in rows if row.socket):
        async with await instances.connect_to(node, socket) as transport:
            reply = await Containerd(transport, namespace).call(
                "tasks.v1.Tasks/Metrics", tasks_pb2.MetricsRequest(), tasks_pb2.MetricsResponse
            )
        usage |= {metric.id: parse_usage(metric.data) for metric in reply.metrics}
    return usage


async def _list_instance(node: Node, socket: str, namespace: str) -> list[ContainerRow]:
    async with await instances.connect_to(node, socket) as transport:
        found = await _list(open_namespace(transport, socket, namespace, node.workloads))
        states = dict[str, cri_pb2.ContainerState]()
        if namespace == PODS:
            states = await _list_states(transport)
    unknown = cri_pb2.CONTAINER_UNKNOWN
    return [replace(row, socket=socket, pod_state=states.get(row.id, unknown)) for row in found]


async def _list_states(transport: Transport) -> dict[str, cri_pb2.ContainerState]:
    """The states of pods' containers: those that have ended have no task any more."""
    listed = await transport.unary(
        _LIST_STATES,
        cri_pb2.ListContainersRequest(),
        cri_pb2.ListContainersResponse,
        timeout=TIMEOUT,
    )
    return {container.id: container.state for container in listed.containers}


async def _list(calls: Containerd) -> list[ContainerRow]:
    """Containers ordered by pod, its sandbox first."""
    listed = await calls.call(
        "containers.v1.Containers/List",
        containers_pb2.ListContainersRequest(),
        containers_pb2.ListContainersResponse,
    )
    running = await calls.call(
        "tasks.v1.Tasks/List", tasks_pb2.ListTasksRequest(), tasks_pb2.ListTasksResponse
    )
    # The id of a task is its container's; older versions fill in one of the two fields only.
    tasks = {task.container_id or task.id: task for task in running.tasks}
    rows = [make_row(container, tasks.get(container.id)) for container in listed.containers]
    rows = [replace(row, pid=_find_pid(calls, row.pid)) for row in rows]
    return sorted(rows, key=lambda row: (row.pod_id, row.container, row.id))


def _find_pid(calls: Containerd, pid: int) -> int:
    """The pid of a task's first process here; 0 for none and for one that has ended."""
    with suppress(ProcessLookupError):
        return pid and calls.find_pid(pid)
    return 0


def make_daemon_row(service: ServiceStatus) -> ContainerRow:
    """A daemon as existing clients expect it: a container with the service's name."""
    return ContainerRow(
        id=service.id, image="", pid=service.pid, status=task_pb2.RUNNING, group=service.group
    )


def make_row(container: containers_pb2.Container, task: task_pb2.Process | None) -> ContainerRow:
    """The fields of containerd's container that are used here."""
    labels = container.labels
    pod = f"{labels[_POD_NAMESPACE]}/{labels[_POD_NAME]}" if labels.get(_POD_NAME) else ""
    is_sandbox = labels.get(_KIND) == "sandbox"
    notes = container.extensions
    return ContainerRow(
        id=container.id,
        image=container.image,
        pid=task.pid if task else 0,
        status=task.status if task else task_pb2.UNKNOWN,
        pod=pod,
        pod_uid=labels.get(_POD_UID, ""),
        container="" if is_sandbox or not pod else labels.get(_CONTAINER_NAME, container.id),
        network_namespace=parse_network_namespace(container.spec.value) if is_sandbox else "",
        log=parse_log_path(notes[_METADATA].value) if _METADATA in notes else "",
    )


def parse_network_namespace(spec: bytes) -> str:
    """The name of the network namespace in an OCI runtime spec; none for the host's."""
    try:
        document = cast("dict[str, Any]", json.loads(spec))
        spaces = document["linux"]["namespaces"]
        path = next(str(space["path"]) for space in spaces if space["type"] == "network")
    except (ValueError, KeyError, TypeError, StopIteration):
        return ""
    return path.rpartition("/")[2]


def parse_log_path(metadata: bytes) -> str:
    """The log file in what the plugin for Kubernetes notes of a container; none where it notes none."""
    try:
        document = cast("dict[str, Any]", json.loads(metadata))
        return str(document["Metadata"]["LogPath"])
    except (ValueError, KeyError, TypeError):
        return ""


def make_info(row: ContainerRow, namespace: str) -> pb.ContainerInfo:
    """A container as the API shows it."""
    return pb.ContainerInfo(
        namespace=namespace,
        id=row.display,
        uid=row.pod_uid,
        internal_id=row.id,
        image=row.image,
        pid=row.pid,
        status=row.state,
        pod_id=row.pod_id,
        name=row.name,
        network_namespace=row.network_namespace,
    )


def parse_usage(data: AnyMessage) -> Usage:
    """Measurements of either version of control groups; zeros for anything else."""
    # containerd leaves the part of the URL before the slash away.
    match data.type_url.rpartition("/")[2]:
        case "io.containerd.cgroups.v1.Metrics":
            one = cgroups_v1_pb2.Metrics.FromString(data.value)
            return Usage(memory=one.memory.usage.usage, cpu=one.cpu.usage.total)
        case "io.containerd.cgroups.v2.Metrics":
            two = cgroups_v2_pb2.Metrics.FromString(data.value)
            return Usage(memory=two.memory.usage, cpu=two.cpu.usage_usec * 1000)
        case _:
            return Usage()


def make_stat(row: ContainerRow, namespace: str, usage: Usage) -> pb.Stat:
    """A container's measurements as the API shows them."""
    return pb.Stat(
        namespace=namespace,
        id=row.display,
        memory_usage=usage.memory,
        cpu_usage=usage.cpu,
        pod_id=row.pod_id,
        name=row.name,
    )
