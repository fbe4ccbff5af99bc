"""``talosctl stats``."""

from collections.abc import Iterable

from talos.api.machine.machine_pb2 import Stat, Stats, StatsRequest, StatsResponse
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.client.command import Row, parts, run_table
from talos.talosctl.client.flags import CLIENT_FLAGS, DRIVER
from talos.talosctl.client.namespaces import container_place, pod_member
from talos.talosctl.client.session import Session


def run_stats(invocation: Invocation) -> int:
    """One row for each container with what it uses."""
    namespace, driver = container_place(is_kubernetes=invocation.flags.is_set("kubernetes"))
    request = StatsRequest(namespace=namespace, driver=driver)

    async def ask(session: Session, node: str) -> list[Stat]:
        reply = await session.unary(node, "/machine.MachineService/Stats", request, StatsResponse)
        return [stat for part in parts(reply, Stats) for stat in part.stats]

    return run_table(invocation, ("NODE", "NAMESPACE", "CONTAINER", "MEMORY(MB)", "CPU"), ask, _rows)


def _rows(node: str, stats: list[Stat]) -> Iterable[Row]:
    for stat in sorted(stats, key=lambda row: (row.pod_id, row.id != row.pod_id, row.id)):
        memory = f"{stat.memory_usage / 1e6:.2f}"
        yield (node, stat.namespace, pod_member(stat.id, stat.pod_id), memory, str(stat.cpu_usage))


COMMAND = Command(
    name="stats",
    summary="Show what each container uses",
    flags=(*CLIENT_FLAGS, DRIVER),
    run=run_stats,
)
