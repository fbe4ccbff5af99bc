"""What counts as healthy before and after an upgrade."""

from collections.abc import Sequence
from typing import Any, cast

from talos.api.definitions.network_pb2 import StatusSpec
from talos.machined.boot.make_upgrades import list_healthy
from talos.machined.node.ports.services import ServiceHealth, ServiceState, ServiceStatus
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState

HEALTHY, UNHEALTHY = ServiceHealth(unknown=False, healthy=True), ServiceHealth(unknown=False, healthy=False)


class Services:
    """Some services, in different states."""

    def list(self) -> Sequence[ServiceStatus]:
        return (
            ServiceStatus(id="apid", state=ServiceState.RUNNING, health=HEALTHY, events=()),
            ServiceStatus(id="cri", state=ServiceState.RUNNING, health=UNHEALTHY, events=()),
            ServiceStatus(id="etcd", state=ServiceState.FINISHED, health=HEALTHY, events=()),
        )


async def test_services_that_run_and_a_network_that_is_ready_are_healthy() -> None:
    state, services = MemoryState(), cast("Any", Services())
    assert await list_healthy(services, state) == ["apid"]
    await put(state, *ids.NETWORK_STATUS, StatusSpec(address_ready=True))
    assert await list_healthy(services, state) == ["apid"]
    await put(state, *ids.NETWORK_STATUS, StatusSpec(address_ready=True, connectivity_ready=True))
    assert await list_healthy(services, state) == ["apid", "network"]
