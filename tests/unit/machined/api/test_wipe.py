"""BlockDeviceWipe and Reset: what is refused, and with which words."""

from typing import Any

import pytest

from talos.api.definitions import block_pb2, enums_pb2
from talos.api.machine.machine_pb2 import ResetPartitionSpec, ResetRequest
from talos.api.rpc import Code, RpcError
from talos.api.storage import storage_pb2 as pb
from talos.machined.api.wipe import check_device
from talos.resource.changes import modify
from talos.resource.kinds import BLOCK_DEVICE, DISCOVERED_VOLUME, DISK, SYSTEM_DISK, VOLUME_STATUS
from talos.resource.memory.state import MemoryState
from talos.resource.resource import make_resource
from talos.system.errors import UserError

from .conftest import LOCKED_ACTOR


async def make_state(state: MemoryState) -> MemoryState:
    for name, parent in (
        ("vda", ""),
        ("vdb", ""),
        ("vdb1", "vdb"),
        ("vdc", ""),
        ("sr0", ""),
        ("ro", ""),
        ("loop0", ""),
    ):
        spec = block_pb2.DeviceSpec(type="partition" if parent else "disk", parent=parent, partition_number=1)
        await state.create(make_resource(BLOCK_DEVICE, name, spec))
        if not parent and name != "loop0":
            disk = block_pb2.DiskSpec(dev_path=f"/dev/{name}", cdrom=name == "sr0", readonly=name == "ro")
            await state.create(make_resource(DISK, name, disk))
    await state.create(make_resource(BLOCK_DEVICE, "dm-0", block_pb2.DeviceSpec(secondaries=["vdc"])))
    await state.create(make_resource(SYSTEM_DISK, "system-disk", block_pb2.SystemDiskSpec(disk_id="vda")))
    volume = block_pb2.DiscoveredVolumeSpec(parent="vdb", dev_path="/dev/vdb1")
    await state.create(make_resource(DISCOVERED_VOLUME, "vdb1", volume))
    status = block_pb2.VolumeStatusSpec(location="/dev/vdb1")
    await state.create(make_resource(VOLUME_STATUS, "u-data", status))
    return state


@pytest.mark.parametrize(
    ("descriptor", "code", "message"),
    [
        ({"device": "vdz"}, Code.NOT_FOUND, 'blockdevice "vdz" not found'),
        ({"device": "/dev/vda"}, Code.FAILED_PRECONDITION, 'blockdevice "vda" is the system disk'),
        ({"device": "sr0"}, Code.FAILED_PRECONDITION, 'blockdevice "sr0" is a CD-ROM'),
        ({"device": "ro"}, Code.FAILED_PRECONDITION, 'blockdevice "ro" is read-only'),
        ({"device": "loop0"}, Code.FAILED_PRECONDITION, 'blockdevice "loop0" is no disk and on none'),
        ({"device": "vdc"}, Code.FAILED_PRECONDITION, 'blockdevice "vdc" is in use by blockdevice "dm-0"'),
        ({"device": "vdb"}, Code.FAILED_PRECONDITION, 'blockdevice "vdb" is in use by volume "u-data"'),
        ({"device": "vdb1"}, Code.FAILED_PRECONDITION, 'blockdevice "vdb1" is in use by volume "u-data"'),
        (
            {"device": "vdc", "drop_partition": True},
            Code.INVALID_ARGUMENT,
            'blockdevice "vdc" is not a partition',
        ),
        ({"device": "vdc", "method": 7}, Code.INVALID_ARGUMENT, "unknown method 7"),
    ],
)
async def test_what_is_not_erased(descriptor: dict[str, Any], code: Code, message: str) -> None:
    state = await make_state(MemoryState())
    with pytest.raises(RpcError) as caught:
        await check_device(state, pb.BlockDeviceWipeDescriptor(**descriptor))
    assert caught.value.code is code
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "descriptor",
    [{"device": "vdc", "skip_secondary_check": True}, {"device": "vdb1", "skip_volume_check": True}],
)
async def test_checks_that_may_be_left_out(descriptor: dict[str, Any]) -> None:
    state = await make_state(MemoryState())
    assert (await check_device(state, pb.BlockDeviceWipeDescriptor(**descriptor))).id == descriptor["device"]


async def test_nothing_is_erased_when_one_device_can_not_be(caller: Any) -> None:
    devices = [pb.BlockDeviceWipeDescriptor(device=name) for name in ("vdc", "vdz")]
    with pytest.raises(RpcError, match="not found"):
        await caller.call(
            "BlockDeviceWipe", pb.BlockDeviceWipeRequest(devices=devices), "storage.StorageService"
        )
    with pytest.raises(RpcError, match="no device is named"):
        await caller.call("BlockDeviceWipe", pb.BlockDeviceWipeRequest(), "storage.StorageService")


async def test_a_container_only_ends(caller: Any) -> None:
    wipe = [ResetPartitionSpec(label="STATE", wipe=True)]
    request = ResetRequest(system_partitions_to_wipe=wipe, reboot=True)
    [message] = (await caller.call("Reset", request)).messages
    assert message.actor_id
    assert caller.node.power.begun == ["reset"]
    assert not caller.node.power.plan.erasures
    assert not caller.node.power.plan.reboot


async def test_a_machine_is_reset(caller: Any, metal: Any) -> None:
    await make_state(caller.node.state)
    await metal.call("Reset", ResetRequest(graceful=True, reboot=True, user_disks_to_wipe=["/dev/vdb"]))
    plan = caller.node.power.plan
    assert [erasure.disk.path for erasure in plan.erasures] == ["/dev/vda"]
    assert plan.user_disks == ("/dev/vdb",)
    assert (plan.graceful, plan.reboot) == (True, True)
    with pytest.raises(UserError, match="there is no disk"):
        await metal.call("Reset", ResetRequest(user_disks_to_wipe=["/dev/vdz"]))
    caller.node.power.locked = True
    [message] = (await metal.call("Reset", ResetRequest())).messages
    assert message.actor_id == LOCKED_ACTOR


async def test_the_remedy_of_a_volume_that_failed_works() -> None:
    state = await make_state(MemoryState())
    await modify(
        state, VOLUME_STATUS, "u-data", lambda spec: setattr(spec, "phase", enums_pb2.VOLUME_PHASE_FAILED)
    )
    await check_device(state, pb.BlockDeviceWipeDescriptor(device="vdb1"))
