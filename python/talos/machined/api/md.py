"""machine.MDService: an array of software RAID is erased, stopped, and its members are erased."""

from collections.abc import Mapping, Sequence
from functools import partial

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.definitions import block_pb2
from talos.api.machine import md_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError
from talos.disks.refresh import request_refresh, show_change
from talos.machined.api.wipe import check_secondaries, check_volumes
from talos.machined.node.ports.node import Node
from talos.resource import ids, kinds
from talos.resource.resource import Resource
from talos.resource.state import NotFoundError, State
from talos.system.block.md import ARRAY, Mdadm
from talos.system.block.wipe import WipeMethod, make_blank, wipe_device
from talos.system.errors import UserError


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MDService."""
    mdadm = Mdadm(node.processes.capture, make_blank)

    async def destroy(request: pb.MDDestroyRequest, _call: Call) -> Empty:
        array = await _find_array(node.state, request.device)
        members = await _find_members(node.state, array.id)
        # Erased as an array first: an encrypted one has its keys where no end of a member is.
        await _erase(array.spec.dev_path, Code.FAILED_PRECONDITION, "md: resource in use")
        try:
            await mdadm.stop(array.spec.dev_path)
        except UserError as error:
            raise RpcError(Code.INTERNAL, f"md operation failed: {error}") from error
        for member in members:
            await _erase(member, Code.INTERNAL, "md operation failed")
        await request_refresh(node.state, *ids.MD_REFRESH_REQUEST)
        await show_change(node.state)
        return Empty()

    return {"Destroy": destroy}


async def _find_array(state: State, device: str) -> Resource[block_pb2.DiskSpec]:
    """The array of a path or a link to it, when nothing uses it. Only a path of the State is used."""
    if not device:
        raise RpcError(Code.INVALID_ARGUMENT, "device must be set")
    if not device.startswith("/dev/"):
        raise RpcError(Code.INVALID_ARGUMENT, "device must be a full /dev path")
    disks = await state.list(kinds.DISK)
    disk = next((disk for disk in disks if device in {disk.spec.dev_path, *disk.spec.symlinks}), None)
    if disk is None:
        raise RpcError(Code.NOT_FOUND, "md: array not found")
    if not disk.spec.dev_path.startswith(ARRAY):
        raise RpcError(Code.INVALID_ARGUMENT, f"md: invalid argument: {disk.spec.dev_path} is no array")
    try:
        await check_secondaries(state, disk.id)
        await check_volumes(state, disk.id)
    except RpcError as error:
        raise RpcError(Code.FAILED_PRECONDITION, f"md: resource in use: {error.reason}") from error
    return disk


async def _find_members(state: State, id: str) -> Sequence[str]:
    try:
        device = await state.get(kinds.BLOCK_DEVICE, id)
    except NotFoundError:
        raise RpcError(Code.NOT_FOUND, "md: array not found") from None
    return [f"/dev/{name}" for name in device.spec.secondaries]


async def _erase(device: str, code: Code, words: str) -> None:
    try:
        await trio.to_thread.run_sync(partial(wipe_device, device, WipeMethod.FAST))
    except OSError as error:
        raise RpcError(code, f"{words}: {device} is not erased: {error.strerror}") from error
