"""``talosctl containers``."""

from collections.abc import Iterable

from talos.api.machine.machine_pb2 import Container, ContainerInfo, ContainersRequest, ContainersResponse
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.client.command import Row, parts, run_table
from talos.talosctl.client.flags import CLIENT_FLAGS, DRIVER
from talos.talosctl.client.namespaces import container_place, pod_member
from talos.talosctl.client.session import Session


def run_containers(invocation: Invocation) -> int:
    """One row for each container."""
    namespace, driver = container_place(is_kubernetes=invocation.flags.is_set("kubernetes"))
    request = ContainersRequest(namespace=namespace, driver=driver)

    async def ask(session: Session, node: str) -> list[ContainerInfo]:
        reply = await session.unary(node, "/machine.MachineService/Containers", request, ContainersResponse)
        return [container for part in parts(reply, Container) for container in part.containers]

    return run_table(invocation, ("NODE", "NAMESPACE", "ID", "IMAGE", "PID", "STATUS"), ask, _rows)


def _rows(node: str, containers: list[ContainerInfo]) -> Iterable[Row]:
    for container in sorted(containers, key=lambda row: (row.pod_id, row.id != row.pod_id, row.id)):
        name = pod_member(container.id, container.pod_id)
        pid = str(container.pid) if container.pid else ""
        yield (node, container.namespace, name, container.image, pid, container.status)


COMMAND = Command(
    name="containers",
    aliases=("c",),
    summary="List the containers of the system or of Kubernetes",
    flags=(*CLIENT_FLAGS, DRIVER),
    run=run_containers,
)
