"""Diagnostic, in upstream's words: all addresses of the node lie in networks of pods or services."""

from ipaddress import ip_address

import trio

from talos.api.definitions.runtime_pb2 import DiagnosticSpec
from talos.config.active import read_config
from talos.config.effective import cluster as effective
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output

DIAGNOSTIC = "address-overlap"
MESSAGE = "host and Kubernetes pod/service CIDR addresses overlap"
PERSISTENCE = 30.0
"""Seconds that it has to last: addresses and the config come one after the other."""


class AddressOverlapController(Controller):
    """NodeAddress, MachineConfig → Diagnostic: Kubernetes finds no address for such a node."""

    name = "runtime.AddressOverlapController"
    inputs = (
        Input(*ids.MACHINE_CONFIG),
        Input(*ids.NODE_ADDRESS_ROUTED),
        Input(*ids.NODE_ADDRESS_ROUTED_NO_K8S),
    )
    outputs = (Output(kinds.DIAGNOSTIC, shared=True),)

    async def run(self, runtime: ControllerRuntime) -> None:
        """Look after each change, and again when it has lasted."""
        since: float | None = None
        async with trio.open_nursery() as nursery:

            async def check_again() -> None:
                await trio.sleep(PERSISTENCE)
                runtime.queue_reconcile()

            async for _ in runtime.events():
                details = await find_overlap(runtime)
                now = trio.current_time()
                if not details:
                    since = None
                elif since is None:
                    since = now
                    nursery.start_soon(check_again)
                async with runtime.track_outputs():
                    if since is not None and now - since >= PERSISTENCE:
                        spec = DiagnosticSpec(message=MESSAGE, details=details)
                        await runtime.put(kinds.DIAGNOSTIC, DIAGNOSTIC, spec)
                runtime.reset_backoff()


async def find_overlap(runtime: ControllerRuntime) -> list[str]:
    """What overlaps; nothing while an address is outside of these networks, or there is none."""
    config = await read_config(runtime)
    routed = await runtime.get_or_none(*ids.NODE_ADDRESS_ROUTED)
    outside = await runtime.get_or_none(*ids.NODE_ADDRESS_ROUTED_NO_K8S)
    if config is None or routed is None or outside is None:
        return []
    if not routed.spec.addresses or outside.spec.addresses:
        return []
    found = [f"{ip_address(prefix.ip)}/{prefix.prefix_length}" for prefix in routed.spec.addresses]
    return [
        f"host routed addresses: {format_list(found)}",
        f"Kubernetes pod CIDRs: {format_list(effective.pod_subnets(config))}",
        f"Kubernetes service CIDRs: {format_list(effective.service_subnets(config))}",
    ]


def format_list(texts: list[str] | tuple[str, ...]) -> str:
    """Texts as Go prints a list of them."""
    return f"[{' '.join(f'"{text}"' for text in texts)}]"
