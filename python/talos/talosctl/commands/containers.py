"""Commands on containers: ``talosctl containers``, ``stats``, ``restart``."""

from collections.abc import Iterable

from talos.api.machine.machine_pb2 import (
    Container,
    ContainerInfo,
    ContainersRequest,
    ContainersResponse,
    Restart,
    RestartRequest,
    RestartResponse,
    Stat,
    Stats,
    StatsRequest,
    StatsResponse,
)
from talos.client.namespaces import container_place, pod_member
from talos.client.session import Session
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.client.command import Row, ignore, parts, run_each, run_table
from talos.talosctl.client.flags import (
    CLIENT_FLAGS,
    CONTAINER_EXCLUSIVE,
    CONTAINER_FLAGS,
    OUTPUT,
    is_kubernetes,
)


def run_containers(invocation: Invocation) -> int:
    """One row for each container."""
    namespace, driver = container_place(is_kubernetes=is_kubernetes(invocation.flags))
    request = ContainersRequest(namespace=namespace, driver=driver)

    async def call(session: Session, node: str) -> list[ContainerInfo]:
        reply = await session.unary(node, "/machine.MachineService/Containers", request, ContainersResponse)
        return [container for part in parts(reply, Container) for container in part.containers]

    return run_table(
        invocation, ("NODE", "NAMESPACE", "ID", "IMAGE", "PID", "STATUS"), call, _containers_rows
    )


def _containers_rows(node: str, containers: list[ContainerInfo]) -> Iterable[Row]:
    for container in sorted(containers, key=lambda row: (row.pod_id, row.id != row.pod_id, row.id)):
        name = pod_member(container.id, container.pod_id)
        pid = str(container.pid) if container.pid else ""
        yield (node, container.namespace, name, container.image, pid, container.status)


CONTAINERS = Command(
    name="containers",
    aliases=("c",),
    summary="List the containers of the system or of Kubernetes",
    flags=(*CLIENT_FLAGS, *CONTAINER_FLAGS, OUTPUT),
    exclusive=(CONTAINER_EXCLUSIVE,),
    run=run_containers,
)


def run_stats(invocation: Invocation) -> int:
    """One row for each container with what it uses."""
    namespace, driver = container_place(is_kubernetes=is_kubernetes(invocation.flags))
    request = StatsRequest(namespace=namespace, driver=driver)

    async def call(session: Session, node: str) -> list[Stat]:
        reply = await session.unary(node, "/machine.MachineService/Stats", request, StatsResponse)
        return [stat for part in parts(reply, Stats) for stat in part.stats]

    return run_table(invocation, ("NODE", "NAMESPACE", "CONTAINER", "MEMORY(MB)", "CPU"), call, _stats_rows)


def _stats_rows(node: str, stats: list[Stat]) -> Iterable[Row]:
    for stat in sorted(stats, key=lambda row: (row.pod_id, row.id != row.pod_id, row.id)):
        memory = f"{stat.memory_usage / 1e6:.2f}"
        yield (node, stat.namespace, pod_member(stat.id, stat.pod_id), memory, str(stat.cpu_usage))


STATS = Command(
    name="stats",
    summary="Show what each container uses",
    flags=(*CLIENT_FLAGS, *CONTAINER_FLAGS, OUTPUT),
    exclusive=(CONTAINER_EXCLUSIVE,),
    run=run_stats,
)


def run_restart(invocation: Invocation) -> int:
    """Restart one container."""
    namespace, driver = container_place(is_kubernetes=is_kubernetes(invocation.flags))
    request = RestartRequest(namespace=namespace, driver=driver, id=invocation.args[0])

    async def call(session: Session, node: str) -> list[Restart]:
        reply = await session.unary(node, "/machine.MachineService/Restart", request, RestartResponse)
        return list(parts(reply, Restart))

    return run_each(invocation, call, ignore)


RESTART = Command(
    name="restart",
    usage="<id>",
    summary="Restart a container",
    flags=(*CLIENT_FLAGS, *CONTAINER_FLAGS),
    exclusive=(CONTAINER_EXCLUSIVE,),
    minimum=1,
    maximum=1,
    run=run_restart,
)
