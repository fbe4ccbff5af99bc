"""The examples of the documentation on a node: it accepts each, and what harms nothing is put in force."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from google.protobuf.empty_pb2 import Empty
from tests.harness.cluster import Cluster, check_services, eventually
from tests.harness.credentials import authority_of, client_of
from tests.harness.reading import target_of

from talos.api.definitions import block_pb2
from talos.api.machine.machine_pb2 import ApplyConfigurationRequest
from talos.api.metrics.metrics_pb2 import ReadResponse
from talos.api.rpc import RpcError
from talos.client.resources import list_resources
from talos.client.session import Session, open_session
from talos.config.change.patch import apply_patches, parse_patch
from talos.resource import kinds
from talos.system.errors import UserError
from talos.talosctl.client.change import read_config, send_config

EXAMPLES = sorted((Path(__file__).parents[2] / "docs/examples").glob("*.yaml"))
NO_DISKS = "a container has no disks of its own"
OBSTACLES = {
    "e-backups": f"ExistingVolumeConfig backups: {NO_DISKS}",
    "r-ceph": f"RawVolumeConfig ceph: {NO_DISKS}",
    "s-swap": f"SwapVolumeConfig swap: {NO_DISKS}",
    "u-data": f"UserVolumeConfig data: {NO_DISKS} (use volumeType: directory)",
    "x-share": "ExternalVolumeConfig share: a container has no virtual devices of its own",
}
"""What a container has no devices for: the config is accepted, the volume's status has the error."""
MACHINE, NETWORK = "is the machine's below", "cuts the node off, or has it use addresses of others"
PLACEHOLDER, OUTSIDE = "its keys are placeholders, which no controller can use", "calls a service outside"
HELD_BACK = {
    "BondConfig": NETWORK,
    "BridgeConfig": NETWORK,
    "DiscoveryIdentityConfig": "makes the node a member of another cluster",
    "HCloudVIPConfig": OUTSIDE,
    "ImageVerificationConfig": "refuses the images of etcd and of other tests",
    "KernelModuleConfig": MACHINE,
    "KubeAPIServerCAConfig": PLACEHOLDER,
    "KubeAggregatorCAConfig": PLACEHOLDER,
    "KubeExternalManifestConfig": OUTSIDE,
    "KubeServiceAccountConfig": PLACEHOLDER,
    "Layer2VIPConfig": NETWORK,
    "LinkConfig": NETWORK,
    "NetworkDefaultActionConfig": NETWORK,
    "PCIDriverRebindConfig": MACHINE,
    "SideroLinkConfig": OUTSIDE,
    "SysctlConfig": MACHINE,
    "SysfsConfig": MACHINE,
    "UnattendedInstallConfig": "is for machines without a system",
    "WatchdogTimerConfig": MACHINE,
    "ZswapConfig": MACHINE,
}
"""Examples that are not put in force, and why."""


def call[T](cluster: Cluster, work: Callable[[Session], Awaitable[T]]) -> T:
    """What comes of calls to the node; a process for each would take longer than all of them."""
    authority = authority_of(cluster)
    target = target_of(cluster.addresses[0], authority.crt, client_of(authority, "os:admin"))

    async def run() -> T:
        async with open_session(target) as session:
            return await work(session)

    return asyncio.run(run())


async def apply(session: Session, text: str, *, dry_run: bool = False) -> None:
    mode = ApplyConfigurationRequest.NO_REBOOT
    await send_config(session, "", ApplyConfigurationRequest(data=text.encode(), mode=mode, dry_run=dry_run))


def change(text: str, *examples: Path) -> str:
    """The config with examples instead of documents of the same kind and name, or beside the others."""
    return apply_patches(text, [parse_patch(path.read_bytes(), source=path.name) for path in examples])


async def count_failures(session: Session) -> dict[str, int]:
    """Of the controllers of all daemons."""
    reply = await session.unary("", "/talos.metrics.MetricsService/Read", Empty(), ReadResponse)
    return {controller.name: controller.failures for controller in reply.controllers}


async def find_obstacles(session: Session) -> dict[str, str]:
    """The errors of volumes."""
    kind = kinds.VOLUME_STATUS
    statuses = {
        resource.metadata.id: block_pb2.VolumeStatusSpec.FromString(resource.spec.proto_spec)
        for resource in await list_resources(session, "", kind.namespace, kind.type)
    }
    return {volume: status.error_message for volume, status in statuses.items() if status.error_message}


@pytest.fixture
def config(cluster: Cluster) -> Iterator[str]:
    """The config in force, which is again in the end."""
    text = call(cluster, lambda session: read_config(session, ""))
    yield text
    call(cluster, lambda session: apply(session, text))
    eventually("services run with the config from before", lambda: check_services(cluster, ""))


def test_a_node_accepts_every_example(cluster: Cluster, config: str) -> None:
    async def find_refused(session: Session) -> dict[str, str]:
        refused: dict[str, str] = {}
        for path in EXAMPLES:
            try:
                await apply(session, change(config, path), dry_run=True)
            except (RpcError, UserError) as error:
                refused[path.stem] = str(error)
        return refused

    assert call(cluster, find_refused) == {}
    assert call(cluster, lambda session: read_config(session, "")) == config


def test_no_controller_fails_with_the_examples_in_force(cluster: Cluster, config: str) -> None:
    chosen = [path for path in EXAMPLES if path.stem not in HELD_BACK]
    assert len(chosen) + len(HELD_BACK) == len(EXAMPLES)
    text = change(config, *chosen)
    before = call(cluster, count_failures)
    call(cluster, lambda session: apply(session, text))

    def is_in_force() -> None:
        assert call(cluster, find_obstacles) == OBSTACLES
        check_services(cluster, "")

    eventually("the examples are in force", is_in_force)
    assert call(cluster, lambda session: read_config(session, "")) == text
    call(cluster, lambda session: apply(session, config))

    def is_out_of_force() -> None:
        assert call(cluster, find_obstacles) == {}
        check_services(cluster, "")

    eventually("the examples are out of force", is_out_of_force)
    after = call(cluster, count_failures)
    assert {name: count for name, count in after.items() if count > before.get(name, 0)} == {}
