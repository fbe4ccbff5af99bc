"""The sequence ``boot``: from a config to all services."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api import machine_types
from talos.api.resource import config_pb2
from talos.machined.boot.machine import Machine
from talos.machined.boot.phases.ephemeral import make_ephemeral_phase
from talos.machined.boot.sequence import Phase, Task
from talos.machined.node.workloads import SANDBOXD
from talos.machined.services.etcd import ETCD
from talos.machined.services.kubelet import KUBELET
from talos.machined.services.table import SERVICES
from talos.resource import ids
from talos.resource.changes import put, wait_for
from talos.resource.resource import Resource
from talos.system import kernel

if TYPE_CHECKING:
    from talos.config.model import Config

START_TIMEOUT = 70 * 60.0
"""Seconds until all services have to be up."""
REPORT_INTERVAL = 15.0
"""Seconds between two log lines about pending services."""


def make_boot(machine: Machine) -> tuple[Phase, ...]:
    """From a config to all services."""

    async def share_filesystems() -> None:
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SHARED)

    async def start_everything() -> None:
        names = await choose_services(machine)
        machine.workloads.is_isolated = SANDBOXD in names
        await put(machine.state, *ids.KUBELET_LIFECYCLE, Empty())
        machine.supervisor.start_soon(names)
        if KUBELET not in names:
            machine.nursery.start_soon(start_kubelet_later, machine)
        # A node whose kubelet has no image, or the wrong flags, can be repaired, and so has to be restarted.
        await wait_for_services(machine, [name for name in names if name != KUBELET])

    return (
        Phase("sharedFilesystems", (Task("setupSharedFilesystems", share_filesystems),)),
        make_ephemeral_phase(machine),
        Phase("userSetup", (Task("writeUserFiles", partial(write_files, machine)),), may_fail=True),
        Phase("startEverything", (Task("startAllServices", start_everything),)),
    )


async def write_files(machine: Machine) -> None:
    """Write the files of the main document; what is not possible is logged."""
    from talos.config.effective import machine as effective_machine
    from talos.machined.boot.user_files import write_user_files

    files = effective_machine.files(await read_config(machine))
    for problem in await trio.to_thread.run_sync(write_user_files, files, machine.ports.mounts):
        machine.log.error("a file of the config is not written", reason=problem)


async def choose_services(machine: Machine) -> list[str]:
    """The services that a machine of this role and config starts."""
    # What reads configs is large: PID 1 has started its first services by now.
    from talos.config.effective import cluster as effective_cluster
    from talos.config.effective import machine as effective_machine
    from talos.config.effective import secrets as effective_secrets

    specs = [spec for spec in SERVICES if not spec.on_demand]
    names = [spec.id for spec in specs]
    is_member = await is_control_plane(machine)
    config = await read_config(machine)
    if not is_member:
        names = [spec.id for spec in specs if not spec.control_plane_only]
    elif effective_secrets.etcd_ca(config) is None:
        names.remove(ETCD)  # its config has none
    if effective_cluster.cluster_endpoint(config) is None:
        names.remove(KUBELET)  # there is no Kubernetes
    if machine.platform.has_kernel and effective_machine.isolates_workloads(config):
        names.append(SANDBOXD)
    return names


async def start_kubelet_later(machine: Machine) -> None:
    """Start it once the config has a cluster to join."""
    await wait_for(machine.state, *ids.KUBELET_SPEC, lambda _: True)
    machine.supervisor.start_soon([KUBELET])


async def read_config(machine: Machine) -> "Config":
    """The active config."""
    from talos.config.active import parse_active

    return parse_active((await machine.state.get(*ids.MACHINE_CONFIG)).spec.yaml_marshalled)


async def is_control_plane(machine: Machine) -> bool:
    """Whether the config makes this machine part of the control plane; waits until that is known."""
    found = await wait_for(machine.state, *ids.MACHINE_TYPE, _is_known)
    return machine_types.is_control_plane(found.spec.machine_type)


def _is_known(resource: Resource[config_pb2.MachineTypeSpec]) -> bool:
    return resource.spec.machine_type != config_pb2.UNKNOWN


async def wait_for_services(machine: Machine, names: Iterable[str]) -> None:
    """Wait until all of them are up; log periodically which are not."""
    names = tuple(names)
    with trio.fail_after(START_TIMEOUT):
        while True:
            with trio.move_on_after(REPORT_INTERVAL) as scope:
                await machine.supervisor.wait_until_settled(names)
            if not scope.cancelled_caught:
                return
            for name, what in machine.supervisor.unsettled(names).items():
                machine.log.info(f"service[{name}]: not up yet: {what}")
