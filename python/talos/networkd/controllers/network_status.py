"""NetworkStatus: the readiness of the network, which services wait for."""

from talos.api.definitions.network_pb2 import StatusSpec
from talos.config.effective.trial_checks import is_trial_probe
from talos.resource import ids, kinds
from talos.resource.addresses import parse_network
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler

ETC_FILES = ("hosts", "resolv.conf")


class NetworkStatusController(Reconciler):
    """Writes the one NetworkStatus."""

    name = "network.StatusController"
    inputs = (
        Input(*ids.NODE_ADDRESS_CURRENT),
        Input(kinds.ROUTE_STATUS),
        Input(kinds.PROBE_STATUS),
        Input(kinds.HOSTNAME_STATUS),
        Input(kinds.ETC_FILE_STATUS),
    )
    outputs = (Output(kinds.NETWORK_STATUS),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Recompute the status."""
        current = await runtime.get_or_none(*ids.NODE_ADDRESS_CURRENT)
        routes = await runtime.list(kinds.ROUTE_STATUS)
        found = await runtime.list(kinds.PROBE_STATUS)
        probes = [probe for probe in found if not is_trial_probe(probe.id)]
        hostname = await runtime.get_or_none(*ids.HOSTNAME_STATUS)
        files = {resource.id for resource in await runtime.list(kinds.ETC_FILE_STATUS)}
        status = StatusSpec(
            address_ready=current is not None and len(current.spec.addresses) > 0,
            # Probes decide where there are some, else a default route.
            connectivity_ready=all(probe.spec.success for probe in probes)
            if probes
            else any(
                route.spec.HasField("gateway") and parse_network(route.spec.destination) is None
                for route in routes
            ),
            hostname_ready=hostname is not None,
            etc_files_ready=files.issuperset(ETC_FILES),
        )
        await runtime.put(*ids.NETWORK_STATUS, status)
