"""machine.LVMService: logical volumes, groups and physical volumes are removed, with what they hold."""

from collections.abc import Awaitable, Mapping

from google.protobuf.empty_pb2 import Empty

from talos.api.machine import lvm_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError
from talos.disks.refresh import request_refresh, show_change
from talos.machined.node.ports.node import Node
from talos.resource import ids
from talos.system.block.lvm import Lvm, LvmReport, Row
from talos.system.block.wipe import make_blank
from talos.system.errors import UserError

_NOT_FOUND = "lvm: resource not found"
_OPEN = "lvm: logical volume is open"


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.LVMService. Only names that lvm itself reports become its arguments."""
    lvm = Lvm(node.processes.capture, make_blank)

    async def remove_logical(request: pb.LVMServiceLogicalVolumeRemoveRequest, _call: Call) -> Empty:
        if not (request.volume_group and request.logical_volume):
            raise RpcError(Code.INVALID_ARGUMENT, "volume_group and logical_volume must be set")
        report = await _read(lvm)
        _find_group(report, request.volume_group)
        row = report.find_logical(request.volume_group, request.logical_volume)
        if row is None:
            raise RpcError(Code.NOT_FOUND, _NOT_FOUND)
        _check_closed([row])
        return await _finish(node, lvm.remove_logical(row["vg_name"], row["lv_name"]))

    async def remove_group(request: pb.LVMServiceVolumeGroupRemoveRequest, _call: Call) -> Empty:
        if not request.volume_group:
            raise RpcError(Code.INVALID_ARGUMENT, "volume_group must be set")
        report = await _read(lvm)
        name = _find_group(report, request.volume_group)["vg_name"]
        _check_closed([row for row in report.logical if row["vg_name"] == name])
        return await _finish(node, lvm.remove_group(name))

    async def remove_physical(request: pb.LVMServicePhysicalVolumeRemoveRequest, _call: Call) -> Empty:
        if not request.device:
            raise RpcError(Code.INVALID_ARGUMENT, "device must be set")
        device = f"/dev/{request.device.removeprefix('/dev/')}"
        row = (await _read(lvm)).find_physical(device)
        if row is None:
            raise RpcError(Code.NOT_FOUND, _NOT_FOUND)
        if row["vg_name"]:
            raise RpcError(
                Code.FAILED_PRECONDITION, f'lvm: resource in use: {device} is in group "{row["vg_name"]}"'
            )
        return await _finish(node, lvm.remove_physical(device))

    return {
        "LogicalVolumeRemove": remove_logical,
        "VolumeGroupRemove": remove_group,
        "PhysicalVolumeRemove": remove_physical,
    }


async def _read(lvm: Lvm) -> LvmReport:
    try:
        return await lvm.report()
    except UserError as error:
        raise RpcError(Code.INTERNAL, f"lvm operation failed: {error}") from error


def _find_group(report: LvmReport, name: str) -> Row:
    groups = report.find_groups(name)
    if not groups:
        raise RpcError(Code.NOT_FOUND, _NOT_FOUND)
    if len(groups) > 1:
        raise RpcError(
            Code.FAILED_PRECONDITION,
            f'lvm: {len(groups)} volume groups have the name "{name}" '
            "(erase the disks of the one that is not meant: talosctl wipe disk)",
        )
    return groups[0]


def _check_closed(volumes: list[Row]) -> None:
    used = [row["lv_full_name"] for row in volumes if row["lv_device_open"] == "open"]
    if used:
        raise RpcError(Code.FAILED_PRECONDITION, f"{_OPEN}: {', '.join(used)}")


async def _finish(node: Node, removal: Awaitable[None]) -> Empty:
    """Remove, then have everything that shows it read anew."""
    try:
        await removal
    except UserError as error:
        raise RpcError(Code.INTERNAL, f"lvm operation failed: {error}") from error
    await request_refresh(node.state, *ids.LVM_REFRESH_REQUEST)
    await show_change(node.state)
    return Empty()
