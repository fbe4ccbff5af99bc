"""The state of ``machine.disks`` as a whole."""

import pytest
from tests.unit.machined.controllers.running import running

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.block_pb2 import VolumeStatusSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.machined.controllers.block.user_disks import UserDiskConfigController
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState

CONFIG = """\
version: v1alpha1
machine:
  type: worker
  disks:
    - device: /dev/vdb
      partitions: [{mountpoint: /var/mnt/logs, size: 1GiB}, {mountpoint: /var/mnt/data}]
"""
READY, CLOSED, FAILED = (
    enums.VOLUME_PHASE_READY,
    enums.VOLUME_PHASE_CLOSED,
    enums.VOLUME_PHASE_FAILED,
)


async def make_state(config: str) -> MemoryState:
    state = MemoryState()
    await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=config.encode()))
    return state


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ({}, (False, False)),
        ({"/dev/vdb-1": READY}, (False, False)),
        ({"/dev/vdb-1": READY, "/dev/vdb-2": FAILED}, (False, False)),
        ({"/dev/vdb-1": READY, "/dev/vdb-2": READY, "STATE": FAILED}, (True, False)),
        ({"/dev/vdb-1": CLOSED, "/dev/vdb-2": CLOSED, "STATE": READY}, (False, True)),
    ],
)
async def test_all_partitions_count(
    phases: dict[str, enums.BlockVolumePhase], expected: tuple[bool, bool]
) -> None:
    state = await make_state(CONFIG)
    for volume, phase in phases.items():
        await put(state, kinds.VOLUME_STATUS, volume, VolumeStatusSpec(phase=phase))
    async with running(state, UserDiskConfigController()):
        found = await wait_for(state, *ids.USER_DISK_CONFIG_STATUS, lambda _: True)
    assert (found.spec.ready, found.spec.torn_down) == expected


async def test_without_any_nothing_is_awaited() -> None:
    state = await make_state("version: v1alpha1\nmachine: {type: worker}\n")
    async with running(state, UserDiskConfigController()):
        found = await wait_for(state, *ids.USER_DISK_CONFIG_STATUS, lambda _: True)
    assert found.spec.ready
    assert not found.spec.torn_down
