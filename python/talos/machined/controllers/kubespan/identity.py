"""KubeSpanIdentityController: the node's keys and address in KubeSpan."""

import trio

from talos.api.addresses import make_prefix
from talos.api.definitions.kubespan_pb2 import IdentitySpec
from talos.machined.node.kubespan import Keys, keep_keys, make_address, make_subnet
from talos.machined.node.state_folder import find_state_folder
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.logging import Log


class KubeSpanIdentityController(Reconciler):
    """KubeSpanConfig, HardwareAddress, VolumeMountStatus of STATE → KubeSpanIdentity.

    The keys stay in STATE while KubeSpan is off; the address follows a changed card.
    """

    name = "kubespan.IdentityController"
    inputs = (
        Input(*ids.KUBE_SPAN_CONFIG),
        Input(*ids.HARDWARE_ADDRESS_FIRST),
        Input(kinds.VOLUME_MOUNT_STATUS),
    )
    outputs = (Output(kinds.KUBE_SPAN_IDENTITY),)

    def __init__(self, log: Log) -> None:
        self._log = log
        self._keys: Keys | None = None

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource as soon as card and STATE are there."""
        config = await runtime.get_or_none(*ids.KUBE_SPAN_CONFIG)
        card = await runtime.get_or_none(*ids.HARDWARE_ADDRESS_FIRST)
        async with runtime.track_outputs():
            if config is None or not config.spec.enabled:
                self._keys = None  # after a reset of STATE there are others
                return
            keys = await self._read(runtime)
            if card is None or keys is None:
                return
            subnet = make_subnet(config.spec.cluster_id)
            try:
                address = make_address(subnet, card.spec.hardware_addr)
            except ValueError as error:
                self._log.once(f"KubeSpan has no address: {card.spec.name}: {error}", key="card")
                return
            spec = IdentitySpec(
                address=make_prefix(address),
                subnet=make_prefix(subnet),
                private_key=keys.private,
                public_key=keys.public,
            )
            await runtime.put(*ids.KUBE_SPAN_IDENTITY, spec)

    async def _read(self, runtime: ControllerRuntime) -> Keys | None:
        """The keys in STATE; the same while KubeSpan is on, also when STATE is not mounted any more."""
        if self._keys is not None:
            return self._keys
        folder = await find_state_folder(runtime)
        if folder is not None:
            try:
                self._keys = await trio.to_thread.run_sync(keep_keys, folder)
            except ValueError as error:
                self._log.once(f"KubeSpan has no keys: {error}", key="keys", level="error")
        return self._keys
