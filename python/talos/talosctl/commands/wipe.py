"""``talosctl wipe``."""

from collections.abc import Callable

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from talos.api.machine.lvm_pb2 import (
    LVMServiceLogicalVolumeRemoveRequest,
    LVMServicePhysicalVolumeRemoveRequest,
    LVMServiceVolumeGroupRemoveRequest,
)
from talos.api.machine.md_pb2 import MDDestroyRequest
from talos.api.storage.storage_pb2 import (
    BlockDeviceWipe,
    BlockDeviceWipeDescriptor,
    BlockDeviceWipeRequest,
    BlockDeviceWipeResponse,
)
from talos.client.session import Session
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import ignore, parts, run_each
from talos.talosctl.client.flags import CLIENT_FLAGS, INSECURE_FLAGS

METHODS = tuple(BlockDeviceWipeDescriptor.Method.keys())


def run_wipe_disk(invocation: Invocation) -> int:
    """Wipe block devices."""
    flags = invocation.flags
    method = flags.text("method").upper()
    if method not in METHODS:
        raise UserError(f'"{method}" is no way to wipe', where="--method", hint=f"use {' or '.join(METHODS)}")
    request = BlockDeviceWipeRequest(
        devices=[
            BlockDeviceWipeDescriptor(
                device=name,
                method=method,
                drop_partition=flags.is_set("drop-partition"),
            )
            for name in invocation.args
        ]
    )

    async def call(session: Session, node: str) -> list[BlockDeviceWipe]:
        path = "/storage.StorageService/BlockDeviceWipe"
        reply = await session.unary(node, path, request, BlockDeviceWipeResponse)
        return list(parts(reply, BlockDeviceWipe))

    return run_each(invocation, call, ignore)


def _simple(method: str, make: Callable[[str], Message]) -> Callable[[Invocation], int]:
    def run(invocation: Invocation) -> int:
        request = make(invocation.args[0])

        async def call(session: Session, node: str) -> Empty:
            return await session.unary(node, method, request, Empty)

        return run_each(invocation, call, ignore)

    return run


def _logical_volume(text: str) -> Message:
    group, slash, volume = text.partition("/")
    if not (group and slash and volume):
        raise UserError(f'"{text}" names no logical volume', hint="write <volume group>/<logical volume>")
    return LVMServiceLogicalVolumeRemoveRequest(volume_group=group, logical_volume=volume)


_LVM = "/machine.LVMService/"

COMMAND = Command(
    name="wipe",
    summary="Wipe disks, volumes and arrays",
    inherited=CLIENT_FLAGS,
    commands=(
        Command(
            name="disk",
            usage="<device names>...",
            summary="Wipe a disk or partition that is not in use",
            flags=(
                *INSECURE_FLAGS,
                Flag(
                    name="drop-partition",
                    type=Type.BOOL,
                    default="false",
                    help="remove the partition afterwards",
                ),
                Flag(name="method", default="FAST", help="FAST (signatures only) or ZEROES (everything)"),
            ),
            minimum=1,
            maximum=-1,
            run=run_wipe_disk,
        ),
        Command(
            name="lv",
            usage="<vg/lv>",
            summary="Remove a logical volume",
            flags=INSECURE_FLAGS,
            minimum=1,
            maximum=1,
            run=_simple(_LVM + "LogicalVolumeRemove", _logical_volume),
        ),
        Command(
            name="md",
            usage="<device>",
            summary="Destroy a software RAID array",
            flags=INSECURE_FLAGS,
            minimum=1,
            maximum=1,
            run=_simple("/machine.MDService/Destroy", lambda text: MDDestroyRequest(device=text)),
        ),
        Command(
            name="pv",
            usage="<device>",
            summary="Remove a physical volume",
            flags=INSECURE_FLAGS,
            minimum=1,
            maximum=1,
            run=_simple(
                _LVM + "PhysicalVolumeRemove", lambda text: LVMServicePhysicalVolumeRemoveRequest(device=text)
            ),
        ),
        Command(
            name="vg",
            usage="<name>",
            summary="Remove a volume group",
            flags=INSECURE_FLAGS,
            minimum=1,
            maximum=1,
            run=_simple(
                _LVM + "VolumeGroupRemove", lambda text: LVMServiceVolumeGroupRemoveRequest(volume_group=text)
            ),
        ),
    ),
)
