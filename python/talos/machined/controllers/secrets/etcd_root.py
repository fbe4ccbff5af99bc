"""EtcdRootController: the authority of etcd, taken from the machine config."""

from typing import ClassVar

from talos.api.definitions.secrets_pb2 import EtcdRootSpec
from talos.config.active import read_config
from talos.config.effective import secrets as effective
from talos.machined.controllers.secrets.certificates import to_proto
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class EtcdRootController(Reconciler):
    """MachineConfig → EtcdRootSecret; none on a node that can't issue etcd's certificates."""

    name: ClassVar[str] = "secrets.RootEtcdController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.ETCD_ROOT_SECRET),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource, while the node is a control plane node with etcd."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            if config is None or not config.machine_type.is_control_plane:
                return
            authority = effective.etcd_ca(config)
            if authority is not None and authority.key:
                await runtime.put(*ids.ETCD_ROOT_SECRET, EtcdRootSpec(etcd_ca=to_proto(authority)))
