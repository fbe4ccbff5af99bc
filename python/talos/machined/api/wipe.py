"""storage.StorageService/BlockDeviceWipe: erasing a disk or partition that is not in use."""

from collections.abc import Mapping
from functools import partial

import trio

from talos.api.definitions import block_pb2, enums_pb2
from talos.api.rpc import Call, Code, Handler, RpcError
from talos.api.storage import storage_pb2 as pb
from talos.disks.installation import find_system_disk
from talos.disks.refresh import show_change
from talos.machined.node.ports.node import Node
from talos.resource.kinds import BLOCK_DEVICE, DISCOVERED_VOLUME, DISK, VOLUME_STATUS
from talos.resource.resource import Resource
from talos.resource.state import NotFoundError, State
from talos.system.block.partitions import delete_partitions
from talos.system.block.wipe import WipeMethod, wipe_device
from talos.system.errors import UserError

type _Descriptor = pb.BlockDeviceWipeDescriptor


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of storage.StorageService."""

    async def wipe(request: pb.BlockDeviceWipeRequest, _call: Call) -> pb.BlockDeviceWipeResponse:
        if not request.devices:
            raise RpcError(Code.INVALID_ARGUMENT, "no device is named")
        # Everything is checked before anything is erased.
        devices = [await check_device(node.state, descriptor) for descriptor in request.devices]
        for descriptor, device in zip(request.devices, devices, strict=True):
            await _wipe(device, WipeMethod(descriptor.method))
            if descriptor.drop_partition:
                await _drop_partition(node, device)
        await show_change(node.state)
        return pb.BlockDeviceWipeResponse(messages=[pb.BlockDeviceWipe()])

    return {"BlockDeviceWipe": wipe}


async def check_device(state: State, descriptor: _Descriptor) -> Resource[block_pb2.DeviceSpec]:
    """The device of a descriptor. RpcError when it is not there or must not be erased."""
    name = descriptor.device.removeprefix("/dev/")
    if descriptor.method not in pb.BlockDeviceWipeDescriptor.Method.values():
        raise RpcError(Code.INVALID_ARGUMENT, f"unknown method {descriptor.method} to wipe {name}")
    try:
        device = await state.get(BLOCK_DEVICE, name)
    except NotFoundError:
        raise RpcError(Code.NOT_FOUND, f'blockdevice "{name}" not found') from None
    spec = device.spec
    disk = spec.parent or name
    await _check_disk(state, name, disk)
    if descriptor.drop_partition and spec.type != "partition":
        raise RpcError(
            Code.INVALID_ARGUMENT, f'blockdevice "{name}" is not a partition: it can\'t be dropped'
        )
    if not descriptor.skip_secondary_check:
        await check_secondaries(state, name)
    if not descriptor.skip_volume_check:
        await check_volumes(state, name)
    return device


async def _check_disk(state: State, name: str, disk: str) -> None:
    try:
        spec = (await state.get(DISK, disk)).spec
    except NotFoundError:
        raise RpcError(Code.FAILED_PRECONDITION, f'blockdevice "{name}" is no disk and on none') from None
    if spec.cdrom:
        raise RpcError(Code.FAILED_PRECONDITION, f'blockdevice "{name}" is a CD-ROM')
    if spec.readonly:
        raise RpcError(Code.FAILED_PRECONDITION, f'blockdevice "{name}" is read-only')
    if name == await find_system_disk(state):
        raise RpcError(
            Code.FAILED_PRECONDITION,
            f'blockdevice "{name}" is the system disk (use talosctl reset to erase it)',
        )


async def check_secondaries(state: State, name: str) -> None:
    """RpcError when another device is made of this one."""
    for device in await state.list(BLOCK_DEVICE):
        if name in device.spec.secondaries:
            raise RpcError(
                Code.FAILED_PRECONDITION, f'blockdevice "{name}" is in use by blockdevice "{device.id}"'
            )


async def check_volumes(state: State, name: str) -> None:
    """RpcError when a volume is on the device, or on a partition of it.

    One that failed for what is there may go.
    """
    paths = {f"/dev/{name}"}
    paths |= {
        volume.spec.dev_path for volume in await state.list(DISCOVERED_VOLUME) if volume.spec.parent == name
    }
    for volume in await state.list(VOLUME_STATUS):
        places = {volume.spec.location, volume.spec.mount_location} - {""}
        if paths & places and volume.spec.phase != enums_pb2.VOLUME_PHASE_FAILED:
            raise RpcError(
                Code.FAILED_PRECONDITION, f'blockdevice "{name}" is in use by volume "{volume.id}"'
            )


async def _wipe(device: Resource[block_pb2.DeviceSpec], method: WipeMethod) -> None:
    try:
        await trio.to_thread.run_sync(partial(wipe_device, f"/dev/{device.id}", method))
    except OSError as error:
        raise RpcError(
            Code.FAILED_PRECONDITION, f'blockdevice "{device.id}" is not erased: {error.strerror}'
        ) from error


async def _drop_partition(node: Node, device: Resource[block_pb2.DeviceSpec]) -> None:
    spec = device.spec
    try:
        await delete_partitions(node.processes.capture, f"/dev/{spec.parent}", [spec.partition_number])
    except UserError as error:
        raise RpcError(
            Code.INTERNAL, f'blockdevice "{device.id}" is erased, but not dropped: {error}'
        ) from error
